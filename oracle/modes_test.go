package oracle

import (
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestBFloat16Case: a real bfloat16 autocast rollout of PyTorch's CPU, one step
// at a time, is 6.8e-3 of its std from float32 arithmetic. Rounding where
// autocast rounds leaves what its kernels do inside an operation (float32
// sums, a polynomial for erf): now and then another neighbour, whose effect
// grows through ten layers. No more than 0.3 of that distance may be left, and
// none of it by luck: other rules are farther.
func TestBFloat16Case(t *testing.T) {
	c := rig.OpenCase(t, "seed_small_bf16")
	distance := func(mode graph.Mode) float64 {
		r, err := CheckOneStep(c, OneStepOptions{Mode: mode, Noise: "torch-cpu"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: RMS %.3g of the std, digest %.12s", r.Mode, r.All.RMSOverStd, r.Digest)
		return float64(r.All.RMSOverStd)
	}
	whole := float32WithHalfNoise(t, c)
	if whole < 6e-3 || whole > 8e-3 {
		t.Errorf("distance to float32 %.3g of the std: want about 6.8e-3", whole)
	}
	cpu := distance(graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CPU113})
	if !(cpu <= 0.3*whole) {
		t.Errorf("distance to bfloat16 %.3g of the std, to float32 %.3g: want at most 0.3 of it", cpu, whole)
	}
	if cuda := distance(graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CUDA113}); !(cuda > 1.15*cpu) {
		t.Errorf("the rules of cuda are as close as those of the cpu: %.3g, %.3g", cuda, cpu)
	}
}

// float32WithHalfNoise returns the RMS distance, over the trajectory's std, of
// float32 steps with the draws that PyTorch made for a bfloat16 tensor.
func float32WithHalfNoise(t *testing.T, c *rollout.Case) float64 {
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.OpenStream("torch-cpu", op, graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CPU113})
	if err != nil {
		t.Fatal(err)
	}
	traj, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	s := &rollout.Stepper{Operator: op, Config: c.Rollout, Mode: graph.Mode{Precision: fp16.Float32}}
	a := diff.NewAccumulator(traj.Format, diff.Std(traj.Data))
	for k, b := range c.Rollout.EngineBatches() {
		for step := 1; step < traj.T; step++ {
			x := tensor.New(fp16.Float32, b[1]-b[0], traj.C, traj.H, traj.W)
			for m := b[0]; m < b[1]; m++ {
				copy(x.Samples(m-b[0], m-b[0]+1).Data, traj.At(m, step-1))
			}
			draws, err := stream.Draws(k, b[0], b[1], step)
			if err != nil {
				t.Fatal(err)
			}
			next, err := s.Step(x, draws)
			if err != nil {
				t.Fatal(err)
			}
			for m := b[0]; m < b[1]; m++ {
				a.Add(next.Samples(m-b[0], m-b[0]+1).Data, traj.At(m, step))
			}
		}
	}
	return float64(a.Diff().RMSOverStd)
}
