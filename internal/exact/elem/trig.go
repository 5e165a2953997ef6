package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// TrigErr bounds the relative errors of Sin and Cos in units of U; see
// reduce, sine and cosine.
const TrigErr = 1.7

// Sin returns the sine of x radians, with a relative error below TrigErr*U.
// Sin(+-0) = +-0; of an infinity it is NaN.
func Sin(x float64) float64 {
	if x-x != 0 {
		return fp16.NaN
	}
	if math.Abs(x) < 0x1p-27 { // |x - sin x| < |x|^3/6
		return x
	}
	n, r, low := reduce(x)
	var y float64
	if n&1 == 0 {
		y = sine(r, low)
	} else {
		y = cosine(r, low)
	}
	if n&2 != 0 {
		return -y
	}
	return y
}

// Cos returns the cosine of x radians, with a relative error below TrigErr*U.
// Cos of an infinity is NaN.
func Cos(x float64) float64 {
	if x-x != 0 {
		return fp16.NaN
	}
	n, r, low := reduce(x)
	var y float64
	if n&1 == 0 {
		y = cosine(r, low)
	} else {
		y = sine(r, low)
	}
	if (n+1)&2 != 0 {
		return -y
	}
	return y
}

// TanErr bounds the relative error of Tan in units of U: a sine, a cosine and
// their quotient.
const TanErr = 4.5

// Tan returns the tangent of x radians, with a relative error below TanErr*U.
// Tan(+-0) = +-0; of an infinity it is NaN.
func Tan(x float64) float64 {
	if x-x != 0 {
		return fp16.NaN
	}
	if math.Abs(x) < 0x1p-27 { // |x - tan x| < |x|^3/2
		return x
	}
	n, r, low := reduce(x)
	if n&1 == 0 {
		return sine(r, low) / cosine(r, low)
	}
	return -cosine(r, low) / sine(r, low)
}

// reduce returns n mod 4 and r + low = x - n pi/2 in [-pi/4, pi/4], give or take a
// rounding (W. J. Cody, W. Waite, "Software Manual for the Elementary
// Functions", 1980, with four parts of pi/2).
//
// n < 2^18 times each of the first three parts is exact, and so is x less the
// first of them: both are multiples of 2^-53. The second and third are
// subtracted with their rounding errors kept. The fourth, below 2^-86, is
// wrong by 2^-139 and what lies beyond it by 2^-139; no float64 up to 2^18
// comes closer than 2^-71 to a multiple of pi/2 (there are 2^18 of those, each
// with its nearest float64 at a distance that is as good as random in
// 2^-36), so r + low is good to 2^-60 or better. Beyond 2^18 it is reduceFar.
func reduce(x float64) (n int, r, low float64) {
	if math.Abs(x) < 0.78 {
		return 0, x, 0
	}
	if math.Abs(x) > 0x1p18 {
		return reduceFar(x)
	}
	const toInt = 0x1.8p52
	d := float64(x*perQuarter) + toInt
	n = int(int32(math.Float64bits(d)))
	d -= toInt
	a, b := difference(x-float64(d*quarter1), float64(d*quarter2))
	a, c := difference(a, float64(d*quarter3))
	c = (b + c) - float64(d*quarter4)
	r = a + c
	return n, r, (a - r) + c
}

// difference returns a-b = s+e without error (D. E. Knuth).
func difference(a, b float64) (s, e float64) {
	s = a - b
	t := s - a
	return s, (a - (s - t)) - (b + t)
}

// sine returns sin(r+low) for |r| < 0.79 by Taylor's polynomial: the missing
// term is below r^18/19! < 2^-62. All but r is below 0.11 of the result, with
// four roundings.
func sine(r, low float64) float64 {
	z := float64(r * r)
	z2 := float64(z * z)
	p := (-1./5040 + float64(z*(1./362880))) +
		float64(z2*(-1./39916800+float64(z*(1./6227020800))+float64(z2*(-1./1307674368000+float64(z*(1./355687428096000))))))
	p = (-1./6 + float64(z*(1./120))) + float64(z2*p)
	return r + (float64(float64(r*z)*p) + (low - float64(low*float64(0.5*z))))
}

// cosine returns cos(r+low) for |r| < 0.79 by Taylor's polynomial: the missing
// term is below r^18/18! < 2^-58. The rounding error of 1 - r^2/2 is kept, so
// besides the last rounding only that of r^2 counts, below U/4 of a result of
// at least 0.7.
func cosine(r, low float64) float64 {
	z := float64(r * r)
	z2 := float64(z * z)
	p := (-1./3628800 + float64(z*(1./479001600))) + float64(z2*(-1./87178291200+float64(z*(1./20922789888000))))
	p = (1./24 + float64(z*(-1./720))) + float64(z2*(1./40320+float64(z*p)))
	h := float64(0.5 * z)
	w := 1 - h
	return w + (((1 - w) - h) + (float64(z2*p) - float64(r*low)))
}
