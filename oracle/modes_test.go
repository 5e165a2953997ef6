package oracle

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
)

// TestBFloat16Case: a real bfloat16 autocast rollout of PyTorch's CPU, one step
// at a time, is 6.8e-3 of its std from float32 arithmetic. Rounding where
// autocast rounds leaves what its kernels do inside an operation (float32
// sums, a polynomial for erf): now and then another neighbour, whose effect
// grows through ten layers. No more than 0.3 of that distance may be left, and
// none of it by luck: other rules are farther.
func TestBFloat16Case(t *testing.T) {
	c := openCase(t, "seed_small_bf16")
	distance := func(mode operator.Mode) float64 {
		r, err := CheckOneStep(c, OneStepOptions{Mode: mode, Noise: "torch-cpu"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: RMS %.3g of the std, digest %.12s", r.Mode, r.All.RMSOverStd, r.Digest)
		return float64(r.All.RMSOverStd)
	}
	whole := distance(operator.Mode{Precision: fp16.Float32})
	if whole < 6e-3 || whole > 8e-3 {
		t.Errorf("distance to float32 %.3g of the std: want about 6.8e-3", whole)
	}
	cpu := distance(operator.Mode{Precision: fp16.BFloat16, Autocast: operator.CPU113})
	if !(cpu <= 0.3*whole) {
		t.Errorf("distance to bfloat16 %.3g of the std, to float32 %.3g: want at most 0.3 of it", cpu, whole)
	}
	if cuda := distance(operator.Mode{Precision: fp16.BFloat16, Autocast: operator.CUDA113}); !(cuda > 1.15*cpu) {
		t.Errorf("the rules of cuda are as close as those of the cpu: %.3g, %.3g", cuda, cpu)
	}
}
