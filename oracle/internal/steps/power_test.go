package steps

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestStepsPower: a policy that takes so little of the output that the rounding of
// the state hides it is neither a fault nor a pass.
func TestStepsPower(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		precision string
		ro        rollout.Config
		blind     bool
	}{
		{"float32", convex(.99), false},
		{"float32", convex(.99999), true},
		{"float16", convex(.999), false},
		{"float16", convex(1 - 1e-6), true},
		{"float16", rollout.Config{Policy: rollout.Residual, Dt: 1e-7}, true},
		{"float16", rollout.Config{Policy: rollout.Residual, Dt: .1, Normalization: rollout.MinMax}, false},
	} {
		b := newStepBench(t, k.precision, "", "instance", k.ro)
		r := b.check()
		blind := false
		for _, f := range r.Findings {
			if f.Verdict.Failed() {
				t.Errorf("%s, %+v: %s: want no fault", k.precision, k.ro, f.Text)
			}
			blind = blind || f.Verdict == report.NoPower && strings.Contains(f.Text, "the policy takes")
		}
		if blind != k.blind {
			t.Errorf("%s, %+v: blind %v, %v: want %v", k.precision, k.ro, blind, r.Findings, k.blind)
		}
	}
}

// TestUndone: limits may be wide, where pixels are alike, and a device whose numbers are its pattern's own still shows
// that no fault is beyond what is left of them; one that is off by a tenth of the limit does not.
func TestUndone(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.5))
	b.device = func(int) *emulate.Device { return b.gate.device(b.gate.claim, 1, nil) }
	b.check()
	g := b.gate
	g.h0 = g.newSpreads(g.use)
	m := b.measured(1)
	m.alike = float64(m.X.H() * m.X.W())
	for _, off := range []float64{0, .1} {
		for i := range m.r {
			m.r[i] = off * math.Sqrt(g.h0.at(m.alike, m.of).limit(measure.InAll, float64(len(m.r))))
		}
		if s, err := g.seen(m); err != nil || s.enough(g.claim) != (off == 0) {
			t.Errorf("off by %g of the limit: %+v, %v: want enough only of the same numbers", off, s, err)
		}
	}
}

// TestWhy names a norm whose input is nearly constant.
func TestWhy(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "", "instance", convex(.5))
	b.check()
	g := b.gate
	step, err := g.step(1)
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{"correct devices differ", "the variance of a norm's input is",
		"of the numbers lie at the clamp's ends", "the policy takes"}
	for _, k := range []struct {
		scale, shift float64
		seen         seen
		want         string
	}{
		{1, 0, seen{share: .5, live: 1}, reasons[0]},
		{1e-4, 0, seen{share: .5, live: 1}, reasons[1]},
		{1, 0, seen{share: .5, live: .4}, reasons[2]},
		{1, 0, seen{share: .001, live: 1}, reasons[3]},
	} {
		x := step.X.Clone()
		for i, v := range x.Data {
			x.Data[i] = v*k.scale + k.shift
		}
		at := *step
		at.X = x
		m, err := g.measure(&at)
		if err != nil {
			t.Fatal(err)
		}
		why, err := g.why(m, k.seen)
		for _, reason := range reasons {
			if err != nil || strings.Contains(why, reason) != (reason == k.want) {
				t.Errorf("scale %g, %+v: %q, %v: want %q alone", k.scale, k.seen, why, err, k.want)
			}
		}
	}
}

// TestNoisyProduct: a product of a half draw and a float32 scale that is not
// rounded makes the sum a float32 number before the next operand is rounded: the
// numbers are PyTorch's, (x + draw*torch.tensor([0.01])).bfloat16() for bfloat16
// x and draw. Rounded once they would be the neighbours of these.
func TestNoisyProduct(t *testing.T) {
	t.Parallel()
	x := []float64{-0.169921875, 0.8828125, -0.1669921875, -0.15234375, -0.058349609375, -0.1318359375}
	draw := []float64{0.341796875, -0.5859375, 0.244140625, 0.341796875, -0.78125, 0.244140625}
	want := []float64{-0.166015625, 0.875, -0.1640625, -0.1484375, -0.06640625, -0.12890625}
	b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.5))
	g := b.gate
	for i := range g.e.Machine.Nodes {
		if n := &g.e.Machine.Nodes[i]; emulate.IsNoise(n) {
			block := n.Noise
			block.Scale = fp16.Float32.Round(0.01)
			p := g.claim
			p.Points &^= emulate.AtProduct
			d := &emulate.Draws{Kinds: []noise.Kind{noise.Normal}, Data: [][]float64{draw}}
			y, err := g.noisy(i, &block, d, tensor.Of(fp16.Float64, x, 1, 1, 1, len(x)), p, fp16.BFloat16, nil)
			if err != nil {
				t.Fatal(err)
			}
			fp16.BFloat16.RoundSlice(y.Data, y.Data)
			for k, v := range y.Data {
				if v != want[k] {
					t.Errorf("%v + %v*0.01: %v, want %v", x[k], draw[k], v, want[k])
				}
			}
		}
	}
}
