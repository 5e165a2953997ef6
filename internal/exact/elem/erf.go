package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// Bounds of relative errors in units of U.
const (
	ErfcxErr = 2.4
	ErfcErr  = 4.6
	ErfErr   = 5.3
)

// Erf returns the error function 2/sqrt(pi) times the integral of e^(-t^2)
// from 0 to x, with a relative error below ErfErr*U. Erf(+-0) = +-0,
// Erf(+-Inf) = +-1.
//
// Below 1/2 it is Taylor's polynomial: 12 terms leave less than 2^-57 of it,
// and as the terms beyond x itself are below 0.13 x, their roundings add
// little. Beyond, erfc x < 0.92 erf x: the error of Erfc counts 0.92 times.
func Erf(x float64) float64 {
	a := math.Abs(x)
	if a < 0.5 {
		z := float64(x * x)
		p := erfTaylor[len(erfTaylor)-1]
		for i := len(erfTaylor) - 2; i >= 0; i-- {
			p = erfTaylor[i] + float64(z*p)
		}
		return x + float64(x*(erfSlope+float64(z*p)))
	}
	if x != x {
		return fp16.NaN
	}
	return math.Copysign(1-Erfc(a), x)
}

// Erfc returns 1 - erf(x), with a relative error below ErfcErr*U, down to
// where it underflows (26.54 to subnormal numbers, 27.23 to +0). Erfc(-Inf) =
// 2, Erfc(+Inf) = 0, Erfc(+-0) = 1.
//
// For x >= 0 it is e^(-x^2) erfcx(x), x^2 formed without error: ExpErr +
// ErfcxErr + 1 for the product. For x < 0 it is 2 less that.
func Erfc(x float64) float64 {
	a := math.Abs(x)
	var y float64
	switch {
	case x != x:
		return fp16.NaN
	case a < 27.3:
		hi, lo := Square(a)
		y = float64(ExpSum(-hi, -lo) * Erfcx(a))
	}
	if x < 0 {
		return 2 - y
	}
	return y
}

// Erfcx returns the scaled function e^(x^2) erfc(x) for x in [0, 31), with a
// relative error below ErfcxErr*U; it panics outside.
//
// Sixteen intervals for each power of two of x+1 carry a polynomial of degree
// ten in u = x - middle, which is exact or, below 1/16, wrong by less than
// U/32. Interpolation misses less than 2^-59. The constant term is rounded, and
// so is the last sum, which is at most 8 % smaller: 2.1 U; the terms with u stay
// below 0.08 of it and are off by less than 3 U.
func Erfcx(x float64) float64 {
	if !(x >= 0 && x < 31) {
		panic("elem: Erfcx argument outside [0, 31)")
	}
	t := &erfcxTable[math.Float64bits(x+1)>>48-1023<<4]
	c := &t.c
	u := x - t.mid
	u2 := float64(u * u)
	u4 := float64(u2 * u2)
	hi := (c[8] + float64(u*c[9])) + float64(u2*c[10])
	mid := (c[4] + float64(u*c[5])) + float64(u2*(c[6]+float64(u*c[7])))
	low := c[1] + (float64(u*c[2]) + float64(u2*c[3]))
	return c[0] + (float64(u*low) + float64(u4*(mid+float64(u4*hi))))
}

// Square returns x*x = hi + lo without error, unless x*x overflows or underflows
// (T. J. Dekker, Numerische Mathematik 18, 1971): x is cut into two parts of at
// most 26 bits.
func Square(x float64) (hi, lo float64) {
	x = float64(x) // inlined, a product passed as x could fuse with what follows
	xh := math.Float64frombits((math.Float64bits(x) + 1<<26) &^ (1<<27 - 1))
	xl := x - xh
	hi = float64(x * x)
	lo = (float64(xh*xh) - hi) + float64(2*xh*xl) + float64(xl*xl)
	return hi, lo
}
