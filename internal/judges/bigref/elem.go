package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// The elementary functions below take any finite x and return a value of prec
// bits whose relative error is below 2^-prec. They work with at least 64 bits
// more than that, plus what the formula at hand cancels; every formula has far
// fewer than 2^40 operations, so the guard is generous.
//
// The formulas are on purpose not those of internal/exact: repeated squaring
// instead of a reduction by ln 2, continued fractions instead of positive
// series, the arithmetic-geometric mean instead of Machin's arctangents.

const guard = 64

func newF(w uint) *big.Float { return new(big.Float).SetPrec(w) }

func intF(w uint, n int64) *big.Float { return newF(w).SetInt64(n) }

// exponent returns e with 2^(e-1) <= |x| < 2^e, and 0 for x = 0.
func exponent(x *big.Float) int { return x.MantExp(nil) }

// negligible reports whether |t| < 2^-w |s|.
func negligible(t, s *big.Float, w uint) bool {
	return t.Sign() == 0 || exponent(t) < exponent(s)-int(w)
}

// Pi returns pi to prec bits, by the arithmetic-geometric mean of Gauss and
// Legendre.
func Pi(prec uint) *big.Float {
	w := prec + guard
	a, t, p := intF(w, 1), newF(w).SetFloat64(0.25), intF(w, 1)
	b := newF(w).Sqrt(newF(w).SetFloat64(0.5))
	for {
		d := newF(w).Sub(a, b)
		if negligible(d, a, w-8) {
			break
		}
		m := newF(w).Add(a, b)
		m.Quo(m, intF(w, 2))
		b.Sqrt(newF(w).Mul(a, b))
		d.Sub(a, m)
		t.Sub(t, d.Mul(d, d).Mul(d, p))
		a, p = m, newF(w).Add(p, p)
	}
	s := newF(w).Add(a, b)
	s.Mul(s, s)
	return s.Quo(s, t.Mul(t, intF(w, 4))).SetPrec(prec)
}

// Exp returns e^x: Taylor's series at x/2^s, squared s times.
func Exp(x *big.Float, prec uint) *big.Float {
	if x.Sign() == 0 {
		return intF(prec, 1)
	}
	s := max(0, exponent(x)+12)
	w := prec + guard + uint(s) // each squaring doubles the relative error
	r := newF(w).SetMantExp(newF(w).Set(x), -s)
	sum, term := intF(w, 1), intF(w, 1)
	for n := int64(1); !negligible(term, sum, w); n++ {
		term.Mul(term, r)
		term.Quo(term, intF(w, n))
		sum.Add(sum, term)
	}
	for range s {
		sum.Mul(sum, sum)
	}
	return sum.SetPrec(prec)
}

// Log returns the natural logarithm of a positive x by Halley's iteration on
// Exp, y += 2 (x - e^y) / (x + e^y), which triples the correct bits.
func Log(x *big.Float, prec uint) *big.Float {
	if x.Sign() <= 0 || x.IsInf() {
		panic("bigref: logarithm of a number that is not positive and finite")
	}
	d := new(big.Float).SetPrec(x.Prec()+guard).Sub(x, intF(64, 1))
	if d.Sign() == 0 {
		return newF(prec)
	}
	w := prec + guard + uint(max(0, -exponent(d)))
	mant := new(big.Float)
	e := x.MantExp(mant)
	m, _ := mant.Float64()
	y := newF(w).SetFloat64(math.Log(m) + float64(e)*math.Ln2)
	for {
		v := Exp(y, w)
		c := newF(w).Sub(x, v)
		c.Add(c, c)
		c.Quo(c, v.Add(v, x))
		y.Add(y, c)
		// The error left is of the order of c^3.
		if c.Sign() == 0 || 3*exponent(c) < -int(w)-8 {
			return y.SetPrec(prec)
		}
	}
}

// Erf returns the error function, by its alternating Taylor series for
// |x| <= 2 and from Erfc beyond.
func Erf(x *big.Float, prec uint) *big.Float {
	if x.Sign() == 0 {
		return newF(prec)
	}
	if a := newF(x.Prec()).Abs(x); a.Cmp(intF(8, 2)) > 0 {
		w := prec + guard
		v := newF(w).Sub(intF(w, 1), Erfc(a, w))
		if x.Signbit() {
			v.Neg(v)
		}
		return v.SetPrec(prec)
	}
	// The largest term is below e^4; the sum is at least 0.4 |x|.
	w := prec + guard
	x2 := newF(w).Mul(x, x)
	sum, power := newF(w).Set(x), newF(w).Set(x)
	for n := int64(1); ; n++ {
		power.Mul(power, x2)
		power.Quo(power, intF(w, -n))
		term := newF(w).Quo(power, intF(w, 2*n+1))
		if negligible(term, sum, w) {
			break
		}
		sum.Add(sum, term)
	}
	sum.Add(sum, sum)
	return sum.Quo(sum, newF(w).Sqrt(Pi(w))).SetPrec(prec)
}

// Erfc returns 1 - erf(x): as that difference for x < 2, and by Laplace's
// continued fraction
//
//	erfc(x) = e^(-x^2)/sqrt(pi) * 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + ...))))
//
// beyond, whose convergents lie on both sides of the value in turn.
func Erfc(x *big.Float, prec uint) *big.Float {
	w := prec + guard
	if x.Cmp(intF(8, 2)) < 0 {
		// erfc > 2^-8 here: the guard pays for the difference.
		return newF(w).Sub(intF(w, 1), Erf(x, w)).SetPrec(prec)
	}
	convergent := func(n int64) *big.Float {
		v := newF(w).Set(x)
		for k := n; k > 0; k-- {
			v.Quo(newF(w).SetFloat64(float64(k)/2), v)
			v.Add(v, x)
		}
		return v
	}
	for n := int64(64); ; n *= 2 {
		a, b := convergent(n), convergent(n+1)
		if d := newF(w).Sub(a, b); negligible(d, a, prec+guard/2) {
			x2 := newF(2*x.Prec()).Mul(x, x) // exact
			v := Exp(x2.Neg(x2), w)
			v.Quo(v, a)
			return v.Quo(v, newF(w).Sqrt(Pi(w))).SetPrec(prec)
		}
	}
}

// Tanh returns the hyperbolic tangent by Lambert's continued fraction
// x/(1 + x^2/(3 + x^2/(5 + ...))). Its time grows with |x|, so it panics
// beyond 2^12.
func Tanh(x *big.Float, prec uint) *big.Float {
	if exponent(x) > 12 {
		panic("bigref: tanh of a large number")
	}
	w := prec + guard
	x2 := newF(w).Mul(x, x)
	convergent := func(n int64) *big.Float {
		v := intF(w, 2*n+1)
		for k := n - 1; k >= 0; k-- {
			v.Quo(x2, v)
			v.Add(v, intF(w, 2*k+1))
		}
		return v
	}
	a := convergent(16)
	for n := int64(32); ; n *= 2 {
		b := convergent(n)
		if d := newF(w).Sub(a, b); negligible(d, b, prec+guard/2) {
			return b.Quo(newF(w).Set(x), b).SetPrec(prec)
		}
		a = b
	}
}

// Sin returns the sine by Taylor's series after a reduction to [-pi, pi].
// Its relative error holds as long as |sin x| > 2^-120.
func Sin(x *big.Float, prec uint) *big.Float {
	if x.Sign() == 0 {
		return newF(prec)
	}
	w := prec + 3*guard + uint(max(0, exponent(x)))
	r, turn := newF(w).Set(x), Pi(w)
	turn.Add(turn, turn)
	n := newF(w).Quo(r, turn)
	half := newF(w).SetFloat64(0.5)
	if n.Signbit() {
		half.Neg(half)
	}
	whole, _ := n.Add(n, half).Int(nil)
	r.Sub(r, turn.Mul(turn, newF(w).SetInt(whole)))
	r2 := newF(w).Mul(r, r)
	sum, term := newF(w).Set(r), newF(w).Set(r)
	for k := int64(2); !negligible(term, r, 2*w); k += 2 {
		term.Mul(term, r2)
		term.Quo(term, intF(w, -k*(k+1)))
		sum.Add(sum, term)
	}
	return sum.SetPrec(prec)
}

// Cos returns the cosine, as Sin of x + pi/2.
func Cos(x *big.Float, prec uint) *big.Float {
	w := prec + 3*guard + uint(max(0, exponent(x)))
	q := Pi(w)
	return Sin(q.Quo(q, intF(w, 2)).Add(q, x), prec)
}

// Atan returns the arctangent, by Euler's series of positive terms
//
//	x/(1+x^2) sum over n of (2/3) (4/5) ... (2n/(2n+1)) (x^2/(1+x^2))^n
//
// for |x| <= 1, and as pi/2 less that of 1/x beyond.
func Atan(x *big.Float, prec uint) *big.Float {
	if x.Sign() == 0 {
		return newF(prec)
	}
	w := prec + guard
	if a := newF(w).Abs(x); a.Cmp(intF(8, 1)) > 0 {
		v := Pi(w)
		v.Quo(v, intF(w, 2)).Sub(v, Atan(newF(w).Quo(intF(w, 1), a), w))
		if x.Signbit() {
			v.Neg(v)
		}
		return v.SetPrec(prec)
	}
	x2 := newF(w).Mul(x, x)
	d := newF(w).Add(x2, intF(w, 1))
	x2.Quo(x2, d)
	sum := newF(w).Quo(newF(w).Set(x), d)
	term := newF(w).Set(sum)
	for n := int64(2); !negligible(term, sum, w); n += 2 {
		term.Mul(term, x2)
		term.Mul(term, intF(w, n))
		term.Quo(term, intF(w, n+1))
		sum.Add(sum, term)
	}
	return sum.SetPrec(prec)
}

// Nearest returns the number of format f nearest to the real number that
// value approximates: value(prec) must have a relative error below 2^-prec.
// The precision rises until both ends of the interval round alike, so the
// real number must not be the middle of two neighbours.
func Nearest(f fp16.Format, value func(prec uint) *big.Float) float64 {
	for prec := uint(96); prec < 1<<15; prec *= 2 {
		v, _ := value(prec).Rat(nil)
		err := new(big.Rat).Mul(v, pow2(1-int(prec)))
		lo := Round(new(big.Rat).Sub(v, err), f)
		hi := Round(new(big.Rat).Add(v, err), f)
		if math.Float64bits(lo) == math.Float64bits(hi) {
			return lo
		}
	}
	panic("bigref: the value seems to be the middle of two numbers")
}

// GELU returns x/2 (1 + erf(x/sqrt 2)) rounded to f, for a finite float64 x.
// |GELU(x)| < 2^-1080 for x < -40, x - GELU(x) < 2^-100 x for x > 12.
func GELU(x float64, f fp16.Format) float64 {
	if y, ok := tail(x, 40, 12, f); ok {
		return y
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + guard
		t := newF(w + 2*guard).SetFloat64(-x)
		t.Quo(t, newF(w+2*guard).Sqrt(intF(w+2*guard, 2)))
		v := Erfc(t, w)
		return v.Mul(v, newF(w).SetFloat64(x/2)).SetPrec(prec)
	})
}

// GELUTanh returns x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) rounded to
// f, for a finite float64 x. The tails are smaller than those of GELU: at -22 the factor is
// below 2 e^-794 = 2^-1145.
func GELUTanh(x float64, f fp16.Format) float64 {
	if y, ok := tail(x, 22, 12, f); ok {
		return y
	}
	return Nearest(f, func(prec uint) *big.Float {
		c, _ := new(big.Rat).SetString("0.044715")
		q := Rat(x)
		q.Mul(q, q).Mul(q, c).Add(q, big.NewRat(1, 1)).Mul(q, Rat(x))
		approx, _ := q.Float64()
		w := prec + 2*guard + uint(3*max(0, -approx)) // 1 + tanh z >= 2^(2.4 q)
		z := newF(w).Sqrt(newF(w).Quo(intF(w, 2), Pi(w)))
		z.Mul(z, newF(w).SetRat(q))
		v := newF(w).Add(intF(w, 1), Tanh(z, w))
		return v.Mul(v, newF(w).SetFloat64(x/2)).SetPrec(prec)
	})
}

// SiLU returns x/(1 + e^-x) rounded to f, for a finite float64 x. It is below
// 2^-1080 in size for x < -800, and x - SiLU(x) < 2^-70 x for x > 50.
func SiLU(x float64, f fp16.Format) float64 {
	if y, ok := tail(x, 800, 50, f); ok {
		return y
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + guard
		e := Exp(newF(w).SetFloat64(-x), w)
		return e.Quo(newF(w).SetFloat64(x), e.Add(e, intF(w, 1))).SetPrec(prec)
	})
}

// RoundTanh returns tanh x rounded to f, for a finite float64 x.
func RoundTanh(x float64, f fp16.Format) float64 {
	if math.Abs(x) > 50 { // 1 - |tanh x| < 2^-140
		x = math.Copysign(50, x)
	}
	if x == 0 {
		return x
	}
	return Nearest(f, func(prec uint) *big.Float { return Tanh(newF(64).SetFloat64(x), prec) })
}

// tail answers for an activation at 0, below -neg, where it is negative and
// above -2^-1080, and above pos, where it lies below x by less than 2^-60 x:
// no middle of two numbers of a format lies in between, as x is a float64.
func tail(x, neg, pos float64, f fp16.Format) (float64, bool) {
	switch {
	case x == 0:
		return x, true
	case x < -neg:
		return math.Copysign(0, -1), true
	case x > pos:
		return Round(new(big.Rat).Sub(Rat(x), pow2(-1080)), f), true
	}
	return 0, false
}
