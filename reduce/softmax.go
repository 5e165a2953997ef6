package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Softmax sets dst, of src's shape, to e^x_i / (e^x_1 + ... + e^x_n) along axes, one
// function of the line, rounded once. dst may be src.
//
// With m the greatest number, x - m is formed in two words without error, and its
// exponential is off by 1.1 u (elem.ExpErr), u = 2^-53. The n of them, all positive,
// are added with n-1 roundings and divided with one more: n + 3 u of the result in
// all, the fractions rounded up. What underflows there, below 2^-1000 of the greatest
// term, is too small for any format but Float64 to show.
func Softmax(dst, src *tensor.Tensor, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	v := newView(src.Shape, axes)
	f, n := dst.Format, len(v.along)
	err := 1.0001 * u * float64(n+3)
	v.each(src.Data, func(i int, line []float64) {
		most, undefined := greatest(line)
		var row *exact.Softmax // made when it is needed
		xs := append([]float64(nil), line...)
		e := make([]float64, n)
		sum := 0.0
		for j, x := range xs {
			if undefined {
				break
			}
			if x != math.Inf(-1) {
				e[j] = elem.ExpSum(twoSum(x, -most))
			}
			sum += e[j]
		}
		for j, x := range xs {
			to := &dst.Data[v.first[i]+v.along[j]]
			switch y := e[j] / sum; {
			case undefined:
				*to = fp16.NaN
			case f == fp16.Float64:
				*to = y
			case y < 0x1p-1000:
				*to = 0
			default:
				rounded, ok := f.Decide(y, float64(err*y))
				if !ok {
					if row == nil {
						row = exact.NewSoftmax(xs)
					}
					rounded = f.Round(row.Settle(x))
				}
				*to = rounded
			}
		}
	})
}

// greatest returns the greatest number of a line, and whether its softmax is not
// defined: it holds a NaN or +Inf, or nothing but -Inf.
func greatest(line []float64) (most float64, undefined bool) {
	most = math.Inf(-1)
	for _, x := range line {
		if x != x {
			return 0, true
		}
		most = max(most, x)
	}
	return most, math.IsInf(most, 0)
}
