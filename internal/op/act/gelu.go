package act

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// gelu evaluates x/2 (1 + erf(x/sqrt 2)).
//
// With t = |x|/2 erfc(|x|/sqrt 2) it is x - t for x > 0 and -t for x < 0, which
// loses nothing in the negative tail. erfc(|x|/sqrt 2) is taken apart as
// e^(-x^2/2) erfcx(|x|/sqrt 2), the square without error.
//
// In units of U = 2^-53, t carries 1.1 for the exponential, 2.4 for erfcx, 2
// for its argument (a constant and a product; the condition of erfcx is below
// 1) and 2 for products: 7.5. x - t >= t adds 1. Together 8.5 U of the result.
//
// The bound is relative, so it fails where t is subnormal or 0; but then every
// format except Float64 rounds the result and the exact value alike, to -0. A
// Float64 result is good to 8.6 U, or 2^-1073 if that is more.
func gelu(x float64) (y, bound float64) {
	a := math.Abs(x)
	if a > 39 { // t < e^-760, less than every float64
		return max(x, negZero), 0x1p-1000 * max(x, 0)
	}
	hi, lo := elem.Square(a)
	e := elem.ExpSum(float64(-0.5*hi), float64(-0.5*lo))
	t := float64(float64(0.5*a) * elem.Erfcx(float64(a*(1/math.Sqrt2))))
	t = float64(t * e)
	if x > 0 {
		y = x - t
	} else {
		y = math.Copysign(t, x)
	}
	return y, 8.6 * elem.U * math.Abs(y)
}
