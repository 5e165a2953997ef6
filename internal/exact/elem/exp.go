package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// ExpErr bounds the relative error of Exp and ExpSum in units of U; see expParts.
const ExpErr = 1.1

// Exp returns e^x, with a relative error below ExpErr*U. Exp(-Inf) = 0,
// Exp(+Inf) = +Inf, Exp(+-0) = 1; it overflows to +Inf above 709.78 and
// underflows to +0 below -745.13.
func Exp(x float64) float64 { return ExpSum(x, 0) }

// ExpSum returns e^(hi+lo) for |lo| <= 2^-53 |hi|, as if the sum were not
// rounded. Specials are those of Exp(hi).
func ExpSum(hi, lo float64) float64 {
	switch {
	case hi != hi:
		return fp16.NaN
	case hi > 710:
		return math.Inf(1)
	case hi < -746:
		return 0
	}
	e, t, small := expParts(hi, lo)
	return scale(t+small, e)
}

// ExpBelow sets dst to e^(x-top) for numbers x of src, none of which is greater than top or
// NaN: what ExpSum makes of the exact differences. top is finite. The slices are of one
// length, and may be the same.
func ExpBelow(dst, src []float64, top float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		d := x - top
		if d < -700 { // far below, or -Inf
			dst[i] = 0
			if !(d < -746) {
				dst[i] = ExpSum(d, below(x, top, d))
			}
			continue
		}
		e, t, small := expParts(d, below(x, top, d))
		dst[i] = float64((t + small) * math.Float64frombits(uint64(1023+e)<<52))
	}
}

// below returns what x - top is beyond its rounding d, exactly (Knuth's sum of two).
func below(x, top, d float64) float64 {
	z := d - x
	return (x - (d - z)) - (top + z)
}

// expParts returns e^(x+lo) as 2^e (t + small), t = 2^(j/128) rounded, for
// |x| < 2^10.
//
// With k the integer nearest to 128 x/ln 2, j = k mod 128, e = (k-j)/128 and
// r = x + lo - k ln(2)/128, |r| < 2^-8.5, it is 2^e 2^(j/128) e^r. k expStepHi
// is exact and so is x less that; the rest of r is wrong by at most U|r|
// + 2^-78. p = e^r - 1 is Taylor's polynomial, whose missing term is below
// r^6/720 < 2^-60.4 = U/160. Everything but t is below 2^-8.4 of the result
// and carries at most five roundings, so with the last one, of t + small, the
// error is below (1 + 5/330 + 1/160 + ...) U < 1.1 U.
func expParts(x, lo float64) (e int, t, small float64) {
	const toInt = 0x1.8p52 // adding it rounds to an integer, kept in the low bits
	kd := float64(x*expPerStep) + toInt
	k := int(int32(math.Float64bits(kd)))
	kd -= toInt
	r := x - float64(kd*expStepHi)
	r = (r - float64(kd*expStepLo)) + lo
	r2 := float64(r * r)
	p := (0.5 + float64(r*(1./6))) + float64(r2*((1./24)+float64(r*(1./120))))
	p = r + float64(r2*p)
	pow := &exp2Table[k&127]
	return k >> 7, pow[0], pow[1] + float64(pow[0]*p)
}

// scale returns y*2^e for y in (1/2, 4), rounded once.
func scale(y float64, e int) float64 {
	if e < -1021 || e > 1022 {
		return math.Ldexp(y, e)
	}
	return float64(y * math.Float64frombits(uint64(1023+e)<<52))
}
