package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Var sets dst to the variances of src along axes, the sum of (x-mu)^2 over n - correction with
// the exact mean mu, one function, rounded once; dst is as in [Sum]. The divisor is never less
// than 0: numbers that are not all the same have the variance +Inf over it, others NaN. In
// float64 the mean is that of [Mean], and the squares are added in order.
//
// The float64 mean is off by e <= n u sum |x| / n, see [Mean]. The squares of the distances from
// it are each off by 3 u, and their sum by (n + 2) u of itself; it is too great by n e^2, at
// most, beyond that. The quotient is one operation more.
func Var(dst, src *tensor.Tensor, correction int, axes ...int) {
	lines(dst, src, axes, func(line []float64) float64 { return spread(line, dst.Format, correction, false) })
}

// Std sets dst to the roots of the variances of [Var], one function, rounded once.
func Std(dst, src *tensor.Tensor, correction int, axes ...int) {
	lines(dst, src, axes, func(line []float64) float64 { return spread(line, dst.Format, correction, true) })
}

// lines sets dst to f of every line of src along axes, rounded.
func lines(dst, src *tensor.Tensor, axes []int, f func(line []float64) float64) {
	checkFormats(dst, src)
	each(dst, src, axes, func(line []float64) float64 { return dst.Format.Round(f(line)) })
}

// each sets dst to f of every line of src along axes.
func each(dst, src *tensor.Tensor, axes []int, f func(line []float64) float64) {
	v := newView(src.Shape, axes)
	if len(dst.Data) != len(v.first) {
		panic("reduce: destination size does not fit source and axes")
	}
	v.each(src.Data, func(i int, line []float64) { dst.Data[i] = f(line) })
}

// InverseStd sets dst to 1/sqrt(var+eps) along axes, var the biased variance of [Var], one
// function, rounded once: what a layer norm multiplies by. eps is not negative. A line of
// equal numbers has +Inf for eps 0.
//
// var + eps = v is off by that of var and by u, which counts less than once in the root of
// 1/v while it is less than a quarter of v; root and quotient are two operations more.
func InverseStd(dst, src *tensor.Tensor, eps float64, axes ...int) {
	if !(eps >= 0 && eps <= math.MaxFloat64) {
		panic("reduce: eps must be finite and not negative")
	}
	f := dst.Format
	lines(dst, src, axes, func(line []float64) float64 {
		if len(line) == 0 {
			return fp16.NaN
		}
		v, bound := variance(line, 0)
		y := 1 / math.Sqrt(v+eps)
		if f == fp16.Float64 || v != v {
			return y
		}
		off := bound/(v+eps) + 3*u
		if rounded, ok := f.Decide(y, float64(1.001*off*y)); ok && off < 0.25 {
			return rounded
		}
		var m exact.Moments
		m.Add(line)
		return m.InverseRoot(eps)
	})
}

func spread(line []float64, f fp16.Format, correction int, root bool) float64 {
	if _, size := added(line); size-size == 0 && len(line) <= correction {
		return overNothing(line)
	}
	y, bound := variance(line, correction)
	if root {
		y, bound = rooted(y, bound)
	}
	if f == fp16.Float64 || y != y {
		return y
	}
	rounded, ok := f.Decide(y, bound)
	if !ok {
		var m exact.Moments
		m.Add(line)
		return m.Variance(correction, root)
	}
	return rounded
}

// variance returns that of a line in float64, with what it is off by: NaN of a line with a
// number that is not finite.
func variance(line []float64, correction int) (y, bound float64) {
	sum, size := added(line)
	if size-size != 0 {
		return fp16.NaN, 0
	}
	n := float64(len(line))
	mean, squares := sum/n, 0.0
	for _, x := range line {
		d := x - mean
		squares += float64(d * d)
	}
	over := n - float64(correction)
	y = squares / over
	e := float64(u * size) // of the mean
	return y, float64(1.0001*u*float64(float64(n+3)*y)) + float64(1.0001*float64(n*float64(e*e)))/over
}

// overNothing returns the variance of a line over 0.
func overNothing(line []float64) float64 {
	for _, x := range line {
		if x != line[0] {
			return math.Inf(1)
		}
	}
	return fp16.NaN
}

// rooted returns the root of a number that is off by bound at most, and what the root is
// off by: the relative error, which the root at most keeps, and u. Of what may be 0 it
// is the root of all that it may be.
func rooted(v, bound float64) (y, b float64) {
	y = math.Sqrt(v)
	if bound >= v {
		return y, 1.0001 * math.Sqrt(v+bound)
	}
	return y, 1.0001 * float64(y*(bound/v+u))
}
