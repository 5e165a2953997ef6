package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Standardize sets dst, of src's shape, to (x_i-mu)/(sigma+eps) along axes, with the exact mean
// mu and sigma the root of the exact biased variance, one function of the line, rounded once.
// dst may be src. eps is positive and finite. A line with a number that is not finite is NaN,
// and a number that is the mean is +0.
//
// The float64 nearest to the mean is no farther from it than x is, and two subtractions err by
// 4 u of the difference; the two words of the mean are off by 2^-103 of it, the divisor by 4 u
// and the quotient by u, see [exact.ZScore]. In float64 the mean and the squares are added in
// order.
func Standardize(dst, src *tensor.Tensor, eps float64, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	if !(eps > 0 && eps <= math.MaxFloat64) {
		panic("reduce: eps must be finite and positive")
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
		if f == fp16.Float64 {
			standardize64(w.lo, w.x, eps)
			v.put(dst.Data, i, w.lo)
			return
		}
		var m exact.Moments
		m.Add(w.x)
		z := m.Scores(eps, 0)
		far := math.Abs(z.Mean.Hi / z.Divisor)
		for j, x := range w.x {
			y := ((x-z.Mean.Hi)-z.Mean.Lo)/z.Divisor + 0
			bound := float64(0x1.cp-50*math.Abs(y)) + float64(0x1p-101*far) // with the roundings of both ends
			w.lo[j], w.hi[j] = y-bound, y+bound
		}
		w.decide(f, func(j int) float64 { return f.Round(z.Settle(w.x[j])) })
		v.put(dst.Data, i, w.lo)
	})
}

func standardize64(dst, line []float64, eps float64) {
	sum, _ := added(line)
	n, squares := float64(len(line)), 0.0
	mean := sum / n
	for _, x := range line {
		d := x - mean
		squares += float64(d * d)
	}
	divisor := math.Sqrt(squares/n) + eps
	for j, x := range line {
		dst[j] = fp16.Float64.Round((x-mean)/divisor + 0)
	}
}
