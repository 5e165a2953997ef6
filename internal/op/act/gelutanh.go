package act

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// geluTanh evaluates x/2 (1 + tanh(z)), z = sqrt(2/pi) (x + 0.044715 x^3), as
// x/(1 + e^-s) with s = 2z.
//
// s = |x| (alpha + beta x^2): both constants, beta's product, the sum and the
// product with |x| round, x^2 does not for an x of 24 bits: |s| is good to 4 U
// and e^-|s| to (4|s| + 1.1) U. For x > 0 this counts e/(1+e) times, where
// s e/(1+e) < 0.28, so the result with the sum and the quotient is good to
// (4*0.28 + 0.55 + 2) U < 3.7 U. For x < 0 it is |x| e/(1+e) with one product
// more and counts in full: (4|s| + 4.1) U.
//
// Where e is subnormal or 0 the relative bound fails, but then every format
// except Float64 rounds the result and the exact value alike, to -0. For
// Float64, x^2 rounds too: 4 becomes 5, and the least error is 2^-1068.
func geluTanh(x float64) (y, bound float64) {
	const (
		alpha = 1.5957691216057307117597842397375274738 // sqrt(8/pi)
		beta  = 0.044715 * alpha
	)
	a := math.Abs(x)
	s := float64(a * (alpha + float64(beta*float64(a*a))))
	e := elem.Exp(-s)
	if x > 0 {
		y = x / (1 + e)
		return y, 3.8 * elem.U * y
	}
	y = float64(x*e) / (1 + e)
	return y, float64((float64(4*s)+4.3)*elem.U) * math.Abs(y)
}
