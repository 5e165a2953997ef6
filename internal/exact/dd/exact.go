package dd

import (
	"math"
	"math/big"
)

// ExactBits says how good the functions below are: to 2^-ExactBits absolutely,
// where the least result is 2^-161 or, for tiny x, about x/2.
const ExactBits = 500

// ExactGELU returns 2^Frac x/2 (1 + erf(x/sqrt 2)) for a float32 number x in
// [-16, 16]; it panics outside. The error is below 2^-560.
func ExactGELU(x float64) *big.Int {
	a := inside(x, 16)
	v := fixMul(fixTail(a), fixFloat(a))
	if x < 0 {
		return v.Neg(v)
	}
	return v.Sub(fixFloat(a), v)
}

// ExactGELUTanh returns 2^Frac x/(1 + e^-s), s = sqrt(8/pi) (x + 0.044715 x^3),
// for a float32 number x in [-11.5, 11.5]; it panics outside. The error is below
// 2^-700.
func ExactGELUTanh(x float64) *big.Int {
	a := fixFloat(inside(x, 11.5))
	root := fixSqrt(fixQuo(fixInt(8), fixPi()))
	s := fixMul(cube(fixMul(fixMul(a, a), a)), root)
	return exactLogistic(x, s.Add(s, fixMul(a, root)))
}

// ExactSiLU returns 2^Frac x/(1 + e^-x) for a float32 number x in [-112, 112]; it
// panics outside. The error is below 2^-700.
func ExactSiLU(x float64) *big.Int {
	return exactLogistic(x, fixFloat(inside(x, 112)))
}

// exactLogistic returns x/(1 + e^-s) for x >= 0 and x e^-s/(1 + e^-s) for x < 0.
func exactLogistic(x float64, s *big.Int) *big.Int {
	e := fixExp(new(big.Int).Neg(s))
	v := fixFloat(x)
	if x < 0 {
		v = fixMul(v, e)
	}
	return fixQuo(v, e.Add(e, fixInt(1)))
}

// ExactTanh returns 2^Frac tanh x for a float32 number x in [-60, 60]; it panics
// outside. The error is below 2^-700.
func ExactTanh(x float64) *big.Int {
	e := fixExp(fixFloat(-2 * inside(x, 60)))
	v := fixQuo(new(big.Int).Sub(fixInt(1), e), new(big.Int).Add(fixInt(1), e))
	if x < 0 {
		v.Neg(v)
	}
	return v
}

// inside returns |x|, which must not exceed end.
func inside(x, end float64) float64 {
	a := math.Abs(x)
	if !(a <= end) {
		panic("dd: argument outside the domain of an exact evaluation")
	}
	return a
}
