package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
)

// tiny is Spinlock's 1e-8: a range up to it counts as none, and it keeps the
// standard deviation from zero. It is the double everywhere.
const tiny = 1e-8

// MinMax maps the numbers x of format f, all of one state, to (x-min)/(max-min), with
// one rounding, if max-min > 1e-8; a NaN anywhere makes that comparison false and leaves
// x as it is. It is the "minmax" of Spinlock's rollouts.
func MinMax(x []float64, f fp16.Format) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if v != v {
			return
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	// Rounding the difference to float64 does not move it across 1e-8: no
	// difference of float32 numbers lies within 2^-54 of that.
	span := hi - lo
	if !(span > tiny) {
		return
	}
	for i, v := range x {
		y, bound := quotient(v, lo, span)
		r, ok := y, f == fp16.Float64
		if !ok {
			r, ok = f.Decide(y, bound)
		}
		if !ok {
			r = f.Round(settleQuotient(v, lo, hi))
		}
		x[i] = r
	}
}

// quotient evaluates (v-lo)/(hi-lo) in float64, span being the rounded hi-lo,
// and bounds its error: three roundings, |y - exact| <= 3.01 * 2^-53 |y|.
func quotient(v, lo, span float64) (y, bound float64) {
	y = (v - lo) / span
	return y, 0x1.9p-52 * math.Abs(y)
}

// settleQuotient returns (v-lo)/(hi-lo) rounded to odd, lo <= v <= hi; what is
// not finite follows IEEE arithmetic.
//
// Both differences are exact as sums of two, the quotient q is off by 15 units of
// 2^-106. Where that leaves q.Hi or the numbers beside it open, the sign of
// (v-lo) - q.Hi (hi-lo) decides: without error, as the products are multiples of
// 2^-301 if q.Hi is above 2^-100. Smaller ones are left to integers.
func settleQuotient(v, lo, hi float64) float64 {
	above, span := double.Sum(v, -lo), double.Sum(hi, -lo)
	if above.Hi-above.Hi != 0 || span.Hi-span.Hi != 0 {
		return (v - lo) / (hi - lo)
	}
	if above.Hi == 0 {
		return 0
	}
	q := above.Over(span)
	if odd, ok := q.Odd(0x1p-102 * q.Hi); ok {
		return odd
	}
	var rest exact.Sum
	rest.Add(v)
	rest.Add(-lo)
	if q.Hi < 0x1p-100 {
		var all exact.Sum
		all.Add(hi)
		all.Add(-lo)
		a, _ := rest.Int()
		s, _ := all.Int()
		return exact.Quotient(a, 0, s) // both in the same unit
	}
	for _, s := range [2]float64{span.Hi, span.Lo} {
		p := double.Product(-q.Hi, s)
		rest.Add(p.Hi)
		rest.Add(p.Lo)
	}
	side := rest.Odd()
	if side == 0 || math.Float64bits(q.Hi)&1 == 1 {
		return q.Hi
	}
	return math.Nextafter(q.Hi, math.Copysign(math.Inf(1), side))
}

// ZScore maps the numbers x of format f, all of one state, to (x-mean)/(std+1e-8), with
// one rounding, std with the divisor n-1; float64 numbers by plain sums in order. A single number has no std: the
// result is NaN, as it is if x holds a NaN or an infinity. It is the "zscore" of Spinlock's
// rollouts.
func ZScore(x []float64, f fp16.Format) {
	if f == fp16.Float64 {
		zScore64(x)
		return
	}
	var m exact.Moments
	m.Add(x)
	z := m.ZScore(tiny)
	for i, v := range x {
		y, bound := score(&z, v)
		r, ok := f.Decide(y, bound)
		if !ok {
			r = f.Round(z.Settle(v))
		}
		x[i] = r
	}
}

// score evaluates a z-score in float64 and bounds its error. As Hi is the float64
// nearest to the mean Hi + Lo, |Lo| is at most half of |v-Hi| unless that is 0, and
// the two subtractions err by 4 u of d together; the mean errs by 2^-103 of itself,
// the divisor by 4 u, the quotient by u.
func score(z *exact.ZScore, v float64) (y, bound float64) {
	d := (v - z.Mean.Hi) - z.Mean.Lo
	y = d/z.Divisor + 0 // an exact zero is +0
	return y, float64(0x1.4p-50*math.Abs(y)) + float64(0x1p-102*math.Abs(z.Mean.Hi/z.Divisor))
}

func zScore64(x []float64) {
	n := float64(len(x))
	var sum, squares float64
	for _, v := range x {
		sum += v
	}
	mean := sum / n
	for _, v := range x {
		d := v - mean
		squares += float64(d * d)
	}
	divisor := math.Sqrt(squares/(n-1)) + tiny
	for i, v := range x {
		x[i] = fp16.Float64.Round((v-mean)/divisor + 0)
	}
}
