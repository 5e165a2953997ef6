package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"sin", nil, to(nan, nan), sin, plain(exact.Sin)},
		function{"cos", nil, to(nan, nan), cos, plain(exact.Cos)},
		function{"tan", nil, to(nan, nan), tan, plain(exact.Tan)},
		function{"atan", nil, to(-math.Pi/2, math.Pi/2), atan, plain(settleAtan)},
		function{"asin", nil, to(nan, nan), asin, plain(exact.Asin)},
		function{"acos", nil, to(nan, nan), acos, plain(exact.Acos)},
		function{"erf", nil, to(-1, 1), erf, plain(exact.Erf)},
		function{"erfc", nil, to(2, 0), erfc, plain(exact.Erfc)},
	)
}

// sin, cos and tan are those of package elem, for angles of any size.
func sin(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Sin(x), elem.TrigErr)
}

func cos(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return 1, 0
	}
	return within(elem.Cos(x), elem.TrigErr)
}

func tan(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Tan(x), elem.TanErr)
}

// atan and atan2 are elem.Atan2, exact where the angle is 0.
func atan(x float64, _ *args) (y, bound float64) { return atan2(x, 1) }

func settleAtan(x float64) float64 { return exact.Atan2(x, 1) }

func atan2(a, b float64) (y, bound float64) {
	y = elem.Atan2(a, b)
	if y != y || b == inf && math.Abs(a) < inf || a == 0 && !math.Signbit(b) {
		return y, 0
	}
	return within(y, elem.AtanErr)
}

// erf is elem.Erf.
func erf(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Erf(x), elem.ErfErr)
}

// asin and acos are angles of the point (sqrt((1-x)(1+x)), x) with the first or the second axis. The root is off by
// 2.5 U, which moves an angle by no more of it.
func asin(x float64, _ *args) (y, bound float64) {
	if x == 0 || !(math.Abs(x) <= 1) {
		return inUnit(x), 0
	}
	return within(elem.Atan2(x, math.Sqrt(float64((1-x)*(1+x)))), elem.AtanErr+2.5)
}

func acos(x float64, _ *args) (y, bound float64) {
	if !(math.Abs(x) <= 1) {
		return nan, 0
	}
	if x == 1 {
		return 0, 0
	}
	return within(elem.Atan2(math.Sqrt(float64((1-x)*(1+x))), x), elem.AtanErr+2.5)
}

// inUnit returns x, or NaN beyond 1.
func inUnit(x float64) float64 {
	if math.Abs(x) <= 1 {
		return x
	}
	return nan
}

// erfc is elem.Erfc.
func erfc(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return 1, 0
	}
	return within(elem.Erfc(x), elem.ErfcErr)
}
