package reduce

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Normalize sets dst, of src's shape, to x_i over the norm of order 1 or 2 along axes, one
// function of the line, rounded once: ONNX's LpNormalization. dst may be src. Numbers whose
// norm is 0 are +0. A NaN makes its line NaN; beside an infinity finite numbers are zeros of
// their sign, and infinities NaN.
//
// The norm of n numbers is off by (n-1) u of itself for order 1, and by n/2 u for order 2; the
// quotient by u.
func Normalize(dst, src *tensor.Tensor, order int, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	if order != 1 && order != 2 {
		panic(fmt.Sprintf("reduce: norm of order %d: want 1 or 2", order))
	}
	if len(src.Data) == 0 {
		return
	}
	v := newView(src.Shape, axes)
	f := dst.Format
	v.each(src.Data, func(i int, line []float64) {
		w := newSpace(len(line))
		defer spaces.Put(w)
		copy(w.x, line)
		norm := plainNorm(w.x, order)
		for j, x := range w.x {
			y := x / norm
			switch {
			case norm == 0:
				y = 0
			case f != fp16.Float64 && y-y == 0:
				rounded, ok := f.Decide(y, 1.0001*u*float64(float64(len(w.x)+1)*math.Abs(y)))
				if !ok {
					rounded = exact.OverNorm(x, w.x, order)
				}
				y = rounded
			}
			w.lo[j] = f.Round(y)
		}
		v.put(dst.Data, i, w.lo)
	})
}

// plainNorm returns a norm in float64.
func plainNorm(line []float64, order int) float64 {
	if order == 1 {
		_, size := added(line)
		return size
	}
	sum := 0.0
	for _, x := range line {
		sum += float64(x * x)
	}
	return math.Sqrt(sum)
}
