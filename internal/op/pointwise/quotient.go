package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// fmod is what is left of a by the quotient towards zero. It has a's sign and is a number of
// the float64 grid: less than b, and a multiple of the less of both units.
func fmod(a, b float64) (y, bound float64) { return math.Mod(a, b), 0 }

// remainder is what is left by the quotient rounded down: fmod's, or the sum of that and b if
// their signs differ, with its error in the second word.
func remainder(a, b float64) (y, bound float64) {
	r := math.Mod(a, b)
	switch {
	case !apart(r, b):
		return r, 0
	case math.IsInf(b, 0):
		return b, 0
	}
	s := double.Sum(r, b)
	return s.Hi, math.Abs(s.Lo)
}

func settleRemainder(a, b float64) float64 { return odd(double.Sum(math.Mod(a, b), b)) }

// apart reports whether a remainder is not 0 and of another sign than b.
func apart(r, b float64) bool { return r < 0 && b > 0 || r > 0 && b < 0 }

// truncDivide is a/b without what follows the point.
//
// a less its remainder is n times b, with a whole n. The difference and the quotient are
// rounded: 2 U n, less than 1/4 below 2^50, where the nearest whole number is n. (Of whole
// numbers both are exact.) Above, what is made differs from a/b by less than 2^-49 of it, also
// if it is one less, and rounds as that does, as no tie is so near: see div.
func truncDivide(a, b float64) (n, bound float64) {
	q := a / b
	if b == 0 || a-a != 0 || b != b {
		return q, 0
	}
	return math.Copysign(math.RoundToEven((a-math.Mod(a, b))/b), q), 0
}

// floorDivide is the greatest whole number up to a/b.
func floorDivide(a, b float64) (n, bound float64) {
	if math.IsInf(a, 0) {
		return nan, 0 // as in numpy and PyTorch: there is no remainder
	}
	n, _ = truncDivide(a, b)
	if apart(math.Mod(a, b), b) {
		n--
	}
	return n, 0
}
