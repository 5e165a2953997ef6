package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Fast arithmetic (docs/NUMERICS.md, section 13): statistics are the sums that [Rows] has,
// in an order that is the definition's, and the line is two float32 operations,
//
//	y = fma(x - pivot, slope, offset).

// fastParts is in how many parts the rows of an image are summed in fast arithmetic,
// whoever sums them.
const fastParts = 8

// fastLines are the lines of 8 channels in fast arithmetic.
type fastLines struct {
	of    [3][8]float32 // pivot, slope, offset
	exact uint8         // channels whose line is exact: where float32 may overflow or lose all
}

// set sets the line of a channel whose mean is pivot + m and whose variance and eps are v.
func (l *fastLines) set(i int, pivot, m, v, gamma, beta float64) {
	const most = 0x1p100
	p := float32(pivot)
	s := gamma / math.Sqrt(v)
	b := beta - float64((m+(pivot-float64(p)))*s)
	within := func(x float64) bool { return math.Abs(x) < most }
	bit := uint8(1) << i
	l.exact &^= bit
	if !(v > 0 && v < 0x1p200 && math.Abs(s) > 1/most && within(s) && within(b) && within(pivot)) {
		l.exact |= bit
		l.of[0][i], l.of[1][i], l.of[2][i] = 0, 0, 0
		return
	}
	l.of[0][i], l.of[1][i], l.of[2][i] = p, float32(s), float32(b)
}

// Fast makes it a normalisation in fast arithmetic if its results are float32 numbers, and
// returns it. Its sums have parts of their own.
func (r *Rows) Fast() *Rows {
	if r.format == fp16.Float32 {
		r.fast = make([]fastLines, len(r.lines))
		if r.running == nil {
			r.parts = fastParts
			r.sums = make([][2][8]float64, r.n*r.blocks*fastParts)
			r.moments = nil
			return r
		}
		for c, s := range r.running {
			r.fast[c/8].set(c%8, s.MuHi, 0, s.V, at(r.gamma, c, 1), at(r.beta, c, 0))
		}
	}
	return r
}

// apply writes the lines of a row to dst.
func (l *fastLines) apply(dst, src []float32) {
	if k := asm.FastRowKernels(); k != nil {
		k.Line(&dst[0], &src[0], len(src)/8, &l.of)
		return
	}
	for i, x := range src {
		if dst[i] = single.FMA(x-l.of[0][i%8], l.of[1][i%8], l.of[2][i%8]); dst[i] != dst[i] {
			dst[i] = nan32
		}
	}
}

// ApplyGELU is [Rows.Apply] and act.FastGELU after it, at once, if there is a kernel for
// that, and reports whether there is.
func (r *Rows) ApplyGELU(dst, src []float32, n, b int) bool {
	k := asm.FastRowKernels()
	if k == nil || r.fast == nil {
		return false
	}
	l := &r.fast[r.place(n, b)]
	if l.exact != 0 {
		return false
	}
	k.LineGELU(&dst[0], &src[0], len(src)/8, &l.of)
	return true
}

// GroupFast is [Group] in fast arithmetic, which results of float32 numbers have; others
// are exact.
func GroupFast(dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64) {
	if !fastFor(dst, src) {
		Group(dst, src, groups, gamma, beta, eps)
		return
	}
	r := NewRows(fp16.Float32, src.N(), src.C(), src.H(), src.W(), groups, gamma, beta, eps, fastParts, new(Exact)).Fast()
	r.tensors(dst, src)
}

// BatchFast is [Batch] in fast arithmetic, which results of float32 numbers have; others
// are exact.
func BatchFast(dst, src *tensor.Tensor, mean, variance, gamma, beta []float64, eps float64) {
	if !fastFor(dst, src) {
		Batch(dst, src, mean, variance, gamma, beta, eps)
		return
	}
	NewBatchRows(fp16.Float32, src.N(), src.C(), src.H(), src.W(), mean, variance, gamma, beta,
		eps).Fast().tensors(dst, src)
}

func fastFor(dst, src *tensor.Tensor) bool {
	return dst.Format == fp16.Float32 && src.Format != fp16.Float64 && dst.SameShape(src) && len(src.Data) > 0
}

// image is a tensor in blocks of 8 channels.
type image struct {
	data         []float32
	blocks, h, w int
}

// Row implements [Image].
func (m *image) Row(n, b, y int) []float32 {
	return m.data[((n*m.blocks+b)*m.h+y)*8*m.w:][:8*m.w]
}

// tensors normalises a tensor, a block of channels at a time.
func (r *Rows) tensors(dst, src *tensor.Tensor) {
	m := &image{make([]float32, r.n*r.blocks*r.h*r.w*8), r.blocks, r.h, r.w}
	tasks := r.n * r.blocks
	par.For(tasks, func(i int) {
		n, b := i/r.blocks, i%r.blocks
		for c := 8 * b; c < min(8*b+8, r.c); c++ {
			for k, v := range src.Plane(n, c) {
				m.data[(i*r.h*r.w+k)*8+c%8] = float32(v)
			}
		}
	})
	if r.running == nil {
		par.For(tasks, func(i int) { r.Pivot(m, i/r.blocks, i%r.blocks, NewSpace(r.w)) })
		for n := range r.n {
			r.SetPivots(n, 0, r.blocks)
		}
		par.For(tasks*r.parts, func(i int) {
			r.Sum(m, i/r.parts/r.blocks, i/r.parts%r.blocks, i%r.parts, NewSpace(r.w))
		})
		for n := range r.n {
			r.SetLines(n, 0, r.blocks)
		}
	}
	par.For(tasks, func(i int) {
		n, b, w, out := i/r.blocks, i%r.blocks, NewSpace(r.w), make([]float32, 8*r.w)
		for y := range r.h {
			r.Apply(out, m.Row(n, b, y), m, n, b, w)
			for c := 8 * b; c < min(8*b+8, r.c); c++ {
				to := dst.Plane(n, c)[y*r.w:][:r.w]
				for x := range to {
					if v := out[8*x+c%8]; v == v {
						to[x] = float64(v)
					} else {
						to[x] = fp16.NaN
					}
				}
			}
		}
	})
}
