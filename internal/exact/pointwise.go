package exact

import (
	"math"
	"math/big"
)

// The functions of this file are those of package pointwise: they take a finite x on
// the float32 grid, and parameters on it, and return the exact value rounded to odd.
// They work as those of elem.go do, without the step in between: what float64 leaves
// open, some 2^-25 of the elements in float32, goes to ziv at once.
//
// It ends for the same reason. For a rational t != 0, e^t is transcendental
// (Lindemann), and so is every value here that is an algebraic function of it which
// is not constant; ln t for t != 1, and sin, cos and tan of t likewise. ln(1 + e^t) is
// too: 1 + e^t = e^c with an algebraic c contradicts Lindemann and Weierstrass. Erf is
// by Siegel and Shidlovskii. Values that are float64 numbers for other reasons are
// recognised first; each function names its own.

// least and greatest stand for the values outside of float64's range, as in ziv.
const (
	least    = math.SmallestNonzeroFloat64
	greatest = math.MaxFloat64
)

// Exp returns e^x; 1 for x = 0.
func Exp(x float64) float64 {
	switch {
	case x == 0:
		return 1
	case x > 2000:
		return greatest
	case x < -2000:
		return least
	}
	return ziv(func(w uint) *big.Float { return bigExp(bigFloat(w, x), w) })
}

// Exp2 returns 2^x, a root of a power of 2: irrational, unless x is whole.
func Exp2(x float64) float64 {
	switch {
	case x > 2000:
		return greatest
	case x < -2000:
		return least
	case x == math.Floor(x):
		return math.Ldexp(1, int(x))
	}
	return ziv(func(w uint) *big.Float {
		t := newBig(w).Mul(bigLn2(w), bigFloat(w, x)) // 11 bits lost
		return bigExp(t, w)
	})
}

// Expm1 returns e^x - 1; x for x = 0. From -60 down it is -1 and less than 2^-86.
func Expm1(x float64) float64 { return scaledExpm1(x, 1, func(uint) *big.Float { return nil }) }

// ELU returns alpha scale (e^x - 1) for x <= 0.
func ELU(x, alpha, scale float64) float64 {
	c := float64(alpha * scale) // exact
	return scaledExpm1(x, c, func(uint) *big.Float { return nil })
}

// CELU returns alpha (e^(x/alpha) - 1) for x <= 0 and alpha > 0.
func CELU(x, alpha float64) float64 {
	return scaledExpm1(x, alpha, func(w uint) *big.Float { return bigFloat(w, alpha) })
}

// scaledExpm1 returns c (e^t - 1) for a float64 c with an even last bit; t is x, or
// x over what by returns.
func scaledExpm1(x, c float64, by func(w uint) *big.Float) float64 {
	arg := func(w uint) *big.Float {
		t := bigFloat(w, x)
		if d := by(w); d != nil {
			t.Quo(t, d)
		}
		return t
	}
	t, _ := arg(64).Float64()
	switch {
	case x == 0 || c == 0:
		return math.Copysign(0, c) * x
	case t > 2000:
		return math.Copysign(greatest, c)
	case t < -60:
		return math.Copysign(Beside(math.Abs(c), -1), -c)
	}
	return ziv(func(w uint) *big.Float {
		v := bigExpm1(arg(w), w)
		return v.Mul(v, bigFloat(w, c))
	})
}

// The constants of SELU (G. Klambauer and others, 2017), in units of 10^-31.
const (
	seluAlpha = "16732632423543772848170429916717"
	seluScale = "10507009873554804934193349852946"
)

// SELU returns scale alpha (e^x - 1) for x <= 0, scale x for x > 0, with the decimals
// of its authors. scale x is rational.
func SELU(x float64) float64 {
	scale, _ := new(big.Int).SetString(seluScale, 10)
	ten31 := new(big.Int).Exp(big.NewInt(10), big.NewInt(31), nil)
	if x >= 0 {
		v := new(big.Rat).SetFloat64(x)
		return Ratio(v.Mul(v, new(big.Rat).SetFrac(scale, ten31)))
	}
	alpha, _ := new(big.Int).SetString(seluAlpha, 10)
	c := new(big.Rat).SetFrac(alpha.Mul(alpha, scale), ten31.Mul(ten31, ten31))
	if x < -300 { // the constant alone: 62 digits, no float64, and e^-300 < 2^-400
		return Ratio(c.Neg(c))
	}
	return ziv(func(w uint) *big.Float {
		v := bigExpm1(bigFloat(w, x), w)
		return v.Mul(v, newBig(w).SetRat(c))
	})
}

// Log returns ln x for x > 0; 0 for x = 1.
func Log(x float64) float64 {
	if x == 1 {
		return 0
	}
	return ziv(func(w uint) *big.Float { return bigLog(bigFloat(w, x), w) })
}

// Log2 returns the logarithm of x > 0 to the base 2, which is rational for powers of 2
// only: 2^(p/q) is whole then.
func Log2(x float64) float64 {
	if m, e := math.Frexp(x); m == 0.5 {
		return float64(e - 1)
	}
	return ziv(func(w uint) *big.Float {
		v := bigLog(bigFloat(w, x), w)
		return v.Quo(v, bigLn2(w))
	})
}

// Log1p returns ln(1+x) for x > -1; x for x = 0.
func Log1p(x float64) float64 {
	if x == 0 {
		return x
	}
	return ziv(func(w uint) *big.Float { return bigLog1p(bigFloat(w, x), w) })
}

// Rsqrt returns 1/sqrt(x) for x > 0, by integers.
func Rsqrt(x float64) float64 {
	m, e := math.Frexp(x)
	return SqrtQuotient(big.NewInt(1), 53-e, big.NewInt(int64(m*0x1p53)))
}

// Sigmoid returns 1/(1 + e^-x). It is transcendental but for x = 0, where it is 1/2.
// From 60 on it is 1 less 2^-86 or less.
func Sigmoid(x float64) float64 {
	switch {
	case x == 0:
		return 0.5
	case x > 60:
		return Beside(1, -1)
	case x < -2000:
		return least
	}
	return ziv(func(w uint) *big.Float { return logistic(1, bigFloat(w, x), w) })
}

// Softplus returns ln(1 + e^t)/beta, t = beta x, for beta > 0: for t > 0 as
// x + ln(1 + e^-t)/beta. From t = 100 on that is x and less than 2^-140 of it.
func Softplus(x, beta float64) float64 {
	t := float64(beta * x) // exact
	switch {
	case t > 100:
		return Beside(x, 1)
	case t < -2000:
		return least
	}
	return ziv(func(w uint) *big.Float {
		v := bigLog1p(bigExp(bigFloat(w, -math.Abs(t)), w), w)
		if t > 0 {
			v.Add(v, bigFloat(w, t))
		}
		return v.Quo(v, bigFloat(w, beta))
	})
}

// Mish returns x tanh(ln(1 + e^x)) = x n/(n+2) with n = e^x (e^x + 2); x for x = 0.
// From 40 on it is less than x, by less than 2 e^-80 of it.
func Mish(x float64) float64 {
	switch {
	case x == 0:
		return x
	case x > 40:
		return Beside(x, -1)
	case x < -2000:
		return -least
	}
	return ziv(func(w uint) *big.Float {
		e := bigExp(bigFloat(w, x), w)
		n := newBig(w).Add(e, bigInt(w, 2))
		n.Mul(n, e)
		d := newBig(w).Add(n, bigInt(w, 2))
		return n.Mul(n.Quo(n, d), bigFloat(w, x))
	})
}

// Erf returns the error function; x for x = 0. From 7 on it is 1 less 2^-74 or less.
func Erf(x float64) float64 {
	switch a := math.Abs(x); {
	case x == 0:
		return x
	case a >= 7:
		return math.Copysign(Beside(1, -1), x)
	}
	return ziv(func(w uint) *big.Float { return bigErf(bigFloat(w, x), w) })
}

// Gate returns a/(1 + e^-b) for a != 0 and b != 0. a has an even last bit. It is
// transcendental, as e^-b is. For b > 64 it is less than 2^-92 of a below a.
func Gate(a, b float64) float64 {
	switch {
	case b > 64:
		return math.Copysign(Beside(math.Abs(a), -1), a)
	case b < -2000:
		return math.Copysign(least, a)
	}
	return ziv(func(w uint) *big.Float { return logistic(a, bigFloat(w, b), w) })
}

// Ratio returns r rounded to odd; it must be 0 or in float64's normal range.
func Ratio(r *big.Rat) float64 { return Quotient(r.Num(), 0, r.Denom()) }
