package act

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// silu evaluates x/(1 + e^-x), for x < 0 as x e^x/(1 + e^x).
//
// With e = e^-|x|, good to 1.1 U, the sum and the quotient: for x > 0 e counts
// e/(1+e) <= 1/2 times, 2.6 U in all. For x < 0 it counts in full and there is
// one product more: 4.1 U.
//
// Where e is subnormal or 0 the relative bound fails, but then every format
// except Float64 rounds the result and the exact value alike, to -0. The least
// error of a Float64 result is 2^-1064.
func silu(x float64) (y, bound float64) {
	e := elem.Exp(-math.Abs(x))
	if x > 0 {
		y = x / (1 + e)
	} else {
		y = float64(x*e) / (1 + e)
	}
	return y, 4.2 * elem.U * math.Abs(y)
}
