package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// AtanErr bounds the relative error of Atan2 in units of U.
const AtanErr = 8

// Atan2 returns the angle of the point (x, y), with a relative error below AtanErr*U.
// Zeros and infinities are those of IEEE 754's atan2: +-0 for (+0, +-0), +-pi for
// (-0, +-0), odd multiples of pi/4 for two infinities. NaN gives NaN.
//
// The quotient q of the smaller by the greater size is off by U, its arctangent p by
// 5.6 U with that. pi/2 - p is at least p and takes two roundings more, 7.7 U in all;
// pi less that or less p has a smaller share of the error in p.
func Atan2(y, x float64) float64 {
	if x != x || y != y {
		return fp16.NaN
	}
	a, b := math.Abs(y), math.Abs(x)
	steep := a > b
	if steep {
		a, b = b, a
	}
	q := a / b
	switch {
	case b == 0:
		q = 0
	case a > math.MaxFloat64:
		q = 1
	}
	p := arctan(q)
	if steep {
		p = (halfPiHi - p) + halfPiLo
	}
	if x < 0 || y == 0 && math.Signbit(x) {
		p = (2*halfPiHi - p) + 2*halfPiLo
	}
	return math.Copysign(p, y)
}

// arctan returns the arctangent of q in [0, 1]: with c = k/32 the nearest multiple it is
// arctan c + arctan t, t = (q-c)/(1+qc), |t| <= 1/64.
//
// q - c is exact, t is off by 2.5 U of it, and so is its sum with the small rest by 1 U;
// where c > 0 the result is no smaller than 63/64 |t|, and the last sum adds 1 U: 4.6 U.
// Of Taylor's polynomial t^13/13 < 2^-75 |t| is missing.
func arctan(q float64) float64 {
	k := int(float64(32*q) + 0.5)
	c := float64(float64(k) / 32) // exact, and not fused with what follows
	t := (q - c) / (1 + float64(q*c))
	z := float64(t * t)
	z2 := float64(z * z)
	s := (-1./3 + float64(z*(1./5))) + float64(z2*((-1./7+float64(z*(1./9)))+float64(z2*(-1./11))))
	e := &atanTable[k]
	return e[0] + (t + (e[1] + float64(float64(t*z)*s)))
}
