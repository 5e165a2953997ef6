package steps

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestLone: a number that is alone in being wrong is found from a few more deviations on
// than single errors may have, at any step, in its place; and no correct device, however
// inexact its sums are, has one.
func TestLone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ precision, norm string }{
		{"float32", "group"}, {"float32", "layer"}, {"tf32", "group"}, {"bfloat16", "instance"},
	} {
		b := newStepBench(t, c.precision, "", c.norm, convex(.4))
		for _, at := range []int{0, stepBenchSteps} {
			b.after = func(step int, y *tensor.Tensor) {
				if step != at {
					return
				}
				s, err := b.gate.step(step)
				if err != nil {
					t.Fatal(err)
				}
				s.Got = append([]float64(nil), y.Data...)
				m, err := b.gate.measure(s)
				if err != nil {
					t.Fatal(err)
				}
				i := m.X.W()*3 + 6
				y.Data[i] = m.truth[i] + 30*m.s[i]
			}
			b.unnamed = at > 0
			r := b.check()
			switch {
			case at == 0 && len(r.Findings) > 0:
				t.Errorf("%v: a correct device: %s", c, r.Findings[0].Text)
			case at == 0:
			case len(r.Findings) == 0:
				t.Errorf("%v: a number 30 deviations off at step %d: not found; its largest error is %.3g",
					c, at, float64(r.Steps[at-1].Peak))
			default:
				f := r.Findings[0]
				if f.Step != at || f.Verdict != report.FailLogic || !strings.HasPrefix(f.Slice, "element (3,6) of channel 0") {
					t.Errorf("%v: found %s at step %d in %q: want FAIL-LOGIC at %d in element (3,6) of channel 0", c,
						f.Verdict, f.Step, f.Slice, at)
				}
			}
		}
	}
}

// TestFar: a device whose errors are all large is right, and the report says how far off its farthest number is; of one
// whose numbers are all near, it says nothing.
func TestFar(t *testing.T) {
	t.Parallel()
	const said = "expected deviations off, the most of all; in most planes errors are"
	for _, lambda := range []float64{1, emulate.CoarseLambda} {
		b := newStepBench(t, "float32", "", "group", convex(.4))
		b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, lambda) }
		r := b.check()
		if len(r.Findings) > 0 {
			t.Errorf("sums that are %v times as inexact: %s", lambda, r.Findings[0].Text)
		}
		peak := 0.0
		for _, s := range r.Steps {
			peak = max(peak, float64(s.Peak))
		}
		notes := strings.Join(r.Notes, "; ")
		if got := strings.Contains(notes, said); got != (peak > farthest) || got != (lambda > 1) {
			t.Errorf("sums that are %v times as inexact: the farthest number is %.3g deviations off; notes %q",
				lambda, peak, notes)
		}
		if far := fmt.Sprintf(" a number is %.3g expected", peak); lambda > 1 && !strings.Contains(notes, far) {
			t.Errorf("want%q in %q", far, notes)
		}
	}
}

// TestSpared: where states are a hundred times as large as around, errors are too. They are no
// fault, and the report says the largest; where there is none, it says nothing.
func TestSpared(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		b := newStepBench(t, "float32", "", "group", convex(.4))
		b.start = func(x []float64) {
			for i := range 9 {
				if large {
					x[(8+i/3)*24+9+i%3] *= 128
				}
			}
		}
		r := b.check()
		if len(r.Findings) > 0 {
			t.Errorf("large %v: a correct device: %s", large, r.Findings[0].Text)
		}
		if got := strings.Contains(strings.Join(r.Notes, "; "),
			"expected deviations off; there, correct devices reach"); got != large {
			t.Errorf("large %v: peak %.3g, notes %q", large, float64(r.Steps[0].Peak), r.Notes)
		}
	}
}

// TestRounded: a large state next to small ones is rounded as what it is, which no mean of those
// around shows. No correct device has a fault there.
func TestRounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		times, alpha, lambda float64
		member               uint64
	}{{16, .9, 1, 0}, {32, .9, .3, 4}, {64, .9, .1, 2}, {256, .4, .1, 5}} {
		b := newStepBench(t, "float32", "", "group", convex(c.alpha))
		b.start = func(x []float64) {
			for i := range 9 {
				x[(8+i/3)*24+9+i%3] *= c.times
			}
		}
		b.device = func(int) *emulate.Device {
			return b.gate.device(b.gate.claim, 1,
				&emulate.Legal{Machine: b.gate.e.Machine, U: b.gate.u, Lambda: c.lambda, Member: 1<<30 + c.member})
		}
		if r := b.check(); len(r.Findings) > 0 {
			t.Errorf("%v: a correct device: %s", c, r.Findings[0].Text)
		}
	}
}

// TestDoubts: where all steps have large errors beside large numbers, few of them are asked of
// emulations, and a number that is wrong by itself is found at any of them: also one
// that the claim's own arithmetic lets pass.
func TestDoubts(t *testing.T) {
	t.Parallel()
	const steps, at = 12, 11 // more than are asked
	for _, wrong := range []bool{false, true} {
		ro := convex(.4)
		ro.Timesteps = steps + 1
		b := newStepBench(t, "float32", "", "group", ro)
		b.start = func(x []float64) {
			for i := range 9 {
				x[(8+i/3)*24+9+i%3] *= 128
			}
		}
		b.after = func(step int, y *tensor.Tensor) {
			if step == at && wrong {
				y.Data[b.gate.e.States.W*3+6] *= 1 + 0x1p-14
			}
		}
		b.run()
		g := newStepGate(b.gate.e.Evidence, b.gate.e.Facts)
		all, bad, err := g.measureAll()
		if err != nil {
			t.Fatal(err)
		}
		if !wrong {
			if bad != nil || len(g.doubts) == 0 {
				t.Errorf("a correct device: found %+v, %d doubts: want some", bad, len(g.doubts))
			}
			continue
		}
		if bad == nil || !bad.lone || bad.figures.step != at || !strings.HasPrefix(bad.slice, "element (3,6) of channel 0") {
			t.Errorf("found %+v: want element (3,6) of channel 0 at step %d", bad, at)
		}
		g.doubts = nil
		for _, f := range all {
			share := .9
			if f.step == at {
				share = 1 // as great as a doubt can be
			}
			g.doubts = append(g.doubts, doubt{f, 0, share})
		}
		if bad, err := g.sure(usual(all)); err != nil || bad == nil || bad.figures.step != at {
			t.Errorf("of doubts, emulations find %+v, %v: want step %d", bad, err, at)
		}
	}
}

// TestTwoLone: of two numbers that are wrong by themselves none is said to be right.
func TestTwoLone(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float32", "", "group", convex(.4))
	b.after = func(step int, y *tensor.Tensor) {
		if step != 1 {
			return
		}
		s, err := b.gate.step(step)
		if err != nil {
			t.Fatal(err)
		}
		s.Got = append([]float64(nil), y.Data...)
		m, err := b.gate.measure(s)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range map[int]float64{m.X.W()*3 + 6: 30, m.X.W()*12 + 18: 24} {
			y.Data[i] = m.truth[i] + e*m.s[i]
		}
	}
	b.unnamed = true
	r := b.check()
	if len(r.Findings) == 0 || !strings.HasPrefix(r.Findings[0].Slice, "element (3,6) of channel 0") ||
		strings.Contains(strings.Join(r.Notes, "; "), "correct devices reach") {
		t.Errorf("findings %+v, notes %q: want element (3,6), and no word of what correct devices reach", r.Findings, r.Notes)
	}
}

// lavin computes the 3x3 convolution of planes, added up over channels, by Winograd's F(4x4)
// with the points 0, 1, -1, 2, -2 (Lavin and Gray, 2016), in float32 and in float64.
func lavin(rng *rand.Rand, tiles, channels int) (single, double [][16]float64) {
	at := [4][6]float64{{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}
	bt := [6][6]float64{{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0},
		{0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}}
	gt := [6][3]float64{{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
		{1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}}
	u := make([][6][6]float64, channels)
	for c := range u {
		var g [3][3]float64
		for i := range 9 {
			g[i/3][i%3] = rng.NormFloat64()
		}
		for i := range 36 {
			for j := range 9 {
				u[c][i/6][i%6] += gt[i/6][j/3] * g[j/3][j%3] * gt[i%6][j%3]
			}
		}
	}
	round := func(x float64, narrow bool) float64 {
		if narrow {
			return float64(float32(x))
		}
		return x
	}
	single, double = make([][16]float64, tiles), make([][16]float64, tiles)
	for t := range tiles {
		var m, wide [6][6]float64
		for c := range channels {
			var d [6][6]float64
			for i := range 36 {
				d[i/6][i%6] = rng.NormFloat64()
			}
			for narrow, into := range map[bool]*[6][6]float64{true: &m, false: &wide} {
				var half [6][6]float64
				for i := range 36 {
					for k := range 6 {
						half[i/6][i%6] = round(half[i/6][i%6]+round(bt[i/6][k]*d[k][i%6], narrow), narrow)
					}
				}
				for i := range 36 {
					v := 0.0
					for k := range 6 {
						v = round(v+round(half[i/6][k]*bt[i%6][k], narrow), narrow)
					}
					into[i/6][i%6] = round(into[i/6][i%6]+round(v*round(u[c][i/6][i%6], narrow), narrow), narrow)
				}
			}
		}
		for narrow, from := range map[bool]*[6][6]float64{true: &m, false: &wide} {
			var half [4][6]float64
			for i := range 24 {
				for k := range 6 {
					half[i/6][i%6] = round(half[i/6][i%6]+round(at[i/6][k]*from[k][i%6], narrow), narrow)
				}
			}
			for i := range 16 {
				y := 0.0
				for k := range 6 {
					y = round(y+round(half[i/4][k]*at[i%4][k], narrow), narrow)
				}
				if narrow {
					single[t][i] = y
				} else {
					double[t][i] = y
				}
			}
		}
	}
	return single, double
}

// TestTiles: Winograd's method has errors that depend on a number's place in its tile, up to
// three times those of all. None of them is wrong by itself, and one that is, is found.
func TestTiles(t *testing.T) {
	t.Parallel()
	const w, h, planes = 64, 64, 24
	single, double := lavin(rand.New(rand.NewPCG(1, 2)), planes*w*h/16, 8)
	v, sum := make([]float64, planes*w*h), 0.0
	for i := range v {
		tile := i/(w*h)*(w*h/16) + i/w%h/4*(w/4) + i%w/4
		k := i/w%4*4 + i%4
		v[i] = single[tile][k] - double[tile][k]
		sum += v[i] * v[i]
	}
	ones := make([]float64, len(v))
	for i := range v {
		v[i] /= math.Sqrt(sum / float64(len(v)))
		ones[i] = 1
	}
	beyond := func(i int) float64 { return math.Abs(v[i]) / max(1, levels(v, ones, w, h)(i)) }
	far, most := 0, 0
	at := levels(v, ones, w, h)
	for i := range v {
		if math.Abs(v[i]) > math.Abs(v[far]) {
			far = i
		}
		if math.Abs(v[i])/max(1, at(i)) > math.Abs(v[most])/max(1, at(most)) {
			most = i
		}
	}
	if math.Abs(v[far]) < 10 || beyond(most) > 8 {
		t.Errorf("the largest error is %.3g, and %.3g of its place's: want some 3 times that of its place, "+
			"which is at most 8", v[far], beyond(most))
	}
	i := 20*w + 20 // a corner of a tile with small errors
	for _, e := range []float64{13, 172} {
		was := v[i]
		if v[i] = e; beyond(i) <= farthest {
			t.Errorf("a number that is %g off has %.3g of what its place has: want more than %d", e, beyond(i), farthest)
		}
		v[i] = was
	}
}

// TestSmallTiles: in small images the errors of a place within tiles have their level too, and a few wrong numbers of a
// place do not excuse each other.
func TestSmallTiles(t *testing.T) {
	t.Parallel()
	const w, h, tile = 24, 24, 4
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		v, ones := make([]float64, w*h), make([]float64, w*h)
		corner := func(i int) bool { return i/w%tile == 2 && i%w%tile == 2 }
		for i := range v {
			if v[i], ones[i] = r.NormFloat64(), 1; corner(i) {
				v[i] *= 3
			}
		}
		right := 2*w + 2
		v[right] = 20
		wrong := []int{w + 1, 5*w + 1, 9*w + 5} // of one place
		for _, i := range wrong {
			v[i] = 20
		}
		at := levels(v, ones, w, h)
		if x := v[right] / at(right); x > farthest {
			t.Errorf("seed %d: a corner that is 20 off has %.3g of what corners have: want at most %d", seed, x, farthest)
		}
		for _, i := range wrong {
			if x := v[i] / max(1, at(i)); x <= farthest {
				t.Errorf("seed %d: one of three wrong numbers has %.3g of what its place has: want more than %d", seed, x, farthest)
			}
		}
	}
}

// TestBlur: each number gets the largest mean of 5x5 around it, and of its plane alone.
func TestBlur(t *testing.T) {
	const w, h = 15, 18
	v := make([]float64, 2*w*h)
	v[8*w+7] = 25
	blur(v, w, h)
	for i, got := range v {
		y, x, want := i/w, i%w, 0.0
		if x >= 7-5 && x <= 7+5 && y >= 8-5 && y <= 8+5 {
			want = 1
		}
		if math.Abs(got-want) > 1e-12 {
			t.Fatalf("(%d,%d): %g, want %g", y, x, got, want)
		}
	}
}

// TestHeld: numbers that a clamp holds have no errors, and count in no mean of those of others.
func TestHeld(t *testing.T) {
	t.Parallel()
	ro := convex(.4)
	ro.Clamp = &[2]float64{-.25, .25}
	b := newStepBench(t, "float32", "", "group", ro)
	b.run()
	g := newStepGate(b.gate.e.Evidence, b.gate.e.Facts)
	s, err := g.step(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.measure(s)
	if err != nil {
		t.Fatal(err)
	}
	hw := m.X.H() * m.X.W()
	means, held := make([]float64, len(m.r)/hw), 0
	for p := range means {
		n := 0.0
		for i := p * hw; i < (p+1)*hw; i++ {
			if math.Abs(m.truth[i]) == .25 && m.Got[i] == m.truth[i] {
				held++
				continue
			}
			means[p], n = means[p]+m.r[i]*m.r[i], n+1
		}
		means[p] /= n
	}
	if held < len(m.r)/2 {
		t.Fatalf("%d of %d numbers are held", held, len(m.r))
	}
	slices.Sort(means)
	if got, want := usual([]*stepFigures{m.figures()}),
		math.Sqrt(max(1, means[len(means)/2])); math.Abs(got-want) > 1e-12 {
		t.Errorf("usual error %v, want %v", got, want)
	}
	v := make([]float64, 15*18)
	for i := range v {
		v[i] = math.NaN()
	}
	v[8*15+7] = 3
	if blur(v, 15, 18); v[8*15+7] != 3 || v[0] != 0 {
		t.Errorf("the mean of one number, 3: %v; of none: %v", v[8*15+7], v[0])
	}
}

// TestFewAsked: few devices say what an error may be that is far from it, and all of them where it is not.
func TestFewAsked(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "bfloat16", "", "instance", convex(.4))
	b.run()
	g := b.gate
	s, err := g.step(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.measure(s)
	if err != nil {
		t.Fatal(err)
	}
	limits := func(errors []float64) []float64 {
		l, err := g.limitsOfOne(m, errors, 1)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	of := func(devices int) []float64 {
		sums := make([]float64, len(m.Got))
		if err := g.squares(m, sums, 0, devices); err != nil {
			t.Fatal(err)
		}
		for i := range sums {
			sums[i] /= float64(devices)
		}
		return limitsOf(sums, g.roundings(m), func(int) float64 { return 0 }, 1)
	}
	few, many := of(fewAsked), of(mostAsked)
	if slices.Equal(few, many) {
		t.Fatal("the devices are all the same")
	}
	errors := make([]float64, len(m.Got))
	if !slices.Equal(limits(errors), few) {
		t.Error("more are asked than need be")
	}
	i := slices.Index(few, slices.Max(few))
	for _, share := range []float64{.4, .6, 1.2} {
		errors[i] = share * few[i]
		want := many
		if share < .5 || errors[i] <= farthest {
			want = few
		}
		for k, l := range limits(errors) {
			if math.Abs(l-want[k]) > 1e-9*l {
				t.Fatalf("an error of %.3g, %.2g of the limit that few devices give: limit %v of number %d, want %v",
					errors[i], share, l, k, want[k])
			}
		}
	}
	t.Logf("largest limit %.3g", few[i])
}

// TestSaturated: where an activation saturates, few numbers have any error, and it is that of large sums: no device
// that adds one number after another is at fault for one of them.
func TestSaturated(t *testing.T) {
	t.Parallel()
	config := operator.Config{NumLayers: 1, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "tanh", Normalization: "batch"}
	for member := range uint64(4) {
		b := newStepBenchOf(t, "float32", "", config, rollout.Config{Policy: rollout.Autoregressive})
		b.start = func(x []float64) {
			for k, v := range x {
				x[k] = f32(1000 * v)
			}
		}
		b.device = func(int) *emulate.Device {
			return b.gate.device(b.gate.claim, 1,
				&emulate.Legal{Machine: b.gate.e.Machine, U: b.gate.u, Lambda: 1, Member: 1<<30 + member})
		}
		if r := b.check(); len(r.Findings) > 0 {
			t.Errorf("device %d: %s", member, r.Findings[0].Text)
		}
	}
}

// TestOneLargeNormalized: one large number in normalized states is rounded as what it is, by each operation of the
// normalization.
func TestOneLargeNormalized(t *testing.T) {
	t.Parallel()
	for _, n := range []rollout.Normalization{rollout.ZScore, rollout.MinMax} {
		for seed := range uint64(2) {
			ro := convex(.9)
			ro.Normalization = n
			b := newStepBench(t, "float32", "", "group", ro)
			r := rand.New(rand.NewPCG(seed, 1))
			b.start = func(x []float64) {
				for k := range x {
					x[k] = f32(1e-3 * r.NormFloat64())
				}
				x[8*24+9] = f32(20 + r.Float64())
			}
			b.device = func(int) *emulate.Device {
				d := b.correct(b.gate.claim, 1)
				d.Update = func(x, o *tensor.Tensor) *tensor.Tensor {
					y := tensor.Like(o)
					for k, v := range o.Data {
						y.Data[k] = f32(f32(f32(.9)*x.Data[k]) + f32(f32(1-.9)*v))
					}
					for s := range y.N() {
						plane := y.Samples(s, s+1).Data
						from, by := slices.Min(plane), f32(slices.Max(plane)-slices.Min(plane))
						if n == rollout.ZScore {
							mean, v := measure.Moments(plane)
							from, by = f32(mean), f32(math.Sqrt(v*float64(len(plane))/float64(len(plane)-1)))
						}
						for k, v := range plane {
							plane[k] = f32(f32(v-from) / by)
						}
					}
					return y
				}
				return d
			}
			if r := b.check(); len(r.Findings) > 0 && r.Findings[0].Verdict != report.NoPower {
				t.Errorf("%s, start %d: %s", n, seed, r.Findings[0].Text)
			}
		}
	}
}

// TestRoundingsNormalized: the number that is farthest from the mean may be off by its sum's roundings and by three of
// the normalization.
func TestRoundingsNormalized(t *testing.T) {
	t.Parallel()
	ro := convex(.9)
	ro.Normalization = rollout.ZScore
	b := newStepBench(t, "float32", "", "group", ro)
	b.start = func(x []float64) { x[8*24+9] = 100 }
	b.run()
	m := b.measured(1)
	at := 0
	for i, z := range m.truth {
		if math.Abs(z) > math.Abs(m.truth[at]) {
			at = i
		}
	}
	if own := b.gate.roundings(m)[at] * m.s[at] / (b.gate.u * math.Abs(m.truth[at])); !(own > 4.5 && own < 8) {
		t.Errorf("%.3g half-ulps of %.3g: want two or three of the sum and three more", own, m.truth[at])
	}
}

// TestAloneInTiles: in tiles, a number whose deviation is far beyond that of the numbers around has the limit of the
// worst place of the worst sums; all others have no less than by tiles.
func TestAloneInTiles(t *testing.T) {
	t.Parallel()
	config := operator.Config{NumLayers: 1, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "tanh", Normalization: "batch"}
	b := newStepBenchOf(t, "float32", "", config, rollout.Config{Policy: rollout.Autoregressive})
	b.start = func(x []float64) {
		for k, v := range x {
			x[k] = f32(1000 * v)
		}
	}
	b.run()
	g := b.gate
	m := b.measured(1)
	errors := make([]float64, len(m.Got))
	errors[0] = 1e9
	of := func(f func() ([]float64, error)) []float64 {
		l, err := f()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tiles := of(func() ([]float64, error) { return g.limitsBy(m, errors, 1, true) })
	alone := of(func() ([]float64, error) { return g.limitsBy(m, errors, 1, false) })
	both := of(func() ([]float64, error) { return g.limitsOfOne(m, errors, 1) })
	far := 0
	for i, l := range both {
		want := max(tiles[i], alone[i])
		if alone[i] > 1.5*tiles[i] {
			want, far = worstPlace*alone[i], far+1
		}
		if l != want {
			t.Fatalf("number %d: %.4g, by tiles %.4g, alone %.4g", i, l, tiles[i], alone[i])
		}
	}
	if far == 0 || far > len(both)/4 {
		t.Errorf("%d of %d numbers stand alone", far, len(both))
	}
	for i := range errors {
		errors[i] = 0
	}
	if !slices.Equal(of(func() ([]float64, error) { return g.limitsOfOne(m, errors, 1) }),
		of(func() ([]float64, error) { return g.limitsBy(m, errors, 1, true) })) {
		t.Error("where no number is beyond its limit by tiles, another was taken")
	}
}
