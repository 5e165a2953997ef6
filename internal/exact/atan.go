package exact

import (
	"math"
	"math/big"
)

// Atan2 returns the angle of the point (x, y), rounded to odd: pi times a rational, or
// the arctangent of a rational other than 0, both transcendental (Lindemann). It must
// not be 0, which is for y = 0 and x > 0.
func Atan2(y, x float64) float64 {
	a, b := math.Abs(y), math.Abs(x)
	switch {
	case a > math.MaxFloat64 && b > math.MaxFloat64:
		a, b = 1, 1
	case a > math.MaxFloat64:
		a, b = 1, 0
	case b > math.MaxFloat64:
		a, b = 0, 1
	}
	return ziv(func(w uint) *big.Float {
		var v *big.Float
		if a <= b {
			v = bigAtan(a, b, w)
		} else {
			v = newBig(w).Quo(bigPi(w), bigInt(w, 2))
			v.Sub(v, bigAtan(b, a, w))
		}
		if math.Signbit(x) {
			v.Sub(bigPi(w), v)
		}
		if math.Signbit(y) {
			v.Neg(v)
		}
		return v
	})
}

// bigAtan returns the arctangent of q = a/b in [0, 1], 0 for 0/0.
func bigAtan(a, b float64, w uint) *big.Float {
	if a == 0 {
		return newBig(w)
	}
	return bigArctan(newBig(w).Quo(bigFloat(w, a), bigFloat(w, b)), w)
}

// bigArctan returns the arctangent of t in [0, 1], which it overwrites: halved three times by
// tan(v/2) = t/(1 + sqrt(1+t^2)), then by Taylor's series, whose terms alternate and
// fall: 4 bits lost.
func bigArctan(t *big.Float, w uint) *big.Float {
	if t.Sign() == 0 {
		return t
	}
	one := bigInt(w, 1)
	for range 3 {
		d := newBig(w).Mul(t, t)
		d.Sqrt(d.Add(d, one))
		t.Quo(t, d.Add(d, one))
	}
	t2 := newBig(w).Mul(t, t)
	sum, power := newBig(w).Set(t), t
	for n := int64(3); ; n += 2 {
		power.Mul(power, t2)
		power.Neg(power)
		term := newBig(w).Quo(power, bigInt(w, n))
		if below(term, sum, w) {
			return sum.SetMantExp(sum, 3)
		}
		sum.Add(sum, term)
	}
}
