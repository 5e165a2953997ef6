package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// TanhErr bounds the relative error of Tanh in units of U.
const TanhErr = 7

// Tanh returns the hyperbolic tangent, with a relative error below TanhErr*U.
// Tanh(+-0) = +-0, Tanh(+-Inf) = +-1; from 22 on it is +-1.
//
// With t = e^(-2|x|) - 1 it is -t/(t+2). t is (2^e T - 1) + 2^e (the small
// part of the exponential). Where T = 1 and e = 0, t is that small part, good
// to 2 U. Elsewhere |t| > 2^-8.6: the difference is off by U/2 at most, and the
// small part, less than |t|, by four roundings: 5 U with the last addition,
// where |t| is smallest, and t + 2 and the quotient make 7 U. For greater |t|
// the condition of -t/(t+2) rises from 1 to 2 while the small part falls to
// 2^-8.4: less than 5 U.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28: // x - tanh x < x^3/3
		return x
	case a > 22: // 1 - tanh x < 2^-62
		return math.Copysign(1, x)
	case x != x:
		return fp16.NaN
	}
	e, t, small := expParts(-2*a, 0)
	t = (scale(t, e) - 1) + scale(small, e)
	return math.Copysign(t/(t+2), x)
}
