package bigref

import "math/big"

// The functions below are as their definitions have them, with as many more bits as cancel for numbers of the
// float32 grid.
const cancelled = 400

func sinh(x *big.Float, prec uint) *big.Float {
	w := prec + cancelled
	e := Exp(x, w)
	v := newF(w).Sub(e, newF(w).Quo(intF(w, 1), e))
	return v.SetMantExp(v, -1)
}

func cosh(x *big.Float, prec uint) *big.Float {
	w := prec + guard
	e := Exp(x, w)
	v := newF(w).Add(e, newF(w).Quo(intF(w, 1), e))
	return v.SetMantExp(v, -1)
}

// beside returns sqrt(sign x^2 + other).
func beside(x *big.Float, sign, other int64, w uint) *big.Float {
	s := newF(w).Mul(x, x)
	s.Mul(s, intF(w, sign))
	return s.Sqrt(s.Add(s, intF(w, other)))
}

func asinh(x *big.Float, prec uint) *big.Float {
	w := prec + cancelled
	a := newF(w).Abs(x)
	v := Log(newF(w).Add(a, beside(x, 1, 1, w)), w)
	if x.Sign() < 0 {
		v.Neg(v)
	}
	return v
}

func acosh(x *big.Float, prec uint) *big.Float {
	w := prec + cancelled
	return Log(newF(w).Add(x, beside(x, 1, -1, w)), w)
}

// asin is twice the arctangent of x/(1 + sqrt(1-x^2)).
func asin(x *big.Float, prec uint) *big.Float {
	w := prec + cancelled
	d := beside(x, -1, 1, w)
	v := Atan(newF(w).Quo(x, d.Add(d, intF(w, 1))), w)
	return v.SetMantExp(v, 1)
}

// acos is twice the arctangent of sqrt(1-x^2)/(1+x).
func acos(x *big.Float, prec uint) *big.Float {
	w := prec + cancelled
	d := newF(w).Add(x, intF(w, 1))
	if d.Sign() == 0 {
		return Pi(w)
	}
	v := Atan(newF(w).Quo(beside(x, -1, 1, w), d), w)
	return v.SetMantExp(v, 1)
}
