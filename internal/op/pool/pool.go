// Package pool reduces windows of the last axes of a tensor, up to three, to one number
// each: of a line, an image or a volume, for whatever stands before these axes.
//
//	max      the greatest number of the window
//	average  (x_1 + ... + x_n)/d, with d of the caller's choice
//	norm     |x_1| + ... + |x_n|, or sqrt(x_1^2 + ... + x_n^2)
//
// The result is the exact value for the stored numbers, rounded once to the
// destination's format. In a Float64 destination an average is plain float64: the
// window's numbers in row-major order added to 0, then one division; its error is at
// most g_n (sum of |x|)/d, where g_n = n u/(1 - n u) and u = 2^-53.
//
// The windows of an axis are a [Windows]: [Sliding] and [Adaptive] make PyTorch's, of
// which a global pooling is the adaptive one to size 1. Padding holds no numbers: it
// never wins a maximum, and adds nothing to a sum. Whether it counts in the divisor is
// [Count]'s to say.
//
// # Special values
//
// A NaN in the window makes the result NaN. A maximum of equal numbers is the first of
// them in row-major order, also of -0 and +0; of a window without a number, which only
// dilation makes, it is -Inf. Averages follow IEEE 754: Inf-Inf is NaN, any other sum
// with infinities the infinity. An average that is exactly zero is +0, and one of no
// numbers, counted as none, NaN.
//
// # Misuse
//
// Shapes that do not fit together panic. So does a Float64 source with a destination of
// another format: exactness is proven for float32 numbers.
//
// In use:
//
//	g := pool.Geometry{Kernel: 3, Stride: 2, Dilation: 1, Before: 1, After: 1}
//	pool.Max(y, nil, x, pool.Sliding(h, g), pool.Sliding(w, g)) // of x [...,h,w]
//	pool.Average(y, x, pool.Count{}, pool.Adaptive(h, 1), pool.Adaptive(w, 1))
package pool

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// u is the relative error of one float64 operation.
const u = 0x1p-53

// most is how many axes the windows have at most.
const most = 3

// layout is a source as planes, the numbers along the axes that have windows, and what
// becomes of them. Axes that are not there have one window of the one number.
type layout struct {
	axes    [most]Windows
	out     [most]int
	step    [most]int // from one number of the source to the next, along each axis
	in, all int       // numbers of a plane of the source and of the destination
	planes  int
}

func newLayout(dst, src *tensor.Tensor, axes []Windows) *layout {
	tensor.Require("pool", -1, dst, src)
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("pool: a float64 source needs a float64 destination")
	}
	first := len(src.Shape) - len(axes)
	if len(axes) < 1 || len(axes) > most || first < 0 || len(dst.Shape) != len(src.Shape) {
		panic("pool: axes that the source or the destination has not")
	}
	l := &layout{in: 1, all: 1, planes: tensor.Size(src.Shape[:first])}
	for a := range most {
		l.axes[a], l.out[a] = Windows{In: 1, Of: []Window{{0, 1, 1, 1}}}, 1
	}
	for a := most - 1; a >= 0; a-- {
		l.step[a] = l.in
		if k := a - (most - len(axes)); k >= 0 {
			l.axes[a], l.out[a] = axes[k], len(axes[k].Of)
			if axes[k].In != src.Shape[first+k] || len(axes[k].Of) != dst.Shape[first+k] {
				panic("pool: windows do not fit source and destination")
			}
		}
		l.in *= l.axes[a].In
		l.all *= l.out[a]
	}
	if l.planes != tensor.Size(dst.Shape[:first]) {
		panic("pool: source and destination differ in planes")
	}
	return l
}

// each calls body with every plane of the source, and where the one of the destination
// begins.
func (l *layout) each(src *tensor.Tensor, body func(plane []float64, at int)) {
	par.For(l.planes, func(i int) {
		body(src.Data[i*l.in:(i+1)*l.in:(i+1)*l.in], i*l.all)
	})
}

// at returns where in a plane line (z,y) of a window begins.
func (l *layout) at(d, h, w Window, z, y int) int {
	return (d.First+z*d.Step)*l.step[0] + (h.First+y*h.Step)*l.step[1] + w.First
}

// window returns the numbers of a window in row-major order.
func (l *layout) window(plane []float64, d, h, w Window) (numbers []float64) {
	for z := range d.Count {
		for y := range h.Count {
			for x := range w.Count {
				numbers = append(numbers, plane[l.at(d, h, w, z, y)+x*w.Step])
			}
		}
	}
	return numbers
}
