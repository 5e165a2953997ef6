package steps

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// searched lets the device run and returns its second step, what a search finds there, and p.
func (b *stepBench) searched(p emulate.Pattern) (m *measured, got, own candidate) {
	b.t.Helper()
	b.run()
	m = b.measured(2)
	got, _, err := b.gate.search(m)
	if err == nil {
		own, err = b.gate.compare(m, p)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return m, got, own
}

// TestStepsSame: where an operator makes much of every float32 error, a device is
// nearest in the mean to a pattern without its last roundings; it is the same as
// its own more often.
func TestStepsSame(t *testing.T) {
	t.Parallel()
	b := newDeepStepBench(t, "float16", "cuda", "none", 4, convex(.3)).wide()
	p := b.gate.claim
	p.Points &^= emulate.AtBias
	b.device = func(int) *emulate.Device { return b.correct(p, 850) }
	m, got, own := b.searched(p)
	less := p
	less.Points &^= emulate.AtOut | emulate.AtShare
	other, err := b.gate.compare(m, less)
	if err != nil {
		t.Fatal(err)
	}
	if got.Points != p.Points || !(other.re < own.re) {
		t.Errorf("found %v at %.4f, %.4f: want %v at %.4f, %.4f, and less than that of %v at %.4f, %.4f",
			got.Points, got.re, got.unlike, p.Points, own.re, own.unlike, less.Points, other.re, other.unlike)
	}
}

// TestStepsBoth: where only convolutions read the activations, to drop one of two casts, the
// activation's or the operand's, changes nothing. A device without both is found.
func TestStepsBoth(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "cuda", "batch", convex(.3))
	b.build(operator.Config{NumLayers: 3, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "silu", Normalization: "batch"}, "none")
	p := b.gate.claim
	p.Points, p.Wide = p.Points&^emulate.AtAct, emulate.WideInner
	b.device = func(int) *emulate.Device { return b.correct(p, 1) }
	_, got, own := b.searched(p)
	if got.Wide != p.Wide || got.re > own.re {
		t.Errorf("found %v, %v at %.4f: want %v, %v at %.4f", got.Points, got.Wide, got.re, p.Points, p.Wide, own.re)
	}
}

// TestStepsRules: without what the CPU's rules store of norms, they look like CUDA's, whose noise is
// not stored. From there, a device that stores it is one step away.
func TestStepsRules(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "cpu", "group", convex(.3))
	g := b.gate
	mode, err := graph.ParseMode("float16", "cuda")
	if err != nil {
		t.Fatal(err)
	}
	want := g.claim
	want.Points &^= emulate.AtNorm | emulate.AtAct
	from := emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, mode)
	from.Points &^= emulate.AtBias
	if !slices.Contains(g.beside(from), want) {
		t.Errorf("beside %v: no %v", from.Points, want.Points)
	}
}

// TestFoldedNoise: a compiler that folds batch norms and has biases, draws and shares in float32 is asked
// for as a whole: by CUDA's rules, single points do not lead there.
func TestFoldedNoise(t *testing.T) {
	t.Parallel()
	claim := newStepBench(t, "float16", "cuda", "batch", convex(.3)).gate.claim
	want := claim
	want.Folded, want.Points = true, emulate.AtAct|emulate.AtNoise|emulate.AtOut
	if l := unrounded(claim, true); !slices.Contains(l, want) {
		t.Errorf("no %v among %v", want.Points, l)
	}
}

// TestUnlessFar: figures of a device that stored noise (own), and was a fault of the noise by the
// pattern that was nearer.
func TestUnlessFar(t *testing.T) {
	t.Parallel()
	near, own := candidate{re: .3222, unlike: 1.3132}, candidate{re: .4098, unlike: 1.27}
	if got := own.unlessFar(near); got != own {
		t.Errorf("%+v in place of %+v", got, own)
	}
	if own.re = .6; own.unlessFar(near) != near {
		t.Errorf("%+v, where %+v is half as far", own, near)
	}
}

// TestStepsScaleClamped: of a plane that a clamp holds for the most part, the
// expected errors are those of the numbers that it does not hold.
func TestStepsScaleClamped(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "cuda", "instance",
		rollout.Config{Policy: rollout.Convex, Alpha: .3, Clamp: &[2]float64{-.02, .02}})
	if r := b.check(); len(r.Findings) > 0 {
		t.Fatalf("findings %v: want none", r.Findings)
	}
	m := b.measured(2)
	var squares, free float64
	for i, v := range m.truth {
		if math.Abs(v) < .02 {
			d := (m.Got[i] - v) / m.s[i]
			squares, free = squares+float64(d*d), free+1
		}
	}
	if q := squares / free; !(free < 0.2*float64(len(m.truth))) || !(q > 0.5 && q < 1.6) {
		t.Errorf("mean square error %.3g of what is expected, over %.0f free numbers of %d: "+
			"want about 1, and less than a fifth", q, free, len(m.truth))
	}
}

// TestStepsClearer: a pattern with which half of the numbers are the same is the
// device's, if the others are as far as from the claim; one that leaves all a little
// nearer is not.
func TestStepsClearer(t *testing.T) {
	t.Parallel()
	of := func(f func(i int) float64) candidate {
		r := make([]float64, 1000)
		for i := range r {
			r[i] = f(i)
		}
		return candidate{re: math.Sqrt(meanOf(r)), unlike: unlikeness(r)}
	}
	claimed := of(func(i int) float64 { return math.Sin(float64(i)) })
	half := of(func(i int) float64 { return float64(i&1) * 1.4 * math.Sin(float64(i)) })
	near := of(func(i int) float64 { return 0.8 * math.Cos(float64(i)) })
	if !half.clearer(claimed) || near.clearer(claimed) {
		t.Errorf("half the same: %v, all nearer: %v: want true and false", half.clearer(claimed), near.clearer(claimed))
	}
	few := func(n int) candidate {
		return of(func(i int) float64 { return float64(min(i*n/1000-(i-1)*n/1000, 1)) })
	}
	if !few(40).clearer(few(80)) || few(70).clearer(few(80)) {
		t.Errorf("40 others in place of 80: %v, 70: %v: want true and false", few(40).clearer(few(80)),
			few(70).clearer(few(80)))
	}
}

// TestScaleOfNoise: JAX rounds the sum of a convolution, adds its bias in float32 and hands that on; a model in its own
// type has the scale of noise in it, and the loop around it its constants in float32.
func TestScaleOfNoise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ norm, act, noise string }{
		{"none", "gelu", "laplace"}, {"instance", "relu", "gaussian"}, {"group", "silu", "gaussian"},
	} {
		b := newStepBenchOf(t, "bfloat16", "cpu", operator.Config{
			NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: c.act,
			Normalization: c.norm, NoiseType: c.noise, NoiseScale: .7,
		}, convex(.01))
		p := b.gate.claim
		p.Points, p.Constants = p.Points&^emulate.AtConv|emulate.AtBias, emulate.OfNoise
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || !strings.HasSuffix(r.Contract,
			" with the scale of noise in bfloat16") || !strings.Contains(r.Pattern, "bias apart") {
			t.Errorf("%+v: contract %q, pattern %q, findings %v", c, r.Contract, r.Pattern, r.Findings)
		}
	}
}

// TestAlone: a compiler that stores only the convolutions that a sum follows, and has constants in the half type, is
// asked for as a whole: with fewer of these, a deep operator's states are no nearer.
func TestAlone(t *testing.T) {
	t.Parallel()
	b := newDeepStepBench(t, "float16", "cuda", "batch", 4, convex(.7))
	g := b.gate
	p := g.claim
	for i, n := range g.e.Machine.Nodes {
		if strings.HasSuffix(n.Name, "projection") {
			p.Odd |= 1 << i
		}
	}
	p.Points &^= emulate.AtConv
	p.Constants = emulate.AllConstants
	b.device = func(int) *emulate.Device { return b.correct(p, emulate.CoarseLambda) }
	b.run()
	m := b.measured(1)
	best, _, err := g.search(m)
	if err != nil {
		t.Fatal(err)
	}
	if best.Pattern != p {
		t.Errorf("found %v, odd %x, constants %v: want %v, %x", best.Points, best.Odd, best.Constants, p.Points, p.Odd)
	}
}
