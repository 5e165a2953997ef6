package steps

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// traceStep is a measured step of a bench, whose device is the claim.
func traceStep(t *testing.T, ro rollout.Config) (*stepGate, *measured) {
	b := newStepBench(t, "float16", "cuda", "instance", ro)
	b.check()
	step, err := b.gate.step(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.gate.measure(step)
	if err != nil {
		t.Fatal(err)
	}
	return b.gate, m
}

// TestTraceUsual: a node whose rounding is too small beside the residual to be
// told does as the others of its kind do.
func TestTraceUsual(t *testing.T) {
	t.Parallel()
	g, m := traceStep(t, convex(.4))
	r := rand.New(rand.NewPCG(5, 6))
	for i, v := range m.truth {
		m.Got[i] = v + 300*m.s[i]*r.NormFloat64()
	}
	for _, usual := range []bool{false, true} {
		tr := &tracer{g: g, m: m, width: 1, paths: []trail{
			{p: emulate.Pattern{Mode: g.claim.Mode}, of: make([]*tensor.Tensor, len(g.e.Machine.Nodes)),
				usual: map[emulate.Points]bool{emulate.AtConv: usual}},
		}}
		if err := tr.decide(0, []emulate.Points{emulate.AtConv}); err != nil {
			t.Fatal(err)
		}
		if got := tr.paths[0].p.Odd == 1; got != usual {
			t.Errorf("stored: %v, want %v, as the others", got, usual)
		}
	}
}

// TestStepsDistanceLevel: one rounding of the range by which states are normalized
// is not as many as there are numbers.
func TestStepsDistanceLevel(t *testing.T) {
	t.Parallel()
	g, m := traceStep(t, rollout.Config{Policy: rollout.Convex, Alpha: .4, Normalization: rollout.MinMax})
	plain, err := g.distance(m, g.claim)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range m.Got {
		m.Got[i] = v * (1 + 0x1p-11)
	}
	got, err := g.distance(m, g.claim)
	if err != nil {
		t.Fatal(err)
	}
	if !(math.Abs(got-plain) < 0.01) {
		t.Errorf("distance %.3g, and %.3g with another range: want the same", plain, got)
	}
}

// TestFusedPolicyRefutes: what looks like another constant of the policy from the exact
// step, as the products of few half numbers and a constant may, is held against the
// emulation too where a fused policy follows no contract.
func TestFusedPolicyRefutes(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "bfloat16", "cuda", "instance", rollout.Config{Policy: rollout.Residual, Dt: .01})
	p := b.gate.claim
	p.Points = emulate.AtAct | emulate.AtNoise | emulate.AtOut | emulate.AtShare
	p.Twice = true // the device that is emulated, bit for bit
	b.device = func(t int) *emulate.Device { return b.gate.device(p, t, nil) }
	if r := b.check(); len(r.Findings) > 0 {
		t.Fatalf("findings %v: want none", r.Findings)
	}
	for _, h := range fault.Library() {
		if h.Name != "alpha or dt in bfloat16" {
			continue
		}
		if m := b.gate.e.Pool.At(h, true).From(1); !m.Refutes() {
			t.Errorf("amplitude %.3g +- %.2g around the emulation: want it to refute the fault", m.C, m.Sigma)
		}
		return
	}
	t.Error("no such fault")
}
