package reduce

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Softmax in the fast arithmetic of docs/NUMERICS.md, section 13. With m the greatest number of
// a line, e_i = FastExp(x_i - m) and S the sum of them, the share of x_i is e_i (1/S), each
// operation rounded once to float32. A line comes in pieces of fastPiece numbers, each with
// sixteen sums: e_i goes to sum i mod 16, in order; then sum j and sum j + 8 are added, then
// j + 4, j + 2 and j + 1. The pieces' sums are added in order. A line that holds a NaN or +Inf,
// or nothing but -Inf, is NaN, as S is.

const fastPiece = 2048

// FastExp is e^z for z <= 0 in fast arithmetic (docs/NUMERICS.md, section 13). It is off
// by 1.1 * 2^-23 of itself at most for z >= -87 (TestFastExp), and 0 below.
func FastExp(z float32) float32 {
	c := asm.FastExp
	if z < c.Far {
		return 0
	}
	if z != z {
		return z
	}
	k := single.FMA(z, c.PerLn2, c.Round)
	n := k - c.Round
	r := single.FMA(-n, c.High, z)
	r = single.FMA(-n, c.Low, r)
	p := c.Terms[len(c.Terms)-1]
	for i := len(c.Terms) - 2; i >= 0; i-- {
		p = single.FMA(p, r, c.Terms[i])
	}
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(k)<<23)
}

// fastLines is memory for lines.
type fastLines struct {
	most, sums, rest [16]float32
	top, by          float32
	line             []float32
}

var fastLinesPool = sync.Pool{New: func() any { return new(fastLines) }}

// FastSoftmax sets lines of n numbers of dst to the softmax of those of src, which may be dst.
func FastSoftmax(dst, src []float32, n int) {
	kernels := asm.SingleKernels()
	asm.RanHere("fast softmax", kernels != nil)
	w := fastLinesPool.Get().(*fastLines)
	defer fastLinesPool.Put(w)
	for at := 0; at < len(src); at += n {
		w.softmax(kernels, dst[at:][:n], src[at:][:n])
	}
}

func (w *fastLines) softmax(kernels *asm.Singles, dst, src []float32) {
	w.greatest(kernels, src)
	var total float32
	for at := 0; at < len(src); at += fastPiece {
		to := min(at+fastPiece, len(src))
		w.sums = [16]float32{}
		w.exp(kernels, dst[at:to], src[at:to])
		for width := 8; width > 0; width /= 2 {
			for j := range width {
				w.sums[j] += w.sums[j+width]
			}
		}
		if at == 0 {
			total = w.sums[0]
		} else {
			total += w.sums[0]
		}
	}
	if total != total {
		for i := range dst {
			dst[i] = float32(fp16.NaN)
		}
		return
	}
	w.by = 1 / total
	whole := 0
	if kernels != nil && len(dst) >= 16 {
		whole = len(dst) &^ 15
		kernels.Scale(&dst[0], &dst[0], &w.by, whole)
	}
	for i := whole; i < len(dst); i++ {
		dst[i] *= w.by
	}
}

// greatest sets w.top to the greatest number, any if there is a NaN.
func (w *fastLines) greatest(kernels *asm.Singles, src []float32) {
	w.top = float32(math.Inf(-1))
	if kernels != nil && len(src) >= 16 {
		whole := len(src) &^ 15
		w.most = [16]float32(src[:16])
		kernels.Greatest(&src[0], whole, &w.most)
		for _, v := range w.most {
			if v > w.top {
				w.top = v
			}
		}
		src = src[whole:]
	}
	for _, v := range src {
		if v > w.top {
			w.top = v
		}
	}
}

// exp sets dst to the exponentials of a piece, and adds them to the sums.
func (w *fastLines) exp(kernels *asm.Singles, dst, src []float32) {
	if kernels == nil {
		for i, x := range src {
			dst[i] = FastExp(x - w.top)
			w.sums[i%16] += dst[i]
		}
		return
	}
	whole := len(src) &^ 15
	if whole > 0 {
		kernels.Exp(&dst[0], &src[0], whole, &w.top, &w.sums)
	}
	if whole < len(src) { // what the sixteen lack adds 0
		n := copy(w.rest[:], src[whole:])
		for i := n; i < 16; i++ {
			w.rest[i] = float32(math.Inf(-1))
		}
		kernels.Exp(&w.rest[0], &w.rest[0], 16, &w.top, &w.sums)
		copy(dst[whole:], w.rest[:])
	}
}

// ForwardFastSoftmax is [Softmax] along the last axis in fast arithmetic, which float32
// numbers have; all others are exact.
func ForwardFastSoftmax(dst, src *tensor.Tensor) {
	last := len(src.Shape) - 1
	if last < 0 || dst.Format != fp16.Float32 || src.Format != fp16.Float32 || !dst.SameShape(src) {
		Softmax(dst, src, last)
		return
	}
	if len(src.Data) == 0 {
		return
	}
	n := src.Shape[last]
	par.For(len(src.Data)/n, func(i int) {
		w := fastLinesPool.Get().(*fastLines)
		defer fastLinesPool.Put(w)
		if cap(w.line) < n {
			w.line = make([]float32, n)
		}
		line := w.line[:n]
		for k, v := range src.Data[i*n:][:n] {
			line[k] = float32(v)
		}
		FastSoftmax(line, line, n)
		for k, v := range line {
			dst.Data[i*n+k] = float64(v)
			if v != v {
				dst.Data[i*n+k] = fp16.NaN
			}
		}
	})
}
