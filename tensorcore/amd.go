package tensorcore

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
)

// exactly is one exact sum, rounded once. Where the last digits of all terms lie within 48
// bits of the first one's, a float64 holds it: five terms carry three bits more. Products are
// whole multiples of the 20th bit below their exponent, the accumulator of its 23rd.
func exactly(a, b []operand, c float64) float64 {
	if !finite(a, b, c) {
		return special(a, b, c)
	}
	top, low := none, over
	if c != 0 {
		top = exponent(c, -126)
		low = top - 23
	}
	plain := c
	for i := range a {
		if e := a[i].e + b[i].e; e > none/2 {
			top, low = max(top, e), min(low, e-20)
			plain += float64(a[i].v * b[i].v)
		}
	}
	if top-low <= 48 {
		return nearest(plain)
	}
	var s exact.Sum
	s.Add(c)
	for i := range a {
		s.Add(float64(a[i].v * b[i].v))
	}
	return nearest(s.Odd())
}

// pairs is MI200's: every sum is rounded to float32, and what is subnormal is zero.
func pairs(a, b []operand, c float64) float64 {
	var p [4]float32
	b = b[:len(a)]
	for i := range a {
		p[i&3] = flushed(float32(a[i].v * b[i].v))
	}
	y := flushed(flushed(flushed(p[0]+p[1])+flushed(p[2]+p[3])) + flushed(float32(c)))
	if y != y {
		return fp16.NaN
	}
	return float64(y)
}

// flushed returns 0, with its sign, for a subnormal number.
func flushed(v float32) float32 {
	bits := math.Float32bits(v)
	if bits&0x7f800000 == 0 { // one branch, as signs are random
		return math.Float32frombits(bits & 0x80000000)
	}
	return v
}

// floored is MI300's: the products are truncated at 24 bits below the greatest and added; that
// sum is floored at 31 bits, and the accumulator at 24, below the greater exponent of both.
func (u *Unit) floored(a, b []operand, c float64) float64 {
	if !finite(a, b, c) {
		return special(a, b, c)
	}
	top := greatest(a, b)
	ce := exponent(c, -126)
	if top < -512 { // no product
		return nearest(c)
	}
	sum := cut(a, b, power(u.Fraction-top))
	if ce < -512 {
		return nearest(float64(sum) * power(top-u.Fraction))
	}
	return joined(sum, top, ce, c)
}

// joined is MI300's sum of an accumulator and of products in units of 2^(top-24), both of which are not zero.
func joined(sum int64, top, ce int, c float64) float64 {
	most := max(top, ce)
	s := sum << 7 >> min(most-top, 62)            // in units of 2^(most-31), toward minus infinity
	k := int64(math.Floor(c*power(24-most))) << 7 // in the same
	return float64(float32(float64(s+k) * power(most-31)))
}

// finite reports whether all terms are.
func finite(a, b []operand, c float64) bool {
	for i := range a {
		if a[i].e == over || b[i].e == over {
			return false
		}
	}
	return c-c == 0
}
