package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// exponentials is a line x_1 ... x_n seen from its greatest number m: the sum of all e^x_i is
// e^m (1 + t).
type exponentials struct {
	line      []float64
	m         float64
	undefined bool    // a NaN, or an infinity that is the greatest
	alone     bool    // m is the only finite number: t is 0
	log       float64 // of 1 + t
	bound     float64 // of the error of log
	row       *exact.Softmax
}

// newExponentials adds up a line.
//
// x - m is formed in two words without error, and its exponential is off by 1.1 u. t, the sum
// of all but one of the greatest, all positive, is off by (n + 2) u of itself. ln(1+t) is off by
// no more of itself for that, and by 1.1 u: (n + 4) u in all. What underflows is below 2^-1000.
//
// w is memory for the line.
func newExponentials(line []float64, w *space) (e exponentials) {
	e.line = line
	if e.m, e.undefined = w.greatest(line); e.undefined {
		return e
	}
	elem.ExpBelow(w.y, line, e.m)
	t, finite, skipped := 0.0, 0, false
	for j, x := range line {
		if x != math.Inf(-1) {
			finite++
		}
		if x == e.m && !skipped {
			skipped = true
			continue
		}
		t += w.y[j]
	}
	e.alone = finite == 1
	e.log = elem.Log1p(t)
	e.bound = float64(1.0001*u*float64(len(line)+4)*e.log) + 0x1p-1000
	return e
}

// exact returns the line for what is left open.
func (e *exponentials) exact() *exact.Softmax {
	if e.row == nil {
		e.row = exact.NewSoftmax(e.line)
	}
	return e.row
}

// LogSoftmax sets dst, of src's shape, to x_i - ln(e^x_1 + ... + e^x_n) along axes, one
// function of the line, rounded once. dst may be src.
//
// It is (x_i - m) - ln(1+t), both parts of one sign: see exponentials. The difference is
// rounded by u, and so is x_i - m; the ends of the interval by less than 2 u. In float64 the
// error is (n + 6) u of the result, u = 2^-53.
func LogSoftmax(dst, src *tensor.Tensor, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
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
		e := newExponentials(w.x, w)
		if f == fp16.Float64 || e.undefined {
			for j, x := range w.x {
				w.lo[j] = e.less(x, f)
			}
			v.put(dst.Data, i, w.lo)
			return
		}
		for j, x := range w.x {
			d := x - e.m
			y := d - e.log
			bound := e.bound + float64(1.001*u*(float64(3*math.Abs(y))-d)) // of -Inf it is NaN
			w.lo[j], w.hi[j] = y-bound, y+bound
		}
		w.decide(f, func(j int) float64 { return e.less(w.x[j], f) })
		v.put(dst.Data, i, w.lo)
	})
}

// less returns x less the logarithm of the sum.
func (e *exponentials) less(x float64, f fp16.Format) float64 {
	switch {
	case e.undefined:
		return fp16.NaN
	case x == math.Inf(-1):
		return x
	case e.alone:
		return 0
	}
	d, lo := twoSum(x, -e.m)
	y := d - e.log
	if f == fp16.Float64 {
		return y
	}
	rounded, ok := f.Decide(y, math.Abs(lo)+e.bound+float64(1.0001*u*math.Abs(y)))
	if !ok {
		rounded = f.Round(e.exact().SettleLog(x))
	}
	return rounded
}

// LogSumExp sets dst to ln(e^x_1 + ... + e^x_n) along axes, one function of the line, rounded
// once; dst is as in [Sum]. In float64 the error is (n + 4) u of ln(1+t), t the sum
// of all e^(x_i - m) but one of the greatest, u = 2^-53, and
// u of the result.
func LogSumExp(dst, src *tensor.Tensor, axes ...int) {
	checkFormats(dst, src)
	v := newView(src.Shape, axes)
	if len(dst.Data) != len(v.first) {
		panic("reduce: destination size does not fit source and axes")
	}
	f := dst.Format
	if len(v.along) == 0 {
		for i := range dst.Data {
			dst.Data[i] = math.Inf(-1)
		}
		return
	}
	v.each(src.Data, func(i int, line []float64) {
		w := newSpace(len(line))
		defer spaces.Put(w)
		e := newExponentials(line, w)
		y := e.m + e.log
		switch {
		case e.undefined:
			dst.Data[i] = undefinedSum(line)
		case e.alone:
			dst.Data[i] = f.Round(e.m + 0) // of -0 too it is +0
		case f == fp16.Float64:
			dst.Data[i] = y
		default:
			rounded, ok := f.Decide(y, e.bound+float64(1.0001*u*math.Abs(y)))
			if !ok {
				rounded = f.Round(e.exact().LogSum())
			}
			dst.Data[i] = rounded
		}
	})
}

// undefinedSum returns the logarithm of the sum of a line with a NaN, +Inf or nothing but
// -Inf.
func undefinedSum(line []float64) float64 {
	most := math.Inf(-1)
	for _, x := range line {
		most = max(most, x) // of a NaN, NaN
	}
	return fp16.Float64.Round(most)
}
