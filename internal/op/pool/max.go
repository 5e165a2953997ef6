package pool

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Max sets dst to the maxima of the windows of src, whose last axes have those windows.
// Rounding keeps the order of numbers, so the rounded maximum is the maximum of the
// rounded.
//
// indices, if it is not nil, is set to where the maxima are, counted in row-major order
// along these axes, as PyTorch counts. Of several NaN it is the last, as in PyTorch; -1
// of a window without a number.
func Max(dst, indices, src *tensor.Tensor, axes ...Windows) {
	l := newLayout(dst, src, axes)
	var where []float64
	if indices != nil {
		if tensor.Require("pool", -1, indices); indices.Format != fp16.Int64 || !indices.SameShape(dst) {
			panic("pool: indices must be int64 and of the destination's shape")
		}
		where = indices.Data
	}
	l.each(src, func(plane []float64, at int) {
		for _, d := range l.axes[0].Of {
			for _, h := range l.axes[1].Of {
				for _, w := range l.axes[2].Of {
					best, i := l.greatest(plane, d, h, w)
					dst.Data[at] = dst.Format.Round(best)
					if where != nil {
						where[at] = float64(i)
					}
					at++
				}
			}
		}
	})
}

// greatest returns the greatest number of a window, and where it is.
func (l *layout) greatest(plane []float64, d, h, w Window) (best float64, at int) {
	best, at = math.Inf(-1), -1
	if d.Count > 0 && h.Count > 0 && w.Count > 0 {
		at = l.at(d, h, w, 0, 0)
	}
	for z := range d.Count {
		for y := range h.Count {
			i := l.at(d, h, w, z, y)
			for range w.Count {
				if v := plane[i]; v > best || v != v {
					best, at = v, i
				}
				i += w.Step
			}
		}
	}
	return best, at
}
