package exact

import (
	"math"
	"math/big"
)

// Sin returns the sine of x radians; x for x = 0.
func Sin(x float64) float64 {
	if x == 0 {
		return x
	}
	return ziv(func(w uint) *big.Float { return circular(0, x, w) })
}

// Cos returns the cosine of x radians; 1 for x = 0.
func Cos(x float64) float64 {
	if x == 0 {
		return 1
	}
	return ziv(func(w uint) *big.Float { return circular(1, x, w) })
}

// Tan returns the tangent of x radians; x for x = 0.
func Tan(x float64) float64 {
	if x == 0 {
		return x
	}
	return ziv(func(w uint) *big.Float { s := circular(0, x, w); return s.Quo(s, circular(1, x, w)) })
}

// circular returns sin(x + quarters pi/2), for x != 0 of the float32 grid.
//
// x = n pi/2 + r. As |x| < 2^128, pi with w + 192 bits gives r with an error below
// 2^-(w+62), and |r| > 2^-32: of all float32 numbers none but 0 comes closer to a
// multiple of pi/2 (exact.TestCircularReduction).
func circular(quarters int64, x float64, w uint) *big.Float {
	n := quarters
	r := bigFloat(w, x)
	if math.Abs(x) > 0.75 {
		p := w + 192
		half := bigPi(p)
		half.Quo(half, bigInt(p, 2))
		q := newBig(p).Quo(bigFloat(p, x), half)
		k, _ := q.Add(q, newBig(p).SetFloat64(math.Copysign(0.5, x))).Int(nil)
		r.SetPrec(p).Sub(bigFloat(p, x), half.Mul(half, newBig(p).SetInt(k)))
		r.SetPrec(w)
		n += new(big.Int).And(k, big.NewInt(3)).Int64()
	}
	var v *big.Float
	if n&1 == 0 {
		v = bigSin(r, w)
	} else {
		v = bigCos(r, w)
	}
	if n&2 != 0 {
		v.Neg(v)
	}
	return v
}

// bigCos returns the cosine of |t| < 0.8 by Taylor's series, whose sum is above 0.69:
// 1 bit.
func bigCos(t *big.Float, w uint) *big.Float {
	t2 := newBig(w).Mul(t, t)
	sum, term := bigInt(w, 1), bigInt(w, 1)
	for n := int64(1); !below(term, sum, w); n += 2 {
		term.Mul(term, t2)
		term.Quo(term, bigInt(w, -n*(n+1)))
		sum.Add(sum, term)
	}
	return sum
}
