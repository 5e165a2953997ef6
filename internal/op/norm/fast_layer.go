package norm

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Layer normalisation in the fast arithmetic of docs/NUMERICS.md, section 13: float64
// operations that nothing guards. The sums of a row are sixteen: number i goes to sum i mod 16, in
// order; then sum j and sum j + 8 are added, then j + 4, j + 2 and j + 1. With m = S/n for the sum
// S of the numbers, Q that of (x - m)^2, each added by an fma, v = Q/n + eps and s = 1/sqrt(v),
//
//	y = fma((x - m) s, gamma, beta), rounded to float32.
//
// A row in which v is 0, infinite or NaN is exact.

// FastLayer is Layer in fast arithmetic.
type FastLayer struct {
	n            int
	scale, shift []float32
	gamma, beta  []float64
	eps          float64
}

// NewFastLayer prepares parameters as those of [Layer].
func NewFastLayer(n int, gamma, beta []float64, eps float64) *FastLayer {
	l := &FastLayer{n: n, scale: make([]float32, n), shift: make([]float32, n), gamma: gamma, beta: beta, eps: eps}
	for i := range n {
		l.scale[i], l.shift[i] = float32(at(gamma, i, 1)), float32(at(beta, i, 0))
	}
	return l
}

// fastRow is memory for a row.
type fastRow struct {
	sums [16]float64
	line [2]float64
	row  []float32
}

var fastRows = sync.Pool{New: func() any { return new(fastRow) }}

// Apply normalises rows of src to dst, which may be src.
func (l *FastLayer) Apply(dst, src []float32) {
	kernels := asm.SingleKernels()
	asm.RanHere("fast layer norm", kernels != nil)
	w := fastRows.Get().(*fastRow)
	defer fastRows.Put(w)
	for at := 0; at < len(src); at += l.n {
		l.row(kernels, w, dst[at:][:l.n], src[at:][:l.n])
	}
}

func (l *FastLayer) row(kernels *asm.Singles, w *fastRow, dst, src []float32) {
	whole := 0
	if kernels != nil {
		whole = len(src) &^ 15
	}
	w.sums = [16]float64{}
	if whole > 0 {
		kernels.Sums(&src[0], whole, &w.sums)
	}
	for i := whole; i < len(src); i++ {
		w.sums[i%16] += float64(src[i])
	}
	w.line[0] = w.sum() / float64(l.n)
	m := w.line[0]
	w.sums = [16]float64{}
	if whole > 0 {
		kernels.Squares(&src[0], whole, &w.line[0], &w.sums)
	}
	for i := whole; i < len(src); i++ {
		d := float64(src[i]) - m
		w.sums[i%16] = math.FMA(d, d, w.sums[i%16])
	}
	v := w.sum()/float64(l.n) + l.eps
	if !(v > 0 && v <= math.MaxFloat64) {
		l.exact(dst, src)
		return
	}
	s := 1 / math.Sqrt(v)
	w.line[1] = s
	if whole > 0 {
		kernels.Line(&dst[0], &src[0], &l.scale[0], &l.shift[0], whole, &w.line)
	}
	for i := whole; i < len(src); i++ {
		x := float64((float64(src[i]) - m) * s)
		y := float32(math.FMA(x, float64(l.scale[i]), float64(l.shift[i])))
		if y != y {
			y = float32(fp16.NaN)
		}
		dst[i] = y
	}
}

// sum adds the sixteen sums.
func (w *fastRow) sum() float64 {
	for width := 8; width > 0; width /= 2 {
		for j := range width {
			w.sums[j] += w.sums[j+width]
		}
	}
	return w.sums[0]
}

// exact is a row as section 2 has it.
func (l *FastLayer) exact(dst, src []float32) {
	t := tensor.New(fp16.Float32, 1, l.n)
	for i, v := range src {
		t.Data[i] = float64(v)
	}
	Layer(t, t, l.n, l.gamma, l.beta, l.eps)
	for i, v := range t.Data {
		dst[i] = float32(v)
	}
}

// ForwardFast is Layer with those parameters in fast arithmetic, which float32 numbers
// have; all others are exact.
func (l *FastLayer) ForwardFast(dst, src *tensor.Tensor) {
	if dst.Format != fp16.Float32 || src.Format != fp16.Float32 || !dst.SameShape(src) || len(src.Data)%l.n != 0 {
		Layer(dst, src, l.n, l.gamma, l.beta, l.eps)
		return
	}
	par.For(len(src.Data)/l.n, func(i int) {
		w := fastRows.Get().(*fastRow)
		defer fastRows.Put(w)
		if cap(w.row) < l.n {
			w.row = make([]float32, l.n)
		}
		row := w.row[:l.n]
		for k, v := range src.Data[i*l.n:][:l.n] {
			row[k] = float32(v)
		}
		l.Apply(row, row)
		for k, v := range row {
			dst.Data[i*l.n+k] = float64(v)
			if v != v {
				dst.Data[i*l.n+k] = fp16.NaN
			}
		}
	})
}

// Length returns the numbers of a row.
func (l *FastLayer) Length() int { return l.n }
