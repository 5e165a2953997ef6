package pool

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// Lp sets dst to the norms of the windows of src, the roots of order p of the sums of |x|^p:
// ONNX's LpPool, for p 1 the sum of magnitudes and for p 2 the root of the sum of squares. p is
// at most MaxP. A window without a number has norm +0. (PyTorch's lp_pool of norm_type 1 is
// the sum without magnitudes.)
//
// In a Float64 destination it is plain float64: terms in row-major order added to 0, and
// one root; squares may overflow and underflow there. Its error is at most g_n of itself
// otherwise. Of an order above 2 see [higher].
func Lp(dst, src *tensor.Tensor, p int, axes ...Windows) {
	l := newLayout(dst, src, axes)
	if p < 1 || p > MaxP {
		panic("pool: a norm of an order that is not 1 to 64")
	}
	l.each(src, func(plane []float64, at int) {
		for _, d := range l.axes[0].Of {
			for _, h := range l.axes[1].Of {
				for _, w := range l.axes[2].Of {
					dst.Data[at] = l.norm(dst.Format, p, plane, d, h, w)
					at++
				}
			}
		}
	})
}

// MaxP bounds the order of norms: the exact sum of float32 numbers to its power has up to 2^14
// bits and more.
const MaxP = 64

// norm returns the norm of a window in a format.
//
// Magnitudes are exact, and so are squares of float32 numbers; their sum y^ of n numbers,
// none negative, is off by at most g_(n-1) y. The root halves that and rounds once. A
// factor 1.0001 covers terms of second order for n < 2^32.
func (l *layout) norm(f fp16.Format, p int, plane []float64, d, h, w Window) float64 {
	if p > 2 {
		return higher(f, p, l.window(plane, d, h, w))
	}
	y := 0.0
	for z := range d.Count {
		for k := range h.Count {
			i := l.at(d, h, w, z, k)
			for range w.Count {
				y += power(plane[i], p)
				i += w.Step
			}
		}
	}
	if p == 2 {
		y = math.Sqrt(y)
	}
	if f == fp16.Float64 || y-y != 0 {
		return f.Round(y)
	}
	n := float64(d.Count * h.Count * w.Count)
	if rounded, ok := f.Decide(y, 1.0001*u*n*y); ok {
		return rounded
	}
	var sum exact.Sum
	for _, x := range l.window(plane, d, h, w) {
		sum.Add(power(x, p))
	}
	if p == 1 {
		return f.Round(sum.Odd())
	}
	m, exp := sum.Int()
	return f.Round(exact.SqrtQuotient(m, exp, big.NewInt(1)))
}

// power returns |x|^p.
func power(x float64, p int) float64 {
	if p == 1 {
		return math.Abs(x)
	}
	return float64(x * x)
}

// higher returns a norm of an order above 2 in a format, m (sum of (|x|/m)^p)^(1/p) with m the
// greatest of n magnitudes.
//
// A quotient rounds once, which counts p times in its power, and p-1 products do: each term,
// and so their sum s after n-1 more, is off by (2p + n) u of itself. ln s is off by that and by
// 1.1 u of itself, z = ln s/p by a p-th of it and by u of itself, and e^z by that and by 1.1 u
// of itself; the product with m rounds once: (n/p + 2.1 z + 4.1) u in all. Terms that underflow
// are nothing beside s, which is at least 1.
func higher(f fp16.Format, p int, line []float64) float64 {
	m := 0.0
	for _, x := range line {
		m = max(m, math.Abs(x)) // of a NaN, NaN
	}
	if m == 0 || m-m != 0 {
		return f.Round(m)
	}
	s := 0.0
	for _, x := range line {
		q, t := math.Abs(x)/m, 1.0
		for range p {
			t = float64(t * q)
		}
		s += t
	}
	z := elem.Log(s) / float64(p)
	y := float64(m * elem.Exp(z))
	if f == fp16.Float64 {
		return y
	}
	off := float64(len(line))/float64(p) + float64(2.1*z) + 4.2
	if rounded, ok := f.Decide(y, 1.0001*u*float64(off*y)); ok {
		return rounded
	}
	return f.Round(exact.Norm(line, p))
}
