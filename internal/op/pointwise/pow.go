package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

// pow evaluates a^b, with the special cases of IEEE 754's pow.
//
// elem.Pow is good to elem.PowErr + elem.PowSlope t with t = |b ln |a||. As that is the
// logarithm of the result y, it is at most (|e|+1) ln 2 + 1/1000, y being in [2^e, 2^(e+1)).
func pow(a, b float64) (y, bound float64) {
	switch {
	case b == 0, a == 1:
		return 1, 0
	case a != a || b != b:
		return nan, 0
	case a == 0 || math.Abs(a) == inf:
		return powOfEnd(a, b), 0
	case math.Abs(b) == inf:
		switch {
		case a == -1:
			return 1, 0
		case math.Abs(a) > 1 == (b > 0):
			return inf, 0
		}
		return 0, 0
	case a < 0 && b != math.Floor(b):
		return nan, 0
	}
	y = elem.Pow(math.Abs(a), b)
	e := float64(min(math.Abs(float64(math.Ilogb(y))), 2000))
	_, bound = within(y, elem.PowErr+float64(elem.PowSlope*float64(0.7*(e+1))))
	if a < 0 && odds(b) {
		y = -y
	}
	return y, bound
}

// powOfEnd returns a^b for a zero or an infinity, and b != 0.
func powOfEnd(a, b float64) float64 {
	y := math.Abs(a)
	if b < 0 {
		y = 1 / y
	}
	if odds(b) {
		return math.Copysign(y, a)
	}
	return y
}

// odds reports whether b is an odd whole number.
func odds(b float64) bool { return b == math.Floor(b) && b/2 != math.Floor(b/2) }

func settlePow(a, b float64) float64 {
	y := exact.Pow(math.Abs(a), b)
	if a < 0 && odds(b) {
		return -y
	}
	return y
}
