package pool

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Count says by what the sum of a window is divided. The zero value is the numbers of
// the window that lie in the source.
type Count struct {
	// Padding counts the padding too, PyTorch's count_include_pad, but not what lies
	// beyond it, where a last window of Geometry.Ceil may reach. (For models of opset
	// 18 and older ONNX Runtime counted that as well, until July 2026.)
	Padding bool
	// Divisor, if it is not 0, divides the sums of all windows: PyTorch's
	// divisor_override.
	Divisor int
}

// MaxDivisor bounds divisors: float64 holds them.
const MaxDivisor = 1 << 53

// Average sets dst to the averages of the windows of src, whose last axes have those
// windows.
func Average(dst, src *tensor.Tensor, c Count, axes ...Windows) {
	l := newLayout(dst, src, axes)
	if c.Divisor < 0 || c.Divisor > MaxDivisor {
		panic("pool: a divisor below 0 or above 2^53")
	}
	l.each(src, func(plane []float64, at int) {
		for _, d := range l.axes[0].Of {
			for _, h := range l.axes[1].Of {
				for _, w := range l.axes[2].Of {
					dst.Data[at] = l.average(dst.Format, c.of(d, h, w), plane, d, h, w)
					at++
				}
			}
		}
	})
}

// of returns the divisor of a window.
func (c Count) of(d, h, w Window) float64 {
	switch {
	case c.Divisor > 0:
		return float64(c.Divisor)
	case c.Padding:
		return float64(d.Padded * h.Padded * w.Padded)
	}
	return float64(d.Count * h.Count * w.Count)
}

// sum returns the float64 sum of a window's numbers, and that of their magnitudes.
func (l *layout) sum(plane []float64, d, h, w Window) (total, size float64) {
	for z := range d.Count {
		for y := range h.Count {
			i := l.at(d, h, w, z, y)
			for range w.Count {
				total += plane[i]
				size += math.Abs(plane[i])
				i += w.Step
			}
		}
	}
	return total, size
}

// average returns the average of a window in a format.
//
// With D the divisor, n numbers, P the sum of their magnitudes and g_k = k u/(1 - k u):
// the first of the n additions, to 0, is exact, and the division rounds once, far from
// float64's subnormal numbers. So
//
//	|y^ - y| <= g_(n-1) P/D + u (1 + g_(n-1)) P/D <= g_n P/D.
//
// P is computed with a relative error of g_n at most; a factor 1.0001 covers it and all
// else of second order for n < 2^32. If P is 0 the average is exactly 0, and so is the
// bound.
func (l *layout) average(f fp16.Format, divisor float64, plane []float64, d, h, w Window) float64 {
	total, size := l.sum(plane, d, h, w)
	y := total / divisor
	if f == fp16.Float64 || y-y != 0 {
		return f.Round(y) // finite numbers do not overflow: IEEE 754's answer
	}
	n := float64(d.Count * h.Count * w.Count)
	rounded, ok := f.Decide(y, 1.0001*u*n*size/divisor)
	if !ok {
		rounded = f.Round(l.settle(divisor, plane, d, h, w))
	}
	return rounded
}

// settle returns the average of a window of finite numbers rounded to odd. Mostly the
// sum loses nothing in float64: averages of a few numbers are often the middle of two.
func (l *layout) settle(divisor float64, plane []float64, d, h, w Window) float64 {
	terms := l.window(plane, d, h, w)
	total, lost := 0.0, 0.0
	for _, x := range terms {
		var e float64
		total, e = exact.TwoSum(total, x)
		lost += math.Abs(e)
	}
	if lost == 0 {
		return exact.Divide(total, divisor)
	}
	var whole exact.Sum
	for _, x := range terms {
		whole.Add(x)
	}
	m, exp := whole.Int()
	return exact.Quotient(m, exp, big.NewInt(int64(divisor)))
}
