package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
)

func init() {
	register(
		function{"sqrt", nil, nil, sqrt, nil},
		function{"rsqrt", nil, to(nan, 0), rsqrt, plain(exact.Rsqrt)},
		function{"reciprocal", nil, nil, reciprocal, nil},
		function{"square", nil, nil, square, nil},
	)
}

// sqrt is IEEE 754's square root, rounded to float64 and then to the format, as if
// once.
//
// The second rounding could go wrong only if the root s of a float32 number x, between
// 2^e and 2^(e+1), were not a tie t of the format (its grid points, and what lies
// halfway between them, have at most 25 bits, subnormal ones fewer) but within 2^-53 t
// of one. Then |x - t^2| = |s-t| (s+t) < 2^-51.9 t^2. But x, of 24 bits, is a multiple
// of 2^(2e-23) and t^2 one of 2^(2e-48), and t^2 < 2^(2e+2): they are equal, or differ
// by 2^-50 t^2 at least.
func sqrt(x float64, _ *args) (y, bound float64) { return math.Sqrt(x), 0 }

// rsqrt evaluates 1/sqrt(x), two roundings. It has poles of its sign at the zeros.
func rsqrt(x float64, _ *args) (y, bound float64) {
	y = 1 / math.Sqrt(x)
	if !(x > 0) {
		return y, 0
	}
	return within(y, 2.01)
}

// reciprocal is 1/x, rounded as div rounds.
func reciprocal(x float64, _ *args) (y, bound float64) { return 1 / x, 0 }

// square is x*x: of numbers of 24 bits exact.
func square(x float64, _ *args) (y, bound float64) { return float64(x * x), 0 }
