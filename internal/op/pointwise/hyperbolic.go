package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"sinh", nil, to(-inf, inf), sinh, plain(exact.Sinh)},
		function{"cosh", nil, to(inf, inf), cosh, plain(exact.Cosh)},
		function{"asinh", nil, to(-inf, inf), asinh, plain(exact.Asinh)},
		function{"acosh", nil, to(nan, inf), acosh, plain(exact.Acosh)},
	)
}

// halves is where e^-a is nothing beside e^a, which leaves e^a/2, as a product of two factors: e^a may be too large
// where its half is not.
const halves = 40

func halfExp(a float64) float64 {
	e := elem.Exp(a / 2)
	return float64(float64(0.5*e) * e)
}

// sinh evaluates (t + t/(1+t))/2, t = e^|x| - 1. A relative error of t is one of the result of the same size or less,
// as of sums of two terms that grow with t. The second one has 2 U of its own, and is not more than half; the sum 1 U.
// Beyond halves it has twice elem.ExpErr, and 1 U for the product.
func sinh(x float64, _ *args) (y, bound float64) {
	a := math.Abs(x)
	if a == 0 {
		return x, 0
	}
	if a > halves {
		return within(math.Copysign(halfExp(a), x), 2*elem.ExpErr+1)
	}
	t := elem.Expm1(a)
	return within(math.Copysign(float64(0.5*(t+t/(1+t))), x), elem.Expm1Err+2)
}

// cosh evaluates (e^a + 1/e^a)/2, a = |x|. The second term is not more than half, and has 1 U of its own.
func cosh(x float64, _ *args) (y, bound float64) {
	a := math.Abs(x)
	if a == 0 {
		return 1, 0
	}
	if a > halves {
		return within(halfExp(a), 2*elem.ExpErr+1)
	}
	e := elem.Exp(a)
	return within(float64(0.5*(e+1/e)), elem.ExpErr+1.5)
}

// far is where ln(a + sqrt(a^2 ± 1)) is ln 2a and less than U of it.
const far = 0x1p30

// asinh evaluates ln(1+v), v = a + a^2/(1 + sqrt(1 + a^2)), a = |x|. a^2 is off by U, the root by 1.5 U, the
// denominator by 2.5 U, the quotient by 4.5 U, which is not more than half of v, and the sum adds 1 U. A relative
// error of v is one of ln(1+v) of the same size or less. Beyond far it is the sum of two logarithms.
func asinh(x float64, _ *args) (y, bound float64) {
	a := math.Abs(x)
	switch {
	case a == 0:
		return x, 0
	case a > far:
		return within(math.Copysign(elem.Log(a)+math.Ln2, x), elem.LogErr+2)
	}
	s := float64(a * a)
	v := a + s/(1+math.Sqrt(1+s))
	return within(math.Copysign(elem.Log1p(v), x), elem.LogErr+5.5)
}

// acosh evaluates ln(1+v), v = d + sqrt(d (x+1)), d = x-1. d, the sum and their product are off by U each, the root by
// 2.5 U, and v by 3.5 U.
func acosh(x float64, _ *args) (y, bound float64) {
	switch {
	case !(x >= 1):
		return nan, 0
	case x == 1:
		return 0, 0
	case x > far:
		return within(elem.Log(x)+math.Ln2, elem.LogErr+2)
	}
	d := x - 1
	return within(elem.Log1p(d+math.Sqrt(float64(d*(x+1)))), elem.LogErr+3.5)
}
