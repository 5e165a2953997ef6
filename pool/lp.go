package pool

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Lp sets dst to the norms of the windows of src: ONNX's LpPool, for p 1 the sum of
// magnitudes and for p 2 the root of the sum of squares. A window without a number has
// norm +0. (PyTorch's lp_pool of norm_type 1 is the sum without magnitudes.)
//
// In a Float64 destination it is plain float64: terms in row-major order added to 0, and
// one root; squares may overflow and underflow there. Its error is at most g_n of itself
// otherwise.
func Lp(dst, src *tensor.Tensor, p int, axes ...Windows) {
	l := newLayout(dst, src, axes)
	if p != 1 && p != 2 {
		panic("pool: a norm that is not 1 or 2")
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

// norm returns the norm of a window in a format.
//
// Magnitudes are exact, and so are squares of float32 numbers; their sum y^ of n numbers,
// none negative, is off by at most g_(n-1) y. The root halves that and rounds once. A
// factor 1.0001 covers terms of second order for n < 2^32.
func (l *layout) norm(f fp16.Format, p int, plane []float64, d, h, w Window) float64 {
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
