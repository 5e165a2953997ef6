package judge

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// powerOff bounds the error of x^z for exact numbers, in units of u of the result: a library's exp(z log x) is
// within 4 ulp, and a product of n factors has n-1 roundings, to which a reciprocal adds three.
func powerOff(z float64) float64 {
	if z == 0 {
		return 0 // C and IEEE 754 have 1
	}
	if z == math.Floor(z) {
		return max(8, math.Abs(z)+2)
	}
	return 8
}

// powerMoves is how far a power y = x^z moves where its base moves by rx and its exponent by rz. Open is set if
// y is not finite and right kernels may have another number there.
func powerMoves(x, rx, z, rz, y float64) (e float64, open bool) {
	if rx == 0 && rz == 0 {
		return 0, false
	}
	lo, hi := powers(x-rx, x+rx, z-rz, z+rz)
	if y-y != 0 {
		return math.Inf(1), lo <= hi && !(lo == y && hi == y)
	}
	return max(hi-y, y-lo) * (1 + 0x1p-20), false // of elem.Pow's own error, too
}

// powers is the range of b^w for bases and exponents between two each; of no number lo is above hi.
//
// For positive bases b^w = e^(w ln b) rises or falls in each of the two, so that it is greatest and least at
// corners. A negative base has a power where the exponent is whole: that of its size, and by whether the exponent is
// odd, its sign.
func powers(b0, b1, w0, w1 float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	if b1 >= 0 {
		lo, hi = corners(max(b0, 0), b1, w0, w1)
	}
	if first := math.Ceil(w0); b0 < 0 && first <= w1 {
		least, most := corners(max(-b1, 0), -b0, w0, w1)
		if even := math.Mod(first, 2) == 0; even || first < w1 {
			lo, hi = min(lo, least), max(hi, most)
		}
		if odd := math.Mod(first, 2) != 0; odd || first < w1 {
			lo, hi = min(lo, -most), max(hi, -least)
		}
	}
	return lo, hi
}

// corners is the range of b^w for bases that are not negative.
func corners(b0, b1, w0, w1 float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, b := range [2]float64{b0, b1} {
		for _, w := range [2]float64{w0, w1} {
			p := raised(b, w)
			lo, hi = min(lo, p), max(hi, p)
		}
	}
	return lo, hi
}

// raised is b^w for b >= 0.
func raised(b, w float64) float64 {
	switch {
	case w == 0:
		return 1
	case b > 0 && b-b == 0:
		return elem.Pow(b, w)
	case (b == 0) == (w > 0):
		return 0
	}
	return math.Inf(1)
}
