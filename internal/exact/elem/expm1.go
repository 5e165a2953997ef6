package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// Expm1Err bounds the relative error of Expm1 in units of U.
const Expm1Err = 8

// Expm1 returns e^x - 1, with a relative error below Expm1Err*U. Expm1(+-0) =
// +-0, Expm1(-Inf) = -1, Expm1(+Inf) = +Inf; it overflows above 709.78.
//
// With e^x = 2^e (t + small) of expParts it is (2^e t - 1) + 2^e small. Where
// e^x = 1 + small, for |x| < 2^-8.5, that small part is x + x^2/2 + ...: the
// missing term is below 1.9 U of it, roundings below 1.1 U. Elsewhere the result
// is above 2^-8.54 in size, and e^x at most 1 + 2^8.54 times that:
//
//	the difference    exact for 2^e t in [1/2, 2], 1.1 U beyond
//	the small part    2^-8.4 e^x, off by 4 roundings: 4.5 U where the result is least
//	the missing term  U/208 of e^x: 1.8 U there
//	the sum           1 U
//
// together 7.3 U near 2^-8.5, and 3 U far from there, where the first counts.
func Expm1(x float64) float64 {
	switch a := math.Abs(x); {
	case a < 0x1p-54: // e^x - 1 - x < x^2
		return x
	case x != x:
		return fp16.NaN
	case x > 40: // 1 < 2^-57 e^x
		return Exp(x)
	case x < -40:
		return -1
	}
	e, t, small := expParts(x, 0)
	return (scale(t, e) - 1) + scale(small, e)
}
