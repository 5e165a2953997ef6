// Package dd evaluates the activation functions in double-double arithmetic,
// to judge those of package act on every float32 number there is.
//
// It shares nothing with act, internal/exact/elem, internal/exact and internal/exact/double: no code, no
// tables, and other formulas. Its tables are made on first use from fixed-point
// integers of 768 fractional bits, which also evaluate the functions
// themselves ([ExactGELU] and so on) where two words do not tell a rounding.
//
// Every product is rounded before it is added, or goes through math.FMA, so no
// compiler's fusing changes a result.
package dd

import "math"

// Bounds of the relative errors of the functions. Each is at least twice what
// the function's comment derives.
const (
	GELUErr     = 0x1p-100
	GELUTanhErr = 0x1p-95
	SiLUErr     = 0x1p-100
	TanhErr     = 0x1p-98
)

// Ends of the negative sides: below, a function is closer to 0 than 2^-151,
// half of what any format here keeps.
const (
	GELUEnd     = -14.5 // |x| Q(|x|) < e^(-x^2/2)/sqrt(2 pi) < 2^-152.9
	GELUTanhEnd = -11   // s > 112.4, |x| e^-s < 2^-158
	SiLUEnd     = -112  // |x| e^-|x| < 2^-154
)

// underflow stands for every number in (-2^-151, 0).
var underflow = Num{Hi: -0x1p-152}

// GELU returns x/2 (1 + erf(x/sqrt 2)) for a float32 number x: x less x Q(x),
// or x Q(-x) for x < 0, Q the normal tail. It is good to GELUErr: 17 E for Q,
// 2 E for the product, and for x > 0, where x Q(x) is at most half of x, 9 E for
// the difference, together 28 E. From 14.5 on it is x, and Q < 2^-156. Below
// GELUEnd it stands for every number in (-2^-151, 0), good to no more.
func GELU(x float64) Num {
	switch {
	case x <= GELUEnd:
		return underflow
	case x >= tailEnd:
		return Num{Hi: x}
	case x <= 0:
		return mulF(tail(-x), x)
	}
	return addSmall(Num{Hi: x}, mulF(tail(x), -x))
}

// GELUTanh returns x/2 (1 + tanh(s/2)) = x/(1 + e^-s) for a float32 number x,
// with s = sqrt(8/pi) (x + 0.044715 x^3). It is good to GELUTanhErr: x^2 is
// exact, s takes two products, 2 E each, a sum, 3.1 E, and constants, E/2, in
// all 8 E. As |s| < 113, e^-|s| is good to 8*113 + 4 E, and the result to 28 E
// more: less than 2^-96. From 12 on it is x, as e^-s < 2^-138, and below
// GELUTanhEnd as GELU.
func GELUTanh(x float64) Num {
	switch {
	case x <= GELUTanhEnd:
		return underflow
	case x >= 12:
		return Num{Hi: x}
	}
	tab := expTable()
	s := add(tab.root8Pi, mulF(tab.root8PiCube, float64(x*x)))
	return logistic(x, mulF(s, -math.Abs(x)))
}

// SiLU returns x/(1 + e^-x) for a float32 number x, good to SiLUErr: 4 E for
// e^-|x| and 25 E more. From 112 on it is x, below SiLUEnd as GELU.
func SiLU(x float64) Num {
	switch {
	case x <= SiLUEnd:
		return underflow
	case x >= -SiLUEnd:
		return Num{Hi: x}
	}
	return logistic(x, Num{Hi: -math.Abs(x)})
}

// logistic returns x/(1 + e^-|s|) for x >= 0 and x e^-|s|/(1 + e^-|s|) for x < 0,
// given -|s|. Beside e^-|s| there are a sum, 2 E, a product, 2 E, and the
// quotient, 20 E.
func logistic(x float64, s Num) Num {
	e := exp(s)
	top := Num{Hi: x}
	if x < 0 {
		top = mulF(e, x)
	}
	return quo(top, addF(e, 1))
}

// Tanh returns the hyperbolic tangent of a float32 number x, good to TanhErr:
// -t/(t+2) with t = e^(-2|x|) - 1, which is good to 70 E where it is small and
// counts once, and below 30 E from |t| = 1/8 on, where it counts at most twice;
// the sum and the quotient take 22 E. From 60 on in size it is +-1, as
// 1 - |tanh| < 2^-170.
func Tanh(x float64) Num {
	a := math.Abs(x)
	y := Num{Hi: 1}
	if a < 60 {
		t := expm1(Num{Hi: float64(-2 * a)})
		y = quo(t.neg(), addF(t, 2))
	}
	if math.Signbit(x) {
		return y.neg()
	}
	return y
}
