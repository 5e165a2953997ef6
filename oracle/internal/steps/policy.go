package steps

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// A fine claim's device may have an operator with errors several times those that are expected, where libraries form sums
// by other methods. The policy y = a x + b o is nothing to choose a method for: two products and a sum, or a difference, a
// product and a sum, each rounded once at most. Where a state takes little from the operator, these are all the errors that a step shows, and what is
// known of them is the limit.

// worstRounding is the rms of a rounding error in half-ulps of a number just above a power of two, 1/sqrt 3: all
// numbers of a state may be such.
const worstRounding = 0.58

// worstSum returns the sums of the policy with roundings as large as they may be, for a member of an ensemble whose
// operator is worse than expected. Where states are kept in a half type, all of it may be in that type, or the sum alone.
func (g *stepGate) worstSum(x, o *tensor.Tensor, a, b float64, l *emulate.Legal) *tensor.Tensor {
	y, salt, kept := tensor.Like(o), l.Salt(-1, -4), g.kept()
	y.Format = fp16.Float64
	out, share := fp16.Float64, fp16.Float64
	switch {
	case kept == fp16.Float64:
		a, b = g.constants(a, b, l.Member)
	case l.Member%3 == 2:
		out = kept
		fallthrough
	case l.Member%3 == 1:
		share = kept
	}
	rounded := func(factor, v float64) float64 {
		if power(factor) {
			return 0
		}
		return float64(v * v)
	}
	convex := g.e.Case.Rollout.Policy != rollout.Residual
	for k, v := range o.Data {
		old, share := kept.Round(float64(a*x.Data[k])), share.Round(float64(b*out.Round(v)))
		w, terms := old+share, rounded(a, old)+rounded(b, share)
		if d := a * (x.Data[k] - v); convex { // or o + a (x - o)
			terms = max(terms, 2*float64(d*d))
		}
		size := math.Sqrt(float64(w*w) + terms)
		y.Data[k] = kept.Round(w + float64(g.u*worstRounding*size)*emulate.Deviate(salt, w))
	}
	return y
}

// constants returns how a device may have formed the constants a and b of a convex policy: each from alpha and rounded
// by itself, or one as what the other leaves of 1. A third of the members have each.
func (g *stepGate) constants(a, b float64, member uint64) (float64, float64) {
	if g.e.Case.Rollout.Policy == rollout.Residual {
		return a, b
	}
	switch f := g.claim.Mode.Wide(); member % 3 {
	case 1:
		b = f.Round(1 - a)
	case 2:
		a = f.Round(1 - b)
	}
	return a, b
}
