package elem

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// PowErr bounds the relative error of Pow in units of U: PowErr + PowSlope t,
// where t = |y ln x|.
const (
	PowErr   = 1.2
	PowSlope = 0.06
)

// Pow returns x^y for a finite x > 0 and a finite y, with a relative error below
// (PowErr + PowSlope |y ln x|) U. It overflows to +Inf and underflows to +0.
//
// ln x is w + rest with |rest| < 2^-7 |w|, good to 2^-5 U (see logParts; near 1,
// where w = x - 1 is exact, logTail is good to 4 U of 2^-8 w). In y w + y rest
// only the product y rest and what is added to it are rounded, 2 U of 2^-7:
// (2^-5 + 2^-6) U |y ln x| in all, to which the exponential adds its own 1.1 U.
// Where the rest is that small, powers that are float64 numbers, such as 3^4, are
// returned as they are.
func Pow(x, y float64) float64 {
	var w, rest float64
	switch r := x - 1; {
	case math.Abs(r) < 0x1p-7:
		w, rest = r, logTail(r)
	case x < 0x1p-1022:
		w, rest = logParts(x*0x1p54, 0, -54)
	default:
		w, rest = logParts(x, 0, 0)
	}
	p := double.Product(y, w)
	switch {
	case p.Hi > 1000:
		return math.Inf(1)
	case p.Hi < -1000:
		return 0
	}
	p = double.Sum(p.Hi, p.Lo+float64(y*rest))
	return ExpSum(p.Hi, p.Lo)
}
