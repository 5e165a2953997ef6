package matmul

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
)

// settle returns an element that the guard could not decide, of line i of a and line j
// of b in panels ia and ib; c is what is added to the sum, if that is not in it: from a
// sum with a sharper bound, or one in three words, or else from the exact sum.
func (s *Space) settle(w *worker, ia, i, ib, j int, c float64) float64 {
	f, terms := s.job.format, s.gather(w, ia, i, ib, j)
	var part, size [4]float64
	for len(terms) >= 4 {
		for l := range part {
			part[l] += terms[l]
			size[l] += math.Abs(terms[l])
		}
		terms = terms[4:]
	}
	for l, p := range terms {
		part[l] += p
		size[l] += math.Abs(p)
	}
	v := (part[0] + part[1]) + (part[2] + part[3])
	if s.job.outer() {
		return s.settleOuter(f, w, v, c)
	}
	if v-v != 0 {
		// Sums of products of finite float32 numbers do not overflow, so this is
		// what IEEE 754 makes of the infinities and NaNs of the terms.
		return f.Round(v)
	}
	// n/4 additions in each of four sums, and two more: r = n/4 + 3 as in bound.go,
	// with the sum of magnitudes itself in the place of the norms.
	sum := (size[0] + size[1]) + (size[2] + size[3])
	if y, ok := f.Decide(v, 1.0002*0x1p-53*float64(float64(len(w.terms)/4+4)*sum)); ok {
		return y
	}
	if odd, ok := exact.Words(w.terms, 0); ok {
		return f.Round(odd)
	}
	var all exact.Sum
	for _, p := range w.terms {
		all.Add(p)
	}
	return f.Round(all.Odd())
}

// settleOuter is settle with factors or an addend outside the sum, which is near v.
func (s *Space) settleOuter(f fp16.Format, w *worker, v, c float64) float64 {
	alpha, beta := s.job.alpha, s.job.beta
	if v-v != 0 || c-c != 0 {
		// What is finite takes no part.
		if v-v == 0 {
			return f.Round(beta * c)
		}
		if c-c == 0 {
			return f.Round(alpha * v)
		}
		return f.Round(float64(alpha*v) + float64(beta*c))
	}
	if moderate(alpha) && moderate(beta) {
		// Each product by a factor is the sum of two numbers.
		w.pairs = w.pairs[:0]
		for _, p := range w.terms {
			w.split(alpha, p)
		}
		w.split(beta, c)
		if odd, ok := exact.Words(w.pairs, 0); ok {
			return f.Round(odd)
		}
	}
	var all exact.Sum
	for _, p := range w.terms {
		all.Add(p)
	}
	return f.Round(exact.Affine(alpha, &all, beta, c))
}

// split appends x y as two numbers.
func (w *worker) split(x, y float64) {
	hi := float64(x * y)
	w.pairs = append(w.pairs, hi, math.FMA(x, y, -hi))
}

// moderate reports whether the low word of a product by v of a number of the exact
// sum's range is a float64.
func moderate(v float64) bool {
	v = math.Abs(v)
	return v == 0 || v >= 0x1p-400 && v <= 0x1p400
}

// gather returns the products of an element.
func (s *Space) gather(w *worker, ia, i, ib, j int) []float64 {
	room(&w.terms, s.a.terms)
	for k := 0; k < s.a.terms; k += s.a.block {
		at, _ := s.a.at(ia, k)
		bt, _ := s.b.at(ib, k)
		at, bt = at+i, bt+j
		terms := w.terms[k:min(k+s.a.block, s.a.terms)]
		if s.b.single != nil {
			for t := range terms {
				terms[t] = s.a.data[at] * float64(s.b.single[bt])
				at, bt = at+s.a.width, bt+s.b.width
			}
			continue
		}
		for t := range terms {
			terms[t] = s.a.data[at] * s.b.data[bt]
			at, bt = at+s.a.width, bt+s.b.width
		}
	}
	return w.terms
}
