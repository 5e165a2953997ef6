package rollout

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestPostAllocates: normalising allocates nothing, not even for quotients that are
// ties.
func TestPostAllocates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for data, fill := range map[string]func() float64{
		"normal":   r.NormFloat64,
		"integers": func() float64 { return float64(r.IntN(17) - 8) },
		"constant": func() float64 { return 0.3 },
		"offset":   func() float64 { return 1e4 + 1e-3*r.NormFloat64() },
		"wide":     func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(60)-30) },
		"ties":     func() float64 { return float64(r.IntN(1<<25+1))/(1<<24) - 1 }, // over 2: half of 2^-24
	} {
		x := make([]float64, 4096)
		for i := range x {
			x[i] = fp16.Float32.Round(fill())
		}
		if data == "ties" {
			x[0], x[1] = -1, 1
		}
		y := make([]float64, len(x))
		for _, n := range []Normalization{MinMax, ZScore} {
			if a := testing.AllocsPerRun(3, func() {
				copy(y, x)
				Config{Normalization: n}.post(y, fp16.Float32)
			}); a != 0 {
				t.Errorf("%v of %s: %v allocations", n, data, a)
			}
		}
		var m exact.Moments
		m.Add(x)
		z := m.ZScore(tiny)
		if a := testing.AllocsPerRun(1, func() {
			for _, v := range x {
				z.Settle(v)
			}
		}); a != 0 {
			t.Errorf("settled scores of %s: %v allocations", data, a)
		}
	}
}

// TestStepAllocates: a step into memory that there is allocates nothing, whatever
// the policy.
func TestStepAllocates(t *testing.T) {
	if asm.RowKernels() == nil {
		t.Log("plain Go settles elements with memory of its own")
		return
	}
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := noise.NewTorchCPU("2.x", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []Policy{Autoregressive, Residual, Convex} {
		for _, precision := range []string{"float32", "float16"} {
			mode, err := operator.ParseMode(precision, "")
			if err != nil {
				t.Fatal(err)
			}
			s := &Stepper{Operator: op, Config: Config{Policy: policy, Alpha: 0.5, Dt: 0.1}, Mode: mode, Overflow: func(string, int) {}}
			x := tensor.New(s.Config.StateFormat(mode.Output()), 2, 3, 16, 16)
			for i := range x.Data {
				x.Data[i] = fp16.Float16.Round(float64(i%17)/8 - 1)
			}
			next := tensor.Like(x)
			if a := testing.AllocsPerRun(20, func() {
				if err := s.step(next, x, g); err != nil {
					t.Fatal(err)
				}
				x, next = next, x
			}); a != 0 {
				t.Errorf("%s, %s: %v allocations", policy, precision, a)
			}
		}
	}
}
