package steps

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// scale returns the standard deviation that the claim makes one expect of an
// element's error.
//
// The contract's own emulation has such errors: their mean square over a plane,
// less what the last roundings contribute on average, is the variance of all
// that comes before them. The last roundings are uniform over half an ulp of
// numbers that are known:
//
//	s^2 = inner (mean (emu - truth)^2 - mean last) + last
//
// Numbers that the clamp holds at its ends have no errors, and say nothing of those
// of the others.
//
// A float32 device adds up in float32, which the contract does not: there
// inner is the ratio of a disturbed emulation's variance to the contract's (see innerOf). Where pixels are
// alike, the first mean is one of a few numbers, and where the last roundings are nearly all of
// it, the difference is one of chance: there more devices are taken in (see another).
func (g *stepGate) scale(m *measured, truth, emu, o *tensor.Tensor) error {
	hw, last := truth.H()*truth.W(), g.last()
	errs := g.errorsOf(emu, truth)
	errors, count := planeMeans(errs, hw, func(k int) float64 { return float64(errs[k] * errs[k]) })
	lasts, _ := planeMeans(errs, hw, func(k int) float64 { return last(truth.Data[k], o.Data[k]) })
	// for float32's roundings of the state
	sizes, _ := planeMeans(errs, hw, func(k int) float64 { return float64(truth.Data[k] * truth.Data[k]) })
	chance := false
	for p, n := range count {
		chance = chance || errors[p]-lasts[p] < 4*math.Sqrt(2/max(n, 1))*lasts[p]
	}
	rounds := g.rounds(m.BatchStep, m.alike, chance)
	more := make([]float64, len(count))
	for device := range rounds {
		y, err := g.another(m.BatchStep, device)
		if err != nil {
			return err
		}
		errs := g.errorsOf(y, truth)
		squares, _ := planeMeans(errs, hw, func(k int) float64 { return float64(errs[k] * errs[k]) })
		for p, v := range squares {
			more[p] += v / float64(rounds)
		}
	}
	m.s, m.of = make([]float64, len(truth.Data)), float64(hw)/m.alike*float64(1+rounds)
	var err error
	if m.inner, err = g.innerOf(m.BatchStep, rounds > 0); err != nil {
		return err
	}
	for p := range count {
		inner := max((errors[p]-lasts[p]+more[p]*float64(rounds))/float64(1+rounds), more[p])
		if m.inner != nil {
			inner *= m.inner[p%truth.C()]
		}
		least := 0.01*errors[p] + float64(g.u*g.u)*sizes[p]/4
		for k := p * hw; k < (p+1)*hw; k++ {
			m.s[k] = math.Sqrt(max(inner+last(truth.Data[k], o.Data[k]), least))
		}
	}
	return nil
}

// errorsOf returns how far states are from the exact ones, NaN where that says nothing: it is not
// finite, or a clamp holds both.
func (g *stepGate) errorsOf(y, truth *tensor.Tensor) []float64 {
	errs, even := make([]float64, len(y.Data)), make([]float64, len(y.Data))
	for k, v := range y.Data {
		errs[k], even[k] = v-truth.Data[k], 1
	}
	measure.LevelOut(g.e.Case.Rollout, errs, truth.Data, even, truth.N(), false)
	for k, d := range errs {
		if !measure.Finite(d) || d == 0 && clamped(g.e.Case.Rollout.Clamp, truth.Data[k]) {
			errs[k] = math.NaN()
		}
	}
	return errs
}

// planeMeans returns the mean of f over each plane of hw numbers, and over how many of them: those
// whose errors are none of NaN.
func planeMeans(errs []float64, hw int, f func(k int) float64) (means, count []float64) {
	means, count = make([]float64, len(errs)/hw), make([]float64, len(errs)/hw)
	for p := range means {
		for k := p * hw; k < (p+1)*hw; k++ {
			if errs[k] == errs[k] {
				means[p], count[p] = means[p]+f(k), count[p]+1
			}
		}
		means[p] /= max(count[p], 1)
	}
	return means, count
}

// clamped reports whether a state is an end of the clamp, where no error is left.
func clamped(c *[2]float64, v float64) bool { return c != nil && (v <= c[0] || v >= c[1]) }

// last returns the variance of the last roundings: of the operator's output o, of its share
// of the state, and of what is kept in a half type.
func (g *stepGate) last() func(next, o float64) float64 {
	c, f, m, kept := g.e.Case.Rollout, g.claim.Mode.Precision, g.claim.Mode, g.kept()
	ulp := func(f fp16.Format, v float64) float64 { q := f.Ulp(v); return q * q / 12 }
	if half := g.half(); g.normalizesHalf() {
		return func(next, _ float64) float64 { return ulp(half, next) }
	}
	if c.Normalization != rollout.NoNormalization {
		return func(_, _ float64) float64 { return 0 }
	}
	a, b := 0.0, 1.0
	switch c.Policy {
	case rollout.Residual:
		b = m.Scalar(c.Dt, f)
	case rollout.Convex, "":
		a, b = c.Alpha, m.Scalar(1-c.Alpha, f)
	}
	rounds := g.claim.Half() && g.e.Op.Output(m) == f // and no sum with the float32 input
	return func(next, o float64) (sum float64) {
		if rounds {
			sum = float64(b*b) * ulp(f, o)
			if !power(b) {
				sum += ulp(f, float64(b*o))
			}
		}
		if kept != fp16.Float64 && !(rounds && kept == f && c.Policy == rollout.Autoregressive) { // as it is
			if sum += ulp(kept, next); a != 0 && !power(a) {
				sum += ulp(kept, next-float64(b*o))
			}
		}
		return sum
	}
}

// power reports whether v is a power of two: what it multiplies is not rounded.
func power(v float64) bool {
	f, _ := math.Frexp(v)
	return f == .5
}
