package oracle

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestStepsPower: a policy that takes so little of the output that the rounding of
// the state hides it is neither a fault nor a pass.
func TestStepsPower(t *testing.T) {
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

// TestWhy names a norm whose input is nearly constant.
func TestWhy(t *testing.T) {
	b := newStepBench(t, "float16", "", "instance", convex(.5))
	b.check()
	g := b.gate
	step, err := g.step(1)
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{"correct devices differ", "the variance of a norm's input is", "of the numbers lie at the clamp's ends", "the policy takes"}
	for _, k := range []struct {
		scale, shift float64
		seen         seen
		want         string
	}{{1, 0, seen{share: .5, live: 1}, reasons[0]}, {1e-4, 0, seen{share: .5, live: 1}, reasons[1]}, {1, 0, seen{share: .5, live: .4}, reasons[2]}, {1, 0, seen{share: .001, live: 1}, reasons[3]}} {
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

// TestFlat: of a clamped field the numbers that vary count, not the share that
// does not.
func TestFlat(t *testing.T) {
	r := newRig(t, "float32", "gaussian", .1)
	r.c.Clamp = &[2]float64{-1, 1}
	s := &rollout.States{M: 3, T: 9, C: 3, H: 16, W: 16, Format: fp16.Float32}
	for _, k := range []struct {
		every int // number that is not clamped
		want  bool
	}{{8, false}, {19, true}} {
		s.Data = make([]float64, s.M*s.T*s.CHW())
		for i := range s.Data {
			if s.Data[i] = 1; i%k.every == 0 {
				s.Data[i] = 0.5 / float64(i+1)
			}
		}
		e := r.exam(s, true)
		if err := (&structureGate{e}).flat(); err != nil || (len(e.found) > 0) != k.want {
			t.Errorf("one number of %d varies: %v, %v: want a finding: %v", k.every, e.found, err, k.want)
		}
	}
}

// TestNoisyProduct: a product of a half draw and a float32 scale that is not
// rounded makes the sum a float32 number before the next operand is rounded: the
// numbers are PyTorch's, (x + draw*torch.tensor([0.01])).bfloat16() for bfloat16
// x and draw. Rounded once they would be the neighbours of these.
func TestNoisyProduct(t *testing.T) {
	x := []float64{-0.169921875, 0.8828125, -0.1669921875, -0.15234375, -0.058349609375, -0.1318359375}
	draw := []float64{0.341796875, -0.5859375, 0.244140625, 0.341796875, -0.78125, 0.244140625}
	want := []float64{-0.166015625, 0.875, -0.1640625, -0.1484375, -0.06640625, -0.12890625}
	b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.5))
	g := b.gate
	for i := range g.e.machine.Nodes {
		if n := &g.e.machine.Nodes[i]; isNoise(n) {
			block := n.Noise
			block.Scale = fp16.Float32.Round(0.01)
			p := g.claim
			p.points &^= atProduct
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

// TestLevel: what a normalization makes of the errors of the two numbers that it
// scales by is taken from all, and no more than such errors can be.
func TestLevel(t *testing.T) {
	c := rollout.Config{Normalization: rollout.MinMax}
	truth, s := make([]float64, 1000), make([]float64, 1000)
	for k := range truth {
		truth[k], s[k] = float64(k)/1000, 1e-6
	}
	for _, k := range []struct {
		line  float64 // at the ends, in deviations
		stays bool
	}{{5, false}, {40, true}} {
		v := make([]float64, len(truth))
		for i, x := range truth {
			v[i] = k.line * 1e-6 * (2*x - 1)
		}
		levelOut(c, v, truth, s, 1)
		if stays := math.Abs(v[0]) > 1e-7; stays != k.stays {
			t.Errorf("a line of %g deviations: %v is left: want it to stay: %v", k.line, v[0], k.stays)
		}
	}
}

// TestAccidents: what lies in one place, or is refuted by the emulation, is no
// diagnosis.
func TestAccidents(t *testing.T) {
	f := &filter{}
	f.divide(2, 3, 16, 16)
	v := &view{x: tensor.New(fp16.Float64, 2, 3, 16, 16)}
	flip, wide := make([]float64, len(f.cluster)), make([]float64, len(f.cluster))
	for i := range wide {
		wide[i] = 1
		if y, x := i/16%16, i%16; y < 5 && x < 5 && i < 3*256 { // one rounding and two convolutions
			flip[i] = 1
		}
	}
	if !f.sparse(&tried{v: v, q: flip}) || f.sparse(&tried{v: v, q: wide}) {
		t.Error("sparse: want one place to be, and the whole image not to be")
	}
	for _, k := range []struct {
		m    match
		want bool
	}{{match{}, false}, {match{qq: 1}, true}, {match{qq: 1, c: 1, sigma: .01}, false}, {match{qq: 1, c: .1, sigma: .23}, false}, {match{qq: 1, c: .1, sigma: .2}, true}} {
		if got := k.m.refutes(); got != k.want {
			t.Errorf("%+v refutes: %v, want %v", k.m, got, k.want)
		}
	}
}

// TestScaleOfUlps: draws that are all an ulp off have no other scale.
func TestScaleOfUlps(t *testing.T) {
	r := newRig(t, "float32", "gaussian", .1)
	for _, k := range []struct {
		factor float64
		want   bool
	}{{1 + 0x1p-22, false}, {1 + 0x1p-10, true}} {
		states := r.run(nil)
		e := &rolloutGate{r.exam(states, true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		without, err := w.claimed.step(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range without.Data {
			w.Got[i] = v + k.factor*(w.want[i]-v)
		}
		named := false
		for _, s := range e.scaleSuspects(w) {
			named = named || strings.HasPrefix(s.name, "noise scale")
		}
		if named != k.want {
			t.Errorf("noise times %v: a scale %v, want %v", k.factor, named, k.want)
		}
	}
}

// TestTail: one sum whose errors are all there is, and as large as those of a
// right one may be, makes no slice of rounded numbers wrong; two times as many
// errors as roundings have do.
func TestTail(t *testing.T) {
	one := slice{n: 500, most: 600, z2: 500 + 400, tail: 36 * 8 * 8 / (1.8 * 1.8)}
	if over := one.excess(8, 8); over > 1 {
		t.Errorf("one element: %v times the limit", over)
	}
	if one.tail = 2; !(one.excess(8, 8) > 1) {
		t.Error("errors of rounded numbers: not above the limit")
	}
}
