package exact

import (
	"math"
	"math/big"
)

// Sinh returns (e^x - e^-x)/2, transcendental but for x = 0, where it is x. With t = e^x - 1 it is (t + t/(1+t))/2, a
// sum of two terms of one sign.
func Sinh(x float64) float64 {
	switch {
	case x == 0:
		return x
	case math.Abs(x) > 2000:
		return math.Copysign(greatest, x)
	}
	return ziv(func(w uint) *big.Float {
		t := bigExpm1(bigFloat(w, math.Abs(x)), w)
		q := newBig(w).Add(t, bigInt(w, 1))
		t.Add(t, q.Quo(t, q))
		if x < 0 {
			t.Neg(t)
		}
		return t.SetMantExp(t, -1)
	})
}

// Cosh returns (e^x + e^-x)/2; 1 for x = 0. Below 2^-30 it is 1 and less than 2^-60.
func Cosh(x float64) float64 {
	switch a := math.Abs(x); {
	case a == 0:
		return 1
	case a < 0x1p-30:
		return Beside(1, 1)
	case a > 2000:
		return greatest
	}
	return ziv(func(w uint) *big.Float {
		e := bigExp(bigFloat(w, x), w)
		e.Add(e, newBig(w).Quo(bigInt(w, 1), e))
		return e.SetMantExp(e, -1)
	})
}

// Asinh returns the number whose sinh is x; x for x = 0. For a = |x| it is ln(1+v) with
// v = a + a^2/(1 + sqrt(1 + a^2)).
func Asinh(x float64) float64 {
	if x == 0 {
		return x
	}
	return ziv(func(w uint) *big.Float {
		a, one := bigFloat(w, math.Abs(x)), bigInt(w, 1)
		s := newBig(w).Mul(a, a)
		d := newBig(w).Sqrt(newBig(w).Add(s, one))
		v := areaLog(a.Add(a, s.Quo(s, d.Add(d, one))), w)
		if x < 0 {
			v.Neg(v)
		}
		return v
	})
}

// Acosh returns the number from 0 on whose cosh is x >= 1: ln(1+v) with v = d + sqrt(d (x+1)), d = x-1.
func Acosh(x float64) float64 {
	if x == 1 {
		return 0
	}
	return ziv(func(w uint) *big.Float {
		d := newBig(w).Sub(bigFloat(w, x), bigInt(w, 1)) // exact for x of the float32 grid
		s := newBig(w).Add(bigFloat(w, x), bigInt(w, 1))
		s.Sqrt(s.Mul(s, d))
		return areaLog(d.Add(d, s), w)
	})
}

// areaLog returns ln(1+v) of a v > 0 that is good to 2^-w, as the result then is.
func areaLog(v *big.Float, w uint) *big.Float {
	if v.Cmp(bigInt(w, 1)) <= 0 {
		return artanhSeries(v, w)
	}
	return bigLog(newBig(w).Add(v, bigInt(w, 1)), w)
}

// Log10 returns the logarithm of x > 0 to the base 10, which is rational for powers of 10 only.
func Log10(x float64) float64 {
	for k, power := 0, 1.0; k <= 22; k, power = k+1, power*10 { // those that float64 holds
		if x == power {
			return float64(k)
		}
	}
	return ziv(func(w uint) *big.Float {
		v := bigLog(bigFloat(w, x), w)
		return v.Quo(v, bigLog(bigInt(w, 10), w))
	})
}

// Asin returns the arcsine of x in [-1, 1], transcendental but for x = 0, where it is x: the angle of the point
// (sqrt(1-x^2), x).
func Asin(x float64) float64 {
	if x == 0 {
		return x
	}
	return ziv(func(w uint) *big.Float {
		v := bigAngle(bigFloat(w, math.Abs(x)), rootBeside(x, w), w)
		if x < 0 {
			v.Neg(v)
		}
		return v
	})
}

// Acos returns the arccosine of x in [-1, 1]; 0 for x = 1.
func Acos(x float64) float64 {
	if x == 1 {
		return 0
	}
	return ziv(func(w uint) *big.Float {
		v := bigAngle(rootBeside(x, w), bigFloat(w, math.Abs(x)), w)
		if x < 0 {
			v.Sub(bigPi(w), v)
		}
		return v
	})
}

// rootBeside returns sqrt((1-x)(1+x)), whose factors are exact for x of the float32 grid from 2^-120 on, and good to
// 2^-w below.
func rootBeside(x float64, w uint) *big.Float {
	one := bigInt(w, 1)
	s := newBig(w).Sub(one, bigFloat(w, x))
	s.Mul(s, newBig(w).Add(one, bigFloat(w, x)))
	return s.Sqrt(s)
}

// bigAngle returns the angle of the point (b, a) in the first quarter.
func bigAngle(a, b *big.Float, w uint) *big.Float {
	if a.Cmp(b) <= 0 {
		return bigArctan(newBig(w).Quo(a, b), w)
	}
	v := newBig(w).Quo(bigPi(w), bigInt(w, 2))
	return v.Sub(v, bigArctan(newBig(w).Quo(b, a), w))
}

// Erfc returns 1 - erf x; 1 for x = 0. Up to -7 it is 2 less 2^-74 or less.
func Erfc(x float64) float64 {
	switch {
	case x == 0:
		return 1
	case x < -7:
		return Beside(2, -1)
	case x > 30:
		return least
	}
	return ziv(func(w uint) *big.Float { return erfc(bigFloat(w, x), w) })
}
