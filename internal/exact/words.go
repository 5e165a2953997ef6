package exact

import "math"

// Words returns the sum of the terms, rounded to odd, if it can tell; lost
// bounds what is not in the terms.
//
// The sum is kept as s + l without error but for what l cannot hold: each term
// leaves a rounding error in s, which is added to l, and each of those leaves
// one in l, which is lost; all are exact (TwoSum), and so the exact value is
// s + l + d with |d| at most the sum of the magnitudes of what is lost.
// With h + t = s + l, h rounded to nearest, there are three cases:
//
//   - Nothing is lost and t = 0: the value is h.
//   - |t| is so large that it has the sign of t+d and |d| <= |t|/2. As |t| is
//     at most half the gap between h and its neighbour on that side, |t+d| is
//     less than the gap; so the value lies strictly between the two numbers,
//     and the one of them that is odd is its rounding to odd.
//   - Otherwise, and with infinities or NaNs, it cannot tell.
//
// The computed sum of what is lost has a relative error below n 2^-53; the 4
// instead of 2 below covers it.
func Words(terms []float64, lost float64) (odd float64, ok bool) {
	var s, l float64
	for _, p := range terms {
		var e float64
		s, e = TwoSum(s, p)
		l, e = TwoSum(l, e)
		lost += math.Abs(e)
	}
	h, t := TwoSum(s, l)
	switch {
	case lost == 0 && t == 0:
		return h, true
	case !(math.Abs(t) > 4*lost):
		return 0, false
	case math.Float64bits(h)&1 == 0:
		h = math.Nextafter(h, math.Copysign(math.Inf(1), t))
	}
	return h, true
}

// TwoSum returns s = a+b, rounded, and the error e: s+e = a+b exactly (D. E.
// Knuth, The Art of Computer Programming, vol. 2, section 4.2.2, theorem B).
func TwoSum(a, b float64) (s, e float64) {
	s = a + b
	z := s - a
	return s, (a - (s - z)) + (b - z)
}
