package exact

import (
	"math"
	"math/big"
)

// Pow returns x^y for a finite x > 0 and y != 0, both on the float32 grid, rounded to
// odd.
//
// Let x = m 2^e and y = n/2^f with m and n odd (or f = 0). As long as f > 0, x^y is
// irrational unless x is a square, since n is odd; then x and f are replaced by the
// root and f-1. What is left with f = 0 is m^n 2^(e n): a float64 number if m = 1, or
// if n > 0 and m^n has at most 53 bits. Otherwise it is none: a fraction in lowest
// terms, an odd number of more bits, or irrational, and ziv ends unless it lies
// within 2^-32000 of one.
func Pow(x, y float64) float64 {
	if v, ok := power(x, y); ok {
		return v
	}
	size, _ := newBig(64).Mul(bigLog(bigFloat(64, x), 64), bigFloat(64, y)).Float64()
	switch {
	case size > 2000:
		return greatest
	case size < -2000:
		return least
	}
	return ziv(func(w uint) *big.Float {
		t := bigLog(bigFloat(w, x), w)
		return bigExp(t.Mul(t, bigFloat(w, y)), w)
	})
}

// power returns x^y if that is a float64 number.
func power(x, y float64) (v float64, ok bool) {
	f, e := math.Frexp(x)
	m := uint64(f * 0x1p53)
	for e -= 53; m&1 == 0; e++ {
		m >>= 1
	}
	for ; y != math.Floor(y); y *= 2 {
		root := uint64(math.Sqrt(float64(m))) // exact for a square below 2^53
		if root*root != m || e&1 != 0 {
			return 0, false
		}
		m, e = root, e/2
	}
	if math.Abs(y) > 2000 && (m > 1 || e != 0) {
		return 0, false // beyond float64's range, or of more than 53 bits
	}
	p := 1.0
	if m > 1 {
		for range int(math.Abs(y)) {
			if p *= float64(m); y < 0 || p > 0x1p53 {
				return 0, false
			}
		}
	}
	switch k := float64(e) * y; {
	case k > 1020:
		return greatest, true
	case k < -1020:
		return least, true
	default:
		return math.Ldexp(p, int(k)), true
	}
}
