package conv

import (
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
	if odd, ok := exact.Words(r.terms, 0); ok {
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
