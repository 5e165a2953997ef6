package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"exp", nil, to(0, inf), exp, plain(exact.Exp)},
		function{"exp2", nil, to(0, inf), exp2, plain(exact.Exp2)},
		function{"expm1", nil, to(-1, inf), expm1, plain(exact.Expm1)},
	)
}

// within returns y with the bound of a relative error in units of U = 2^-53. Where y
// is subnormal or 0 the second term holds instead; every format but Float64 rounds
// such a number, and the exact value, to a zero, whose sign the settlement knows.
func within(y, units float64) (float64, float64) {
	return y, float64(float64(units*elem.U)*math.Abs(y)) + 0x1p-1070
}

// exp evaluates e^x, good to elem.ExpErr.
func exp(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return 1, 0
	}
	return within(elem.Exp(x), elem.ExpErr)
}

// ln 2 as a sum of two numbers.
const ln2Hi, ln2Lo = 0x1.62e42fefa39efp-01, 0x1.abc9e3b39803fp-56

// exp2 evaluates 2^x as e^(x ln 2): the product in two parts is good to 2^-100, so that
// the error is that of the exponential. Powers of whole numbers are exact.
func exp2(x float64, _ *args) (y, bound float64) {
	x = max(-1100, min(x, 1100)) // beyond, all is 0 or +Inf
	if x == math.Floor(x) {
		return math.Ldexp(1, int(x)), 0
	}
	t := double.Num{Hi: ln2Hi, Lo: ln2Lo}.Scaled(x)
	return within(elem.ExpSum(t.Hi, t.Lo), elem.ExpErr)
}

// expm1 evaluates e^x - 1, good to elem.Expm1Err.
func expm1(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Expm1(x), elem.Expm1Err)
}
