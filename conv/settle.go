package conv

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
)

// settle returns the output of channel o in column x, whose float64 sum v the
// guard could not decide: from a sum in three words, which is quick and nearly
// always enough, or else from the exact sum.
func (r *row) settle(o, x int, v float64) float64 {
	f := r.dst.Format
	if v-v != 0 && r.k.finite {
		// Sums of products of finite float32 numbers do not overflow, so v
		// is what IEEE 754 makes of the infinities and NaNs of the terms;
		// and the zeros of the padding met finite weights only.
		return f.Round(v)
	}
	r.gather(o, x)
	if odd, ok := threeWords(r.terms, 0); ok {
		return f.Round(odd)
	}
	var sum exact.Sum
	for _, p := range r.terms {
		sum.Add(p)
	}
	return f.Round(sum.Odd())
}

// settle64 returns the float64 output of channel o in column x whose sum v is
// NaN: perhaps only because a zero of the padding met an infinite weight.
func (r *row) settle64(o, x int, v float64) float64 {
	if !r.k.finite {
		v = 0
		r.gather(o, x)
		for _, p := range r.terms {
			v += p
		}
	}
	return fp16.Float64.Round(v)
}

// gather sets r.terms to the terms of an output: the products of the taps that
// read something, in order, and then the bias.
func (r *row) gather(o, x int) {
	k, w := r.k, r.k.packed[r.k.at(o, 0):]
	terms, width := r.terms[:0], r.src.W()
	for c := range k.ic {
		plane := r.src.Plane(r.n, c)
		for t := range k.kh {
			iy := r.rows.tap(r.y, t)
			for i := range k.kw {
				if ix := r.cols.tap(x, i); iy >= 0 && ix >= 0 {
					terms = append(terms, plane[iy*width+ix]*w[2*i])
				}
			}
			w = w[min(2*k.kw, len(w)):]
		}
	}
	r.terms = append(terms, k.bias[o])
}

// threeWords returns the sum of the terms, rounded to odd, if it can tell; lost
// bounds what is not in the terms.
//
// The sum is kept as s + l without error but for what l cannot hold: each term
// leaves a rounding error in s, which is added to l, and each of those leaves
// one in l, which is lost; all are exact (twoSum), and so the exact value is
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
func threeWords(terms []float64, lost float64) (odd float64, ok bool) {
	var s, l float64
	for _, p := range terms {
		var e float64
		s, e = twoSum(s, p)
		l, e = twoSum(l, e)
		lost += math.Abs(e)
	}
	h, t := twoSum(s, l)
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

// twoSum returns s = a+b, rounded, and the error e: s+e = a+b exactly (D. E.
// Knuth, The Art of Computer Programming, vol. 2, section 4.2.2, theorem B).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	z := s - a
	return s, (a - (s - z)) + (b - z)
}
