package emulate

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// A float32 device may have an operator with errors several times those that are expected, where libraries form sums by
// other methods. The policy y = a x + b o is nothing to choose a method for: two products and a sum, or a difference, a
// product and a sum, each rounded once at most. Where a state takes little from the operator, these are all the errors
// that a step shows, and what is known of them is the limit.

// worstRounding is the rms of a rounding error in half-ulps of a number just above a power of two, 1/sqrt 3: all
// numbers of a state may be such. With alpha 1/2, of a state and an output that are both near 1, half of
// the sums are ties and it is 1/sqrt 2: that is not allowed for.
const worstRounding = 0.58

// Blend returns the sums of a convex or residual policy with roundings as large as a right device's may be, and with
// constants that such a device may have. Where states are kept in a half type, not Float64, all of it may be in that
// type, or the sum alone. Members of an ensemble differ in these choices.
func (l *Legal) Blend(x, o *tensor.Tensor, c rollout.Config, m graph.Mode, kept fp16.Format) *tensor.Tensor {
	y, salt, p := tensor.Like(o), l.Salt(-1, -4), blendOf(c, m)
	y.Format = fp16.Float64
	out, share := fp16.Float64, fp16.Float64
	switch {
	case kept == fp16.Float64:
		p = p.constants(l.Member)
	case l.Member%3 == 2:
		out = kept
		fallthrough
	case l.Member%3 == 1:
		share = kept
	}
	for k, v := range o.Data {
		w := kept.Round(float64(p.a*x.Data[k])) + share.Round(float64(p.b*out.Round(v)))
		size := Accumulator(m) * worstRounding * p.size(x.Data[k], v, math.Hypot)
		y.Data[k] = kept.Round(w + float64(size*Deviate(salt, w)))
	}
	return y
}

// Update returns a Device's Update with such sums, otherwise exact; nil for a policy that takes the output as it is.
func (l *Legal) Update(m graph.Mode) func(x, out *tensor.Tensor) *tensor.Tensor {
	c := l.Machine.Config
	if c.Policy == rollout.Autoregressive {
		return nil
	}
	after := c
	after.Policy = rollout.Autoregressive // of the sums
	return func(x, out *tensor.Tensor) *tensor.Tensor {
		return after.Advance(x, l.Blend(x, out, c, m, fp16.Float64), fp16.Float64, m)
	}
}

// blend is a policy y = a x + b o.
type blend struct {
	a, b   float64
	convex bool
	f      fp16.Format // of its constants
}

func blendOf(c rollout.Config, m graph.Mode) blend {
	f := m.Wide()
	if c.Policy == rollout.Residual {
		return blend{1, m.Scalar(c.Dt, f), false, f}
	}
	return blend{m.Scalar(c.Alpha, f), m.Scalar(1-c.Alpha, f), true, f}
}

// size returns the size of what is rounded, all numbers of it taken together by add: products with a power of two are
// not, and a convex policy may also be x + b (o - x) or o + a (x - o), where the difference is rounded before it is
// multiplied.
func (p blend) size(x, o float64, add func(p, q float64) float64) float64 {
	product := func(factor, v float64) float64 {
		if f, _ := math.Frexp(factor); f == .5 {
			return 0
		}
		return float64(factor * v)
	}
	terms := add(product(p.a, x), product(p.b, o))
	if d := float64(max(p.a, p.b) * (x - o)); p.convex {
		terms = max(terms, add(d, d))
	}
	return add(float64(p.a*x)+float64(p.b*o), terms)
}

// constants returns the policy with constants as a device may have formed them: each from alpha and rounded by itself,
// or one as what the other leaves of 1. A third of the members have each.
func (p blend) constants(member uint64) blend {
	switch {
	case !p.convex:
	case member%3 == 1:
		p.b = p.f.Round(1 - p.a)
	case member%3 == 2:
		p.a = p.f.Round(1 - p.b)
	}
	return p
}
