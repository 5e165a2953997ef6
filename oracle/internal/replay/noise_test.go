package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// firstStep returns the gate of a recording's first step, that step, and what it would be without noise.
func firstStep(t *testing.T, r *rig.Rig, states *rollout.States) (*Gate, *wrong, *tensor.Tensor) {
	e := &Gate{r.Exam(states, true)}
	w, err := e.worstBatch(1)
	if err != nil {
		t.Fatal(err)
	}
	without, err := w.claimed.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e, w, without
}

// TestScaleOfUlps: draws that are all an ulp off have no other scale.
func TestScaleOfUlps(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", .1)
	for _, k := range []struct {
		factor float64
		want   bool
	}{{1 + 0x1p-22, false}, {1 + 0x1p-10, true}} {
		states := r.Run(nil)
		e, w, without := firstStep(t, r, states)
		for i, v := range without.Data {
			w.Got[i] = v + k.factor*(w.want[i]-v)
		}
		named := false
		for _, s := range e.scaleSuspects(w) {
			named = named || strings.HasPrefix(s.name, "noise.noise-scale")
		}
		if named != k.want {
			t.Errorf("noise times %v: a scale %v, want %v", k.factor, named, k.want)
		}
	}
}

// TestNoiseBelowRoundings: what makes a step off by no more than right steps are is no other
// noise, whatever would explain it; more of it is.
func TestNoiseBelowRoundings(t *testing.T) {
	for scale, want := range map[float64]string{0.005: "", 2: "noise.noise-in:bfloat16"} {
		r := rig.NewRig(t, "float16", "gaussian", scale)
		e := &Gate{r.Exam(r.Run(rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			fp16.BFloat16.RoundSlice(y, v)
			return y
		})), true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		if below := w.rms < w.floor; below != (want == "") {
			t.Fatalf("scale %v: the step is %v off, right ones %v", scale, w.rms, w.floor)
		}
		best, err := e.bestSuspect(w)
		if err != nil {
			t.Fatal(err)
		}
		other, err := e.otherNoise(w)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		if best != nil {
			name = best.name
		}
		if name != want || want == "" && other {
			t.Errorf("scale %v: %q, other noise %v: want %q", scale, name, other, want)
		}
	}
}

// TestErrorsBesideNoise: errors that know nothing of the draws are no other noise, although
// by chance they have a little of it now and then.
func TestErrorsBesideNoise(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", .1)
	states := r.Run(nil)
	for seed := range uint64(40) {
		e, w, without := firstStep(t, r, states)
		size, rng := measure.RMSDiff(without.Data, w.want), rand.New(rand.NewPCG(seed, 1))
		for i, v := range w.want {
			w.Got[i] = v + 0.2*size*rng.NormFloat64()
		}
		w.rms = measure.RMSDiff(w.Got, w.want)
		if other, err := e.otherNoise(w); other || err != nil {
			t.Errorf("errors of seed %d: %v, %v", seed, e.Found, err)
		}
	}
}

// TestOtherNoiseInRoundings: of another stream's noise, as large as roundings are, it shows that
// nothing of the specified one is there.
func TestOtherNoiseInRoundings(t *testing.T) {
	for _, other := range []bool{false, true} {
		r := rig.NewRig(t, "bfloat16", "gaussian", 0.008)
		e := &Gate{r.Exam(r.Run(func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			if other {
				*d = *r.Draws(t + 1000)
			}
		}), true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		w.rms = max(w.rms, 2*w.floor) // as if a gate had found the step wrong
		if got, err := e.otherNoise(w); got != other || err != nil {
			t.Errorf("another stream %v: other noise %v, %v", other, got, err)
		}
	}
}

// TestTogether: numbers that are farthest where others are largest are told from those that are not.
func TestTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := make([]float64, 500), make([]float64, 500)
	most := 0.0
	for range 2000 {
		for i := range a {
			a[i], b[i] = rng.ExpFloat64(), rng.NormFloat64()
		}
		most = max(most, together(a, b))
	}
	if most > 50 {
		t.Errorf("unrelated numbers: %.3g, want at most 50", most)
	}
	if got := together(a, a); got < 60 {
		t.Errorf("numbers and themselves: %.3g", got)
	}
	if got := together(a[:100], a[:100]); got != 0 {
		t.Errorf("of 100 numbers: %.3g, want nothing said", got)
	}
}

// TestExtremes: errors of the tails of draws are other noise, though right steps are as far off; those of the
// numbers that follow the noise are not.
func TestExtremes(t *testing.T) {
	const scale = 2
	for _, tails := range []bool{true, false} {
		r := rig.NewRig(t, "float32", "gaussian", scale)
		states := r.Run(nil)
		e, w, _ := firstStep(t, r, states)
		hidden, hw := w.claimed.Hidden(), w.X.H()*w.X.W()
		off := make([]float64, len(w.want))
		for i := range off {
			of := 0.0 // of the pixel
			for c := range hidden.C() {
				at := i/(3*hw)*hidden.C()*hw + c*hw + i%hw
				h, x := hidden.Data[at], w.Draws.Data[0][at]
				if y := h + scale*x; tails {
					of = max(of, math.Abs(x))
				} else {
					of = max(of, math.Abs(y))
				}
			}
			off[i] = math.Pow(of, 8) * (1 + math.Abs(math.Sin(float64(i))))
		}
		for i, v := range w.want {
			w.Got[i] = v + off[i]*w.floor/2/measure.RMS(off)
		}
		w.rms = measure.RMSDiff(w.Got, w.want)
		if other, err := e.otherNoise(w); other != tails || err != nil {
			t.Errorf("errors of tails %v: other noise %v, %v, %v", tails, other, e.Found, err)
		}
	}
}

// TestNearlySpecified: draws that are nearly the specified ones are told from these where the step is far off, however
// much roundings are of what is left.
func TestNearlySpecified(t *testing.T) {
	for _, other := range []float64{0, 0.25} {
		r := rig.NewRig(t, "bfloat16", "gaussian", 0.06)
		e := &Gate{r.Exam(r.Run(func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			for i, v := range r.Draws(t + 1000).Data[0] {
				d.Data[0][i] = fp16.Float32.Round(math.Sqrt(1-other*other)*d.Data[0][i] + other*v)
			}
		}), true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.otherNoise(w); got != (other > 0) || err != nil {
			t.Errorf("%g of another stream: other noise %v, %v", other, got, err)
		}
	}
}

// TestColouredIsNoNoise: what a step has in place of the specified noise, twice as large, is another stream's if its
// pixels are independent, and no noise if they are not.
func TestColouredIsNoNoise(t *testing.T) {
	for _, coloured := range []bool{false, true} {
		r := rig.NewRig(t, "float32", "gaussian", .1)
		e := &Gate{r.Exam(r.Run(func(r *rig.Rig, step int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			*d = *r.Draws(step + 1000)
			for k, draw := range d.Data {
				y := make([]float64, len(draw))
				for i, v := range draw {
					if y[i] = 2 * v; coloured && i > 0 { // half of it is its neighbour's
						y[i] = math.Sqrt2 * (v + draw[i-1])
					}
				}
				d.Data[k] = y
			}
		}), true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.otherNoise(w); got == coloured || err != nil {
			t.Errorf("coloured %v: another stream %v, %v", coloured, got, err)
		}
	}
}

// TestFactorKinds: factors that are near to some numbers may be these, whichever are nearest, and may be any; those
// that are near to none may be any alone.
func TestFactorKinds(t *testing.T) {
	r := rig.NewRig(t, "float32", "dropout", 0.04)
	e := &Gate{r.Exam(r.Run(nil), true)}
	m := noisestat.NewModel(e.Evidence)
	nan := math.NaN()
	for _, c := range []struct {
		f    []float64
		want string
	}{
		{[]float64{1.01, 0.995, nan},
			"noise.dropout-is-off noise.other-dropout-masks noise.dropout-not-rescaled noise.dropout-factors-wrong"},
		{[]float64{1.04, 0.001}, "noise.other-dropout-masks noise.dropout-not-rescaled noise.dropout-factors-wrong"},
		{[]float64{25.01, -0.01, 25}, "noise.dropout-with-p-and-1-p-swapped noise.dropout-factors-wrong"},
		{[]float64{0, 0.5, 1}, "noise.dropout-factors-wrong"},
	} {
		var names []string
		for _, k := range e.factorKinds(m, c.f) {
			names = append(names, k.name)
			if (k.are == nil) != (k.name == "noise.dropout-factors-wrong") {
				t.Errorf("%s is of %v", k.name, k.are)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("factors %v may be %s, want %s", c.f, got, c.want)
		}
	}
	if got := snap([]float64{0.98, 1.03, 0.02, nan, 0.5}, []float64{0, 1, 1.04}); !slices.Equal(got,
		[]float64{1, 1.04, 0, 0, 0.5}) {
		t.Errorf("factors are taken for %v", got)
	}
}

// TestFactorsNearSpecified: a dropout that rescales by a rate a little off is explained, though its factors are near to
// the specified ones.
func TestFactorsNearSpecified(t *testing.T) {
	r := rig.NewRig(t, "float32", "dropout", 0.1)
	m := emulate.New(r.Op, r.Config)
	f := suspected(t,
		r.Exam(r.Run(rig.From(3, func(_ *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
			d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
				if m.Nodes[i].Op == operator.OpNoise {
					hw := y.H() * y.W()
					for k, v := range in[0].Data {
						y.Data[k] = float64(v * dr.Data[0][k/hw] / 0.88)
					}
				}
			}
		})), true), 3)
	if f == nil || f.Verdict != report.FailRNG || f.ID != "noise.dropout-factors-wrong" {
		t.Errorf("found %+v", f)
	}
}

// TestFactorSuspects: of the suspects of a step that whole factors explain, those of any factors are held to less.
func TestFactorSuspects(t *testing.T) {
	r := rig.NewRig(t, "float32", "dropout", 0.3)
	m := emulate.New(r.Op, r.Config)
	suspects := func(keep float64) []suspect {
		e := &Gate{
			r.Exam(r.Run(rig.From(1, func(_ *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
				d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
					if m.Nodes[i].Op == operator.OpNoise {
						hw := y.H() * y.W()
						for k, v := range in[0].Data {
							y.Data[k] = float64(v * dr.Data[0][k/hw] / keep)
						}
					}
				}
			})), true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		return e.factorSuspects(w)
	}
	if l := suspects(0.7); len(l) != 1 || l[0].odd {
		t.Errorf("the specified factors: suspects %+v: want those of named factors", l)
	}
	l := suspects(0.705)
	if len(l) < 2 {
		t.Fatalf("suspects %+v: want those of named factors, and of any", l)
	}
	for _, s := range l {
		if want := s.name == "noise.dropout-factors-wrong"; s.odd != want || !s.masks {
			t.Errorf("%s: of any factors %v, of masks %v: want %v, true", s.name, s.odd, s.masks, want)
		}
	}
}

// TestOtherFactor: factors that are the specified ones but for a fault of the operator are no others; those of a half
// type are.
func TestOtherFactor(t *testing.T) {
	for _, c := range []struct {
		times float64
		want  bool
	}{{1, false}, {1 + 1e-5, false}, {1 + 0x1p-12, true}, {0.99, true}} {
		f := []float64{0, c.times / .8, math.NaN(), c.times / .8, c.times / .8, 1 / .8}
		if got := otherFactor(f, .2); got != c.want {
			t.Errorf("factors times %v: %v", c.times, got)
		}
	}
	if !otherFactor([]float64{0.2, 0.1, math.NaN()}, .2) {
		t.Error("factors near none of both are the specified ones")
	}
}

// TestRawConstants: what follows exactly from a step has the constants of the mode, which float32 rounds.
func TestRawConstants(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.1)
	r.Config.Policy, r.Config.Alpha = rollout.Convex, .999
	e := r.Exam(r.Run(nil), true)
	x, o := tensor.Of(fp16.Float64, []float64{100}, 1, 1, 1, 1), tensor.Of(fp16.Float64, []float64{3}, 1, 1, 1, 1)
	round := fp16.Float32.Round
	if got, want := e.Raw(&emulate.Device{Mode: e.Mode}, x, o).Data[0],
		round(.999)*100+round(1-.999)*3; math.Abs(got-want) > 1e-13 {
		t.Errorf("%v, want %v", got, want)
	}
}
