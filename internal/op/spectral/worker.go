package spectral

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// worker is the memory in which one set of numbers after the other is transformed.
//
// An inverse is the transform with real and imaginary parts exchanged on both sides, so
// here all have the negative exponent.
type worker struct {
	*transform
	x    plane // the numbers of the set
	a, b plane // what is made of them
	open []int // parts whose rounding is open: 2 i for the first of number i, 2 i + 1 for the other

	wideA, wideB []complexNum
	exact        *direct
}

func newWorker(t *transform) *worker {
	w := &worker{transform: t, x: newPlane(len(t.in.along))}
	most := max(len(t.in.along), len(t.out.along))
	w.a, w.b = newPlane(most), newPlane(most)
	return w
}

// do transforms set i of src.
func (w *worker) do(dst, src *tensor.Tensor, i int) {
	size, finite := w.load(src, i)
	if !finite || size == 0 {
		y := 0.0
		if !finite {
			y = fp16.NaN
		}
		for _, j := range w.out.along {
			for p := range w.write {
				dst.Data[w.write*(w.out.first[i]+j)+p] = y
			}
		}
		return
	}
	a, b := w.a, w.b
	copy(a.re, w.x.re)
	copy(a.im, w.x.im)
	w.passes(func(l *line, outer, inner int) {
		n := l.n * inner
		for o := range outer {
			l.transform(a.part(o*n, (o+1)*n), b.part(o*n, (o+1)*n), inner)
		}
		if len(l.radices)%2 == 1 {
			a, b = b, a
		}
	}, func(rows, from, to int) {
		resize(a.re, rows, from, to)
		resize(a.im, rows, from, to)
	})
	w.store(dst, i, a, size)
}

// load reads set i and returns the sum of the magnitudes of its numbers, no less, and
// whether all are finite.
func (w *worker) load(src *tensor.Tensor, i int) (size float64, finite bool) {
	first, re, im := w.in.first[i], w.x.re, w.x.im
	zero := 0.0
	if w.inverse {
		re, im = im, re
	}
	for k, j := range w.in.along {
		x := src.Data[w.read*(first+j)]
		re[k] = x
		size += math.Abs(x)
		zero += x - x
		if w.read == 2 {
			x = src.Data[2*(first+j)+1]
			im[k] = x
			size += math.Abs(x)
			zero += x - x
		}
	}
	if w.widen {
		h := w.in.dims[len(w.in.dims)-1]
		n := w.lines[len(w.lines)-1].n
		for k := range re {
			if c := k % h; c > 0 && 2*c < n {
				re[k], im[k] = 2*re[k], 2*im[k]
			}
		}
		size *= 2
	}
	return size, zero == 0
}

// passes calls pass for every axis: lines of l.n numbers, of which inner are interleaved,
// outer times; and resize to change the last axis from one size to another.
func (t *transform) passes(pass func(l *line, outer, inner int), resize func(rows, from, to int)) {
	last := len(t.lines) - 1
	l, rows := t.lines[last], 1
	for _, m := range t.lines[:last] {
		rows *= m.n
	}
	width := t.in.dims[last]
	if !t.widen {
		pass(l, rows, 1)
		if width = t.out.dims[last]; t.narrow {
			resize(rows, l.n, width)
		}
	}
	outer := 1
	for _, m := range t.lines[:last] {
		pass(m, outer, rows/outer/m.n*width)
		outer *= m.n
	}
	if t.widen {
		resize(rows, width, l.n)
		pass(l, rows, 1)
	}
}

// resize makes rows of from numbers rows of to numbers, cut or followed by zeros.
func resize[T any](x []T, rows, from, to int) {
	if to < from {
		for r := range rows {
			copy(x[r*to:(r+1)*to], x[r*from:])
		}
		return
	}
	for r := rows - 1; r >= 0; r-- {
		copy(x[r*to:], x[r*from:(r+1)*from])
		clear(x[r*to+from : (r+1)*to])
	}
}

// store rounds what was computed into set i of dst. size is the sum of magnitudes.
func (w *worker) store(dst *tensor.Tensor, i int, a plane, size float64) {
	f, first := dst.Format, w.out.first[i]
	// 2 u |y| is for the division, and for its square root.
	bound, div := 1.0001*u*w.units*size/w.scale.div, w.scale.div
	w.open = w.open[:0]
	for part := range w.write {
		y := a.re
		if (part == 1) != w.inverse {
			y = a.im
		}
		for k, j := range w.out.along {
			to := &dst.Data[w.write*(first+j)+part]
			v := y[k]/div + 0 // no -0
			if f == fp16.Float64 {
				*to = v
				continue
			}
			rounded, ok := f.Decide(v, bound+float64(2*u*math.Abs(v)))
			if !ok {
				if rounded = 0; !w.vanishes(k, part) {
					w.open = append(w.open, 2*k+part)
				}
			}
			*to = rounded
		}
	}
	if len(w.open) > 0 {
		w.settle(dst, i, size)
	}
}
