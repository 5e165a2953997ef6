// Package single is float32 arithmetic where Go has none: the fused multiply-add, and sums
// of it in a fixed order.
package single

import "math"

// FMA returns a*b + c rounded once to float32: the fused multiply-add of
// float32 hardware, which Go lacks. Go's own float32(math.FMA(...)) rounds
// twice and is wrong now and then.
//
// The product of two float32 numbers is exact in float64: it has at most 48
// significant bits and lies in 2^-298..2^256. So s below is the exact result
// rounded to float64, and only the second rounding, of s to float32, needs
// thought.
//
// Call a midpoint any number at which that rounding changes its result: halfway
// between two neighbouring float32 numbers, or 2^128 - 2^103, where it
// overflows. Every midpoint is a float64 number. Rounding to float64 is
// monotone and leaves float64 numbers alone, so it never carries the exact
// result across a midpoint; it can only carry it onto one. If s is no midpoint,
// the exact result and s therefore lie between the same two midpoints and round
// to the same float32. (A zero s is exact and has the right sign.)
func FMA(a, b, c float32) float32 {
	s := float64(float64(a)*float64(b)) + float64(c)
	if Doubt(s) {
		return Settle(a, b, c)
	}
	return float32(s)
}

// Doubt reports whether a product and sum in float64, s, may be a midpoint. For |s| >= 2^-126 these have
// one significant bit more than a float32, that is, the 29 bits of s that a
// float32 lacks are 1 followed by zeros: one in 2^29 random sums. Below 2^-126
// they sit elsewhere and every s is in doubt. An infinity is no midpoint, and
// a NaN stays one either way.
func Doubt(s float64) bool {
	b := math.Float64bits(s)
	return b&(1<<29-1) == 1<<28 || b<<1 < (1023-126)<<53
}

// Settle is FMA for every result. The sum is rounded to odd first: if it
// is inexact and its last bit is 0, it moves to its neighbour on the side of
// the exact value. A midpoint has at most 25 significant bits, so its last bit
// is 0, and the moved sum is none; by the argument above, which holds for this
// rounding too, it rounds to the right float32, subnormal or not. The error e
// of the sum is exact (Knuth's two-sum; nothing here nears float64's limits).
//
//go:noinline
func Settle(a, b, c float32) float32 {
	p, d := float64(float64(a)*float64(b)), float64(c)
	s := p + d
	t := s - p
	e := (p - (s - t)) + (d - t)
	if bits := math.Float64bits(s); (e < 0 || e > 0) && bits&1 == 0 { // NaN beside an infinity
		// The pattern of a float64 counts its magnitude up.
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
