package exact

import (
	"math"
	"math/big"
	"sync"

	"github.com/refrun/refrun/internal/exact/double"
)

// The functions of this file take a finite x on the float32 grid and return
// the exact value rounded to odd. All work alike: close to zero and far out
// the value lies beside a simple number and the sign of what is missing
// decides; in between, a double-double evaluation (act.go) nearly always does. Where
// its error leaves the truncation to 53 bits open, ziv raises the precision of a
// math/big evaluation until that is certain.
//
// That ends, because the value is never itself a float64: e^x is
// transcendental for rational x != 0 (Lindemann), so tanh and SiLU are too; so
// is erf at algebraic arguments != 0 (Siegel, Shidlovskii), so GELU is. For
// GELUTanh no such theorem is known, as sqrt(2/pi) stands in the exponent; a
// value that were rational would show as a panic of ziv at 2^15 bits.

// GELU returns x/2 (1 + erf(x/sqrt 2)) rounded to odd.
//
// Near zero: GELU(x) - x/2 = (x/2) erf(x/sqrt 2) is positive and below
// x^2/sqrt(2 pi) < 0.8 |x| |x/2|, so for |x| < 2^-60 it is less than 2^-60 of
// x/2. From x = 10 on, x - GELU(x) = (x/2) erfc(x/sqrt 2) < x e^-50 < x 2^-72.
func GELU(x float64) float64 {
	if y, ok := beside(x, 0x1p-60, 10); ok {
		return y
	}
	if y, ok := odd(geluDouble(x), geluErr); ok {
		return y
	}
	return geluBig(x)
}

func geluBig(x float64) float64 {
	return ziv(func(w uint) *big.Float {
		t := bigFloat(w, x)
		t.Quo(t, newBig(w).Sqrt(bigInt(w, 2)))
		v := erfc(t.Neg(t), w)
		return v.Mul(v, bigFloat(w, x/2))
	})
}

// GELUTanh returns x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) rounded to
// odd, evaluated as x / (1 + e^-s) with s twice that argument of tanh.
//
// Near zero: GELUTanh(x) - x/2 = (x/2) tanh(s/2) is positive and below
// |x/2| |x| for |x| < 1. From x = 8 on, s > 49 and x - GELUTanh(x) < x e^-49.
func GELUTanh(x float64) float64 {
	if y, ok := beside(x, 0x1p-60, 8); ok {
		return y
	}
	if y, ok := odd(geluTanhDouble(x), geluTanhErr); ok {
		return y
	}
	return geluTanhBig(x)
}

func geluTanhBig(x float64) float64 {
	return ziv(func(w uint) *big.Float {
		// s = sqrt(8/pi) (x + 0.044715 x^3)
		s := bigFloat(w, x)
		s.Mul(s, s).Mul(s, bigInt(w, 44715)).Quo(s, bigInt(w, 1_000_000))
		s.Add(s, bigInt(w, 1)).Mul(s, bigFloat(w, x))
		c := newBig(w).Quo(bigInt(w, 8), bigPi(w))
		return logistic(x, s.Mul(s, c.Sqrt(c)), w)
	})
}

// SiLU returns x/(1 + e^-x) rounded to odd.
//
// Near zero: SiLU(x) = x/2 + x^2/4 - t, 0 < t < x^4/48. Here x/2 + x^2/4 may be a
// float64 number, so t decides. For |x| < 2^-24 it is smaller than anything else of
// the sum of two that is left over, a multiple of 2^-48 x^2: with x at least 2^e
// that is 2^(2e-48), and t < 2^(4e-1), where e < -24. From x = 40 on,
// x - SiLU(x) < x e^-40 < x 2^-57.
func SiLU(x float64) float64 {
	if y, ok := beside(x, 0, 40); ok {
		return y
	}
	if math.Abs(x) < 0x1p-24 {
		y := double.Sum(float64(x/2), float64(float64(x*x)/4))
		if y.Lo == 0 {
			y.Lo = -0x1p-300
		}
		odd, _ := y.Odd(0)
		return odd
	}
	if y, ok := odd(siluDouble(x), siluErr); ok {
		return y
	}
	return siluBig(x)
}

func siluBig(x float64) float64 {
	return ziv(func(w uint) *big.Float { return logistic(x, bigFloat(w, x), w) })
}

// Tanh returns the hyperbolic tangent rounded to odd.
//
// Near zero: 0 < (x - tanh x)/x < x^2/3, below 2^-55 for |x| < 2^-27. From
// |x| = 20 on, 1 - |tanh x| < 2 e^-40 < 2^-56.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case x == 0:
		return x
	case a < 0x1p-27:
		return math.Copysign(Beside(a, -1), x)
	case a >= 20:
		return math.Copysign(Beside(1, -1), x)
	}
	if y, ok := odd(tanhDouble(x), tanhErr); ok {
		return y
	}
	return tanhBig(x)
}

func tanhBig(x float64) float64 {
	return ziv(func(w uint) *big.Float {
		// tanh x = 1 - 2/(e^2x + 1) = (e^2x - 1)/(e^2x + 1); the numerator
		// cancels at most 27 bits, which the extra precision pays for.
		e := bigExp(bigFloat(w, 2*x), w+32)
		n := newBig(w+32).Sub(e, bigInt(w, 1))
		return n.Quo(n, e.Add(e, bigInt(w, 1)))
	})
}

// Sin2Pi returns sin(2 pi num/den) rounded to odd; den must be positive. The
// sine of a rational part of a turn is rational only as 0, +-1/2 and +-1
// (Niven), which come out exact, a zero as +0.
func Sin2Pi(num, den int64) float64 {
	if den <= 0 {
		panic("exact: denominator of an angle is not positive")
	}
	// Fold the angle a = num/den turns into the first quarter.
	a := big.NewRat(num%den, den)
	if a.Sign() < 0 {
		a.Add(a, big.NewRat(1, 1))
	}
	negative := a.Cmp(big.NewRat(1, 2)) >= 0
	if negative {
		a.Sub(a, big.NewRat(1, 2))
	}
	if a.Cmp(big.NewRat(1, 4)) > 0 {
		a.Sub(big.NewRat(1, 2), a)
	}
	var y float64
	switch {
	case a.Sign() == 0:
		return 0
	case a.Cmp(big.NewRat(1, 4)) == 0:
		y = 1
	case a.Cmp(big.NewRat(1, 12)) == 0:
		y = 0.5
	default:
		y = ziv(func(w uint) *big.Float {
			t := newBig(w).SetRat(a)
			t.Mul(t, bigPi(w))
			return bigSin(t.Add(t, t), w)
		})
	}
	if negative {
		return -y
	}
	return y
}

// odd returns y, known to a relative error of err, rounded to odd, or false if that
// is not certain.
func odd(y double.Num, err float64) (float64, bool) {
	return y.Odd(float64(err * math.Abs(y.Hi)))
}

// beside answers for GELU, GELUTanh and SiLU where the value is a simple
// number and a little more: below near in size (SiLU: never) it is x/2 plus something
// positive, from far on it is x minus something positive, each less than 2^-55
// of it. Below -1000 it is a negative number closer to zero than any float64:
// |x| e^-|x| < 2^-1080 bounds all three there.
func beside(x, near, far float64) (float64, bool) {
	switch {
	case x == 0:
		return x, true
	case math.Abs(x) < near:
		return Beside(x/2, 1), true
	case x >= far:
		return Beside(x, -1), true
	case x < -1000:
		return -math.SmallestNonzeroFloat64, true
	}
	return 0, false
}

// ziv returns the real number that value approximates, rounded to odd.
// value(w) works with about w bits; at most 2^-(w-64) of relative error may
// come of it. The number must not be a float64 itself. Below the normal range
// of float64 the least number of its sign stands for it, and beyond 2^1020 the
// greatest: every rounding of a normal result to any format of the project's is
// far from there.
func ziv(value func(w uint) *big.Float) float64 {
	for w := uint(192); w <= 1<<15; w *= 2 {
		v := value(w)
		if v.MantExp(nil) < -1021 {
			return math.Copysign(math.SmallestNonzeroFloat64, float64(v.Sign()))
		}
		if v.MantExp(nil) > 1020 {
			return math.Copysign(math.MaxFloat64, float64(v.Sign()))
		}
		err := newBig(w).SetMantExp(newBig(w).Abs(v), 64-int(w))
		lo := newBig(53).SetMode(big.ToZero).Sub(v, err)
		hi := newBig(53).SetMode(big.ToZero).Add(v, err)
		if lo.Cmp(hi) == 0 && lo.Acc() != big.Exact && hi.Acc() != big.Exact {
			y, _ := lo.Float64()
			return math.Float64frombits(math.Float64bits(y) | 1)
		}
	}
	panic("exact: the value seems to be a float64 number")
}

// The evaluations below work with w bits and rounding errors of 2^-w per
// operation. Each states how many bits it may lose; none loses more than 40,
// given arguments good to 2^-w relative, and ziv allows for 64.

func newBig(w uint) *big.Float { return new(big.Float).SetPrec(w) }

func bigInt(w uint, n int64) *big.Float { return newBig(w).SetInt64(n) }

// bigFloat has at least the 64 bits that hold v.
func bigFloat(w uint, v float64) *big.Float { return newBig(w).SetFloat64(v) }

// below reports whether |t| < 2^-w |s|.
func below(t, s *big.Float, w uint) bool {
	return t.Sign() == 0 || t.MantExp(nil) < s.MantExp(nil)-int(w)
}

// logistic returns x/(1 + e^-s).
func logistic(x float64, s *big.Float, w uint) *big.Float {
	e := bigExp(newBig(w).Neg(s), w)
	return e.Quo(bigFloat(w, x), e.Add(e, bigInt(w, 1)))
}

// bigExp returns e^x for |x| < 2^27, by e^x = 2^k e^r with r = x - k ln 2 in
// [-1/2, 1/2] and Taylor's series at r. A relative error of 2^-w in x gives
// 2^(27-w), 27 bits; k ln 2 carries 32 bits more, and the series has far fewer
// than 2^15 terms.
func bigExp(x *big.Float, w uint) *big.Float {
	ln2 := bigLn2(w + 32)
	q := newBig(64).Quo(x, ln2)
	f, _ := q.Float64()
	k := int64(math.RoundToEven(f))
	r := newBig(w+32).Mul(ln2, bigInt(64, k))
	r.Sub(newBig(w+32).Set(x), r)
	sum, term := bigInt(w, 1), bigInt(w, 1)
	for n := int64(1); !below(term, sum, w); n++ {
		term.Mul(term, r)
		term.Quo(term, bigInt(w, n))
		sum.Add(sum, term)
	}
	return sum.SetMantExp(sum, int(k))
}

// bigSin returns the sine of t in (0, pi/2] by Taylor's series. The terms
// alternate and their sum stays above 2t/pi while none exceeds t: 2 bits.
func bigSin(t *big.Float, w uint) *big.Float {
	t2 := newBig(w).Mul(t, t)
	sum, term := newBig(w).Set(t), newBig(w).Set(t)
	for n := int64(2); !below(term, sum, w); n += 2 {
		term.Mul(term, t2)
		term.Quo(term, bigInt(w, -n*(n+1)))
		sum.Add(sum, term)
	}
	return sum
}

// erfc returns 1 - erf t from the series of positive terms
//
//	erf t = 2/sqrt(pi) e^(-t^2) sum over n of 2^n t^(2n+1) / (1*3*5*...*(2n+1)),
//
// which loses no bits. The difference does: erfc t > e^(-t^2)/(4t+4) for
// t > 0, so up to 1.45 t^2 + log2(4t+4) bits, and the work is done with that
// many more. What remains is the condition of erfc itself, 2t^2+2 < 2^21 for
// the |t| < 1000 that come here.
func erfc(t *big.Float, w uint) *big.Float {
	f, _ := t.Float64()
	if f*f > 1100 && f > 0 {
		// Below 2^-1500: any value of that size serves.
		return newBig(w).SetMantExp(bigInt(w, 1), -1500)
	}
	p := w + 32
	if f > 0 {
		p += uint(1.5 * f * f)
	}
	return newBig(w).Sub(bigInt(p, 1), bigErf(t, p))
}

// bigErf returns erf t for |t| < 34, by the series above.
func bigErf(t *big.Float, w uint) *big.Float {
	t2 := newBig(w).Mul(t, t)
	sum, term := newBig(w).Set(t), newBig(w).Set(t)
	twice := newBig(w).Add(t2, t2)
	for n := int64(3); !below(term, sum, w); n += 2 {
		term.Mul(term, twice)
		term.Quo(term, bigInt(w, n))
		sum.Add(sum, term)
	}
	sum.Mul(sum, bigExp(t2.Neg(t2), w))
	sum.Add(sum, sum)
	return sum.Quo(sum, newBig(w).Sqrt(bigPi(w)))
}

// bigPi returns pi = 16 arctan(1/5) - 4 arctan(1/239) (Machin).
func bigPi(w uint) *big.Float {
	a := newBig(w).Mul(bigInt(w, 16), arctan(5, w, -1))
	return a.Sub(a, newBig(w).Mul(bigInt(w, 4), arctan(239, w, -1)))
}

// bigLn2 returns ln 2 = 18 artanh(1/26) - 2 artanh(1/4801) + 8 artanh(1/8749).
//
// It is kept for each precision, as an exponential takes two thirds of its time for it;
// nobody may write into it.
func bigLn2(w uint) *big.Float {
	if a, ok := ln2s.Load(w); ok {
		return a.(*big.Float)
	}
	a := newBig(w).Mul(bigInt(w, 18), arctan(26, w, 1))
	a.Sub(a, newBig(w).Mul(bigInt(w, 2), arctan(4801, w, 1)))
	a.Add(a, newBig(w).Mul(bigInt(w, 8), arctan(8749, w, 1)))
	ln2s.Store(w, a)
	return a
}

var ln2s sync.Map // *big.Float by precision

// arctan returns the sum of sign^n / ((2n+1) m^(2n+1)): the arctangent of 1/m
// for sign -1, the hyperbolic one for sign +1.
func arctan(m int64, w uint, sign int64) *big.Float {
	power := newBig(w).Quo(bigInt(w, 1), bigInt(w, m))
	sum := newBig(w).Set(power)
	square := bigInt(64, sign*m*m)
	for n := int64(3); ; n += 2 {
		power.Quo(power, square)
		term := newBig(w).Quo(power, bigInt(64, n))
		if below(term, sum, w) {
			return sum
		}
		sum.Add(sum, term)
	}
}
