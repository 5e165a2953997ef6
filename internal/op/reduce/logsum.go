package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// LogSum sets dst to ln(x_1 + ... + x_n) along axes, one function of the line, rounded once;
// dst is as in [Sum]. A sum of 0 and that of no numbers give -Inf, one less than 0 NaN.
//
// A sum s that is off by e has a logarithm that is off by e/(s-e), and by 1.1 u of itself.
func LogSum(dst, src *tensor.Tensor, axes ...int) {
	f := dst.Format
	lines(dst, src, axes, func(line []float64) float64 {
		sum, size := added(line)
		if f == fp16.Float64 || size-size != 0 {
			return logOf(sum)
		}
		e := float64(1.0001 * u * float64(float64(len(line))*size))
		if e < sum {
			y := elem.Log(sum)
			off := float64(1.0001*(e/(sum-e))) + float64(1.2*u*math.Abs(y))
			if rounded, ok := f.Decide(y, off); ok {
				return rounded
			}
		}
		var s exact.Sum
		for _, x := range line {
			s.Add(x)
		}
		return s.Log()
	})
}

// logOf returns the logarithm of any number.
func logOf(v float64) float64 {
	switch {
	case v == 0:
		return math.Inf(-1)
	case !(v > 0):
		return fp16.NaN
	case v-v != 0:
		return v
	}
	return elem.Log(v)
}
