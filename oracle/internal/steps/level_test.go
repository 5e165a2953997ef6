package steps

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// pointwise is a bench of an operator whose convolutions are of 1x1: no method forms such sums in tiles.
func pointwise(t *testing.T, act string, layers int) *stepBench {
	return newStepBenchOf(t, "float32", "", operator.Config{
		NumLayers: layers, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 1, Activation: act,
		Normalization: "instance", NoiseType: "gaussian", NoiseScale: .05,
	}, convex(.1))
}

// TestFastActivations: activations two units in the last place off are right, and those of a fast exponential are not,
// where no sums are formed in tiles and hide them.
func TestFastActivations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"silu", "gelu", "tanh"} {
		for _, off := range []float64{0x1p-22, 0x1p-16} {
			b := pointwise(t, name, 2)
			b.device = func(int) *emulate.Device {
				d := b.correct(b.gate.claim, 1)
				disturb := d.Perturb
				d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
					disturb(i, y, in)
					if n := b.gate.e.Machine.Nodes[i]; n.Op == operator.OpAct && n.Act != act.Identity {
						for k, v := range y.Data {
							y.Data[k] = v * (1 + off*(float64(measure.Mix64(math.Float64bits(v))%1001)/500-1))
						}
					}
				}
				return d
			}
			r := b.check()
			if failed := slices.ContainsFunc(r.Findings,
				func(f report.Finding) bool { return f.Verdict.Failed() }); failed != (off > 0x1p-20) {
				t.Errorf("%s off by %.3g: %v, RMS %.3g", name, off, r.Findings, r.OneStep.RMSOverExpected)
			}
		}
	}
}

// TestConstantStart: a clamp that makes a constant state says nothing of the scale of the steps after it. A right
// device passes, and one that has a convolution in TF32 does not.
func TestConstantStart(t *testing.T) {
	t.Parallel()
	for _, wrong := range []bool{false, true} {
		ro := rollout.Config{Policy: rollout.Autoregressive, Clamp: &[2]float64{-2, 2}, Timesteps: 5}
		b := newStepBenchOf(t, "float32", "", operator.Config{
			NumLayers: 3, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: "relu",
			Normalization: "instance", NoiseType: "gaussian", NoiseScale: .05,
		}, ro)
		b.start = func(x []float64) {
			for k := range x {
				x[k] = 2
			}
		}
		p, last := b.gate.claim, 0
		b.device = func(int) *emulate.Device {
			d := b.correct(p, 1)
			if wrong {
				d.Operands = make([]graph.Mode, len(b.gate.e.Machine.Nodes))
				for i, n := range b.gate.e.Machine.Nodes {
					if d.Operands[i] = p.Mode; n.Op == operator.OpConv {
						last = i
					}
				}
				d.Operands[last] = emulate.MustParse("tf32:truncate")
			}
			return d
		}
		r := b.check()
		if failed := len(r.Findings) > 0 && r.Findings[0].Verdict.Failed(); failed != wrong ||
			wrong && r.Findings[0].Step > 2 {
			t.Errorf("wrong %v: %v", wrong, r.Findings)
		}
	}
}

// TestTwentyBits: operands of 20 bits in one convolution are below what statistics of norms added up one number after
// another make, and are named by what they leave.
func TestTwentyBits(t *testing.T) {
	t.Parallel()
	b := pointwise(t, "relu", 3)
	round := func(x float64) float64 {
		f, e := math.Frexp(x)
		return math.Ldexp(math.RoundToEven(math.Ldexp(f, 20)), e-20)
	}
	b.device = func(int) *emulate.Device {
		d := b.correct(b.gate.claim, 1)
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if i > 0 {
				return nil, nil
			}
			x, n := in[0].Clone(), b.gate.e.Machine.Nodes[0]
			w := *n.Weight
			w.Data = slices.Clone(w.Data)
			for _, v := range [][]float64{x.Data, w.Data} {
				for k := range v {
					v[k] = round(v[k])
				}
			}
			n.Weight = &w
			return d.Convolve(&n, x)
		}
		return d
	}
	r := b.check()
	if len(r.Findings) == 0 || r.Findings[0].ID != "precision.operands-of-bits:20" ||
		r.Findings[0].Layer != b.gate.e.Machine.Nodes[0].Name {
		t.Errorf("%v: want operands of 20 bits in %s", r.Findings, b.gate.e.Machine.Nodes[0].Name)
	}
}

// TestLevelNote: a run without a fault whose errors are more than four times the expected ones says so, and others do
// not.
func TestLevelNote(t *testing.T) {
	t.Parallel()
	for level, want := range map[float64]bool{1: false, 3.9: false, 4.99: true, math.NaN(): false} {
		if s := levelNote(level); strings.HasPrefix(s, "the RMS error of a step is") != want {
			t.Errorf("level %g: %q", level, s)
		}
	}
}
