package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/exact"
)

func init() {
	register(
		function{"log", nil, to(nan, inf), log, plain(exact.Log)},
		function{"log2", nil, to(nan, inf), log2, plain(exact.Log2)},
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

// log1p evaluates ln(1+x), good to elem.LogErr. It has a pole at -1.
func log1p(x float64, _ *args) (y, bound float64) {
	if !(x > -1) || x == 0 {
		return elem.Log1p(x), 0
	}
	return within(elem.Log1p(x), elem.LogErr)
}
