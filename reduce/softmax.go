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
// are added, in an order of any kind, with at most n-1 roundings, and multiplied by one
// over that, with two more: n + 4 u of the result in all, the fractions rounded up. What
// underflows there, below 2^-1000 of the greatest term, is too small for any format but
// Float64 to show. A Float64 dst is the quotient by the sum in order.
func Softmax(dst, src *tensor.Tensor, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	if len(src.Data) == 0 {
		return
	}
	v := newView(src.Shape, axes)
	f, n := dst.Format, len(v.along)
	wide := float64(1.0001*u*float64(n+4)) + 2.001*u // with the roundings of the interval's ends
	v.each(src.Data, func(i int, line []float64) {
		w := newSpace(n)
		defer spaces.Put(w)
		copy(w.x, line)
		most, undefined := greatest(line)
		if undefined {
			for j := range w.y {
				w.y[j] = fp16.NaN
			}
			v.put(dst.Data, i, w.y)
			return
		}
		elem.ExpBelow(w.y, w.x, most)
		if f == fp16.Float64 {
			sum := 0.0
			for _, e := range w.y {
				sum += e
			}
			for j, e := range w.y {
				w.y[j] = e / sum
			}
			v.put(dst.Data, i, w.y)
			return
		}
		by := 1 / quickly(w.y)
		var row *exact.Softmax // made when it is needed
		settle := func(j int) float64 {
			if row == nil {
				row = exact.NewSoftmax(w.x)
			}
			return f.Round(row.Settle(w.x[j]))
		}
		if f == fp16.Float32 {
			for j, e := range w.y {
				y := float64(e * by)
				d := float64(wide * y)
				if lo, hi := float32(y-d), float32(y+d); lo == hi {
					w.y[j] = float64(lo)
				} else {
					w.y[j] = settle(j)
				}
			}
			v.put(dst.Data, i, w.y)
			return
		}
		for j, e := range w.y {
			y := float64(e * by)
			d := float64(wide * y)
			w.lo[j], w.hi[j] = y-d, y+d
		}
		w.decide(f, settle)
		v.put(dst.Data, i, w.lo)
	})
}

// quickly adds positive numbers in four sums, none of which waits for another.
func quickly(y []float64) float64 {
	var a, b, c, d float64
	for ; len(y) >= 4; y = y[4:] {
		a, b, c, d = a+y[0], b+y[1], c+y[2], d+y[3]
	}
	for _, v := range y {
		a += v
	}
	return (a + b) + (c + d)
}

// greatest returns the greatest number of a line, and whether its softmax is not
// defined: it holds a NaN or +Inf, or nothing but -Inf.
func greatest(line []float64) (most float64, undefined bool) {
	most = math.Inf(-1)
	for _, x := range line {
		if !(x <= most) {
			if x != x {
				return 0, true
			}
			most = x
		}
	}
	return most, math.IsInf(most, 0)
}
