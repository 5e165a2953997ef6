package act

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// FastGELU is GELU in fast arithmetic (docs/NUMERICS.md, section 13), and the definition:
// x Phi(x) by float32 operations, with fma rounded once,
//
//	x = max(x, -21/4)     u = fma(c, c, -441/32),  c = min(x, 21/4)
//	Phi = fma(x, P(u), 1/2), no less than 0 and no more than 1
//
// and the product of the two. P is the polynomial for (Phi(x) - 1/2)/x that interpolates
// it at 15 Chebyshev nodes of 0 <= x^2 <= (21/4)^2, its coefficients rounded to float32, by
// Horner's rule.
//
// The result is within 2 ulp for x >= -1/4, and within 2.6 * 2^-24 |x| everywhere
// (TestFastGELU, over all numbers). So, as in x/2 (1 + erf(x/sqrt 2)) in float32, digits of
// small results are lost on the left: from x = -5.25 on all of them, to -0.
func FastGELU(x float32) float32 {
	c := asm.FastGELU
	x = max(x, -c.Far)
	within := min(x, c.Far)
	u := single.FMA(within, within, c.Middle)
	p := c.Phi[len(c.Phi)-1]
	for i := len(c.Phi) - 2; i >= 0; i-- {
		p = single.FMA(p, u, c.Phi[i])
	}
	p = max(min(single.FMA(x, p, 0.5), 1), 0)
	if y := p * x; y == y {
		return y
	}
	return nan32
}

var nan32 = float32(fp16.NaN)

// fastKernels returns the kernels that run, nil for plain Go.
func fastKernels() *asm.FastRows {
	k := asm.FastRowKernels()
	if k == nil {
		asm.Ran("fast gelu, plain Go")
	} else {
		asm.Ran("fast gelu " + asm.ISA())
	}
	return k
}

// number is a float32 number as tensors hold it, with the one NaN.
func number(v float32) float64 {
	if v != v {
		return fp16.NaN
	}
	return float64(v)
}

// ForwardFast is [Forward] in fast arithmetic, which GELU of float32 numbers or narrower
// ones has in float32; all else is exact.
func ForwardFast(dst, src *tensor.Tensor, f Func) {
	if f != GELU || dst.Format != fp16.Float32 || src.Format == fp16.Float64 || !dst.SameShape(src) {
		Forward(dst, src, f)
		return
	}
	kernels, n := fastKernels(), len(src.Data)
	par.For((n+chunk-1)/chunk, func(i int) {
		lo, hi := i*chunk, min((i+1)*chunk, n)
		fastLine(kernels, dst.Data[lo:hi], src.Data[lo:hi])
	})
}

// FastLines is [Lines] with the bits of [ForwardFast], for numbers of a format to results of
// the same.
func FastLines(f Func, format fp16.Format) func(dst, src []float64) {
	if f != GELU || format != fp16.Float32 {
		return Lines(f, format)
	}
	kernels := fastKernels()
	return func(dst, src []float64) { fastLine(kernels, dst, src) }
}

// fastLine sets dst to GELU of src, in fast arithmetic.
func fastLine(kernels *asm.FastRows, dst, src []float64) {
	if kernels == nil {
		for k, x := range src {
			dst[k] = number(FastGELU(float32(x)))
		}
		return
	}
	var row [512]float32
	for at := 0; at < len(src); at += len(row) {
		part := src[at:min(at+len(row), len(src))]
		to, whole, lines := dst[at:][:len(part)], len(part)&^7, asm.LineKernels()
		if lines == nil || whole == 0 {
			whole = 0
		} else {
			lines.Narrow(&row[0], 4*8, &part[0], whole)
		}
		for k := whole; k < len(part); k++ {
			row[k] = float32(part[k])
		}
		kernels.GELU(&row[0], &row[0], (len(part)+7)/8)
		if whole > 0 {
			lines.Widen(&to[0], &row[0], whole)
		}
		for k := whole; k < len(part); k++ {
			to[k] = number(row[k])
		}
	}
}

// fastRow sets dst to GELU of src, in fast arithmetic.
func fastRow(dst, src []float32) {
	if k := asm.FastRowKernels(); k != nil {
		k.GELU(&dst[0], &src[0], len(src)/8)
		return
	}
	for i, x := range src {
		dst[i] = FastGELU(x)
	}
}

// FastSingles is [FastLines] of float32 numbers as they are, in place.
func FastSingles(f Func) func(d []float32, at int) {
	if f == Identity {
		return func([]float32, int) {}
	}
	line := Lines(f, fp16.Float32)
	kernels := fastKernels()
	return func(d []float32, _ int) {
		if f == GELU {
			whole := 0
			if kernels != nil && len(d) >= 8 {
				whole = len(d) &^ 7
				kernels.GELU(&d[0], &d[0], whole/8)
			}
			for i := whole; i < len(d); i++ {
				d[i] = FastGELU(d[i])
			}
			return
		}
		w := wideLines.Get().(*[chunk]float64)
		defer wideLines.Put(w)
		for len(d) > 0 {
			n := min(len(d), len(w))
			for i, v := range d[:n] {
				w[i] = float64(v)
			}
			line(w[:n], w[:n])
			for i, v := range w[:n] {
				d[i] = float32(v)
			}
			d = d[n:]
		}
	}
}

var wideLines = sync.Pool{New: func() any { return new([chunk]float64) }}
