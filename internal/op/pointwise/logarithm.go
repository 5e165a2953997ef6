package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"log", nil, to(nan, inf), log, plain(exact.Log)},
		function{"log2", nil, to(nan, inf), log2, plain(exact.Log2)},
		function{"log10", nil, to(nan, inf), log10, plain(exact.Log10)},
		function{"log1p", nil, to(nan, inf), log1p, plain(exact.Log1p)},
	)
}

// log evaluates the natural logarithm, good to elem.LogErr. It has a pole at 0.
func log(x float64, _ *args) (y, bound float64) {
	if !(x > 0) || x == 1 {
		return elem.Log(x), 0
	}
	return within(elem.Log(x), elem.LogErr)
}

// log2 evaluates the logarithm to the base 2 as ln x times 1/ln 2, a rounded constant
// and a product: 2 U more than log. Logarithms of powers of 2 are exact.
func log2(x float64, _ *args) (y, bound float64) {
	if !(x > 0) {
		return elem.Log(x), 0
	}
	if m, e := math.Frexp(x); m == 0.5 {
		return float64(e - 1), 0
	}
	return within(float64(elem.Log(x)*(1/math.Ln2)), elem.LogErr+2)
}

// log10 evaluates the logarithm to the base 10 as log2 does. Those of powers of 10 are exact.
func log10(x float64, _ *args) (y, bound float64) {
	if !(x > 0) {
		return elem.Log(x), 0
	}
	y = float64(elem.Log(x) * (1 / math.Ln10))
	if x >= 1 && y < 23 && x == powersOf10[int(y+0.5)] {
		return math.Floor(y + 0.5), 0
	}
	return within(y, elem.LogErr+2)
}

// powersOf10 are those that float64 holds.
var powersOf10 = [24]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// log1p evaluates ln(1+x), good to elem.LogErr. It has a pole at -1.
func log1p(x float64, _ *args) (y, bound float64) {
	if !(x > -1) || x == 0 {
		return elem.Log1p(x), 0
	}
	return within(elem.Log1p(x), elem.LogErr)
}
