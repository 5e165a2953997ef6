package bigref

import (
	"fmt"
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// The judge of package pointwise, for finite arguments. A function is a rational
// number, judged by fractions, or a real one that Nearest rounds. Where it lies so
// close to a number of few bits that no precision would tell, a difference of 2^-1080
// stands for the true one.

// Unary returns the function of that name at x, with the parameters in p by name,
// rounded to f. zero is what an exact result of 0 is returned as. It panics for an
// unknown name, and outside of the function's domain.
func Unary(name string, x float64, p map[string]float64, f fp16.Format) float64 {
	q := Rat(x)
	one, three, six := big.NewRat(1, 1), big.NewRat(3, 1), big.NewRat(6, 1)
	ratio := func(r *big.Rat, zero float64) float64 {
		if r.Sign() == 0 {
			return zero
		}
		return Round(r, f)
	}
	at := func(v func(x *big.Float, prec uint) *big.Float) float64 {
		return Nearest(f, func(prec uint) *big.Float { return v(newF(64).SetFloat64(x), prec) })
	}
	switch name {
	case "exp":
		return exponential(q, f)
	case "exp2":
		if q.IsInt() {
			return Round(pow2(int(math.Max(-1200, math.Min(x, 1200)))), f)
		}
		if x < -1200 {
			return Round(pow2(-1080), f)
		}
		return at(func(x *big.Float, prec uint) *big.Float {
			w := prec + guard
			t := Log(intF(w, 2), w)
			return Exp(t.Mul(t, x), prec)
		})
	case "expm1":
		return scaledExpm1(q, one, x, f)
	case "log":
		return logarithm(q, f)
	case "log2":
		if r, ok := exactLog2(x); ok {
			return ratio(r, 0)
		}
		return at(func(x *big.Float, prec uint) *big.Float {
			v := Log(x, prec+guard)
			return v.Quo(v, Log(intF(prec, 2), prec+guard))
		})
	case "log10":
		for k := range 23 {
			if x == math.Pow10(k) {
				return Round(big.NewRat(int64(k), 1), f)
			}
		}
		return at(func(x *big.Float, prec uint) *big.Float {
			v := Log(x, prec+guard)
			return v.Quo(v, Log(intF(prec, 10), prec+guard))
		})
	case "sinh", "asinh", "asin":
		if x == 0 {
			return x
		}
		if math.Abs(x) > 1000 && name == "sinh" {
			return Round(new(big.Rat).Mul(pow2(1200), big.NewRat(int64(math.Copysign(1, x)), 1)), f)
		}
		return at(map[string]func(*big.Float, uint) *big.Float{"sinh": sinh, "asinh": asinh, "asin": asin}[name])
	case "cosh":
		switch a := math.Abs(x); {
		case a == 0:
			return 1
		case a < 0x1p-40:
			return Round(aside(one, 1), f)
		case a > 1000:
			return Round(pow2(1200), f)
		}
		return at(cosh)
	case "acosh", "acos":
		if x == 1 {
			return 0
		}
		return at(map[string]func(*big.Float, uint) *big.Float{"acosh": acosh, "acos": acos}[name])
	case "erfc":
		switch {
		case x == 0:
			return 1
		case x < -50:
			return Round(aside(big.NewRat(2, 1), -1), f)
		case x > 50:
			return Round(pow2(-1080), f)
		}
		return at(Erfc)
	case "log1p":
		if x == 0 {
			return x
		}
		return logarithm(q.Add(q, one), f)
	case "sqrt":
		return root(q, x, f)
	case "rsqrt":
		return root(q.Inv(q), x, f)
	case "reciprocal":
		return Round(q.Inv(q), f)
	case "square":
		return ratio(q.Mul(q, q), 0)
	case "sin", "tan", "atan", "erf":
		if x == 0 {
			return x
		}
		if math.Abs(x) > 50 && name == "erf" {
			return Round(aside(big.NewRat(int64(math.Copysign(1, x)), 1), -1), f)
		}
		return at(map[string]func(*big.Float, uint) *big.Float{"sin": Sin, "tan": tan, "atan": Atan, "erf": Erf}[name])
	case "cos":
		if x == 0 {
			return 1
		}
		return at(Cos)
	case "sigmoid":
		return sigmoid(q, f)
	case "softplus":
		return softplus(q, Rat(p["beta"]), p["threshold"], f)
	case "elu":
		if x > 0 {
			return ratio(q.Mul(q, Rat(p["scale"])), math.Copysign(0, p["scale"]))
		}
		return scaledExpm1(q, new(big.Rat).Mul(Rat(p["alpha"]), Rat(p["scale"])), x, f)
	case "celu":
		if x > 0 {
			return Round(q, f)
		}
		return scaledExpm1(q.Quo(q, Rat(p["alpha"])), Rat(p["alpha"]), x, f)
	case "selu":
		c, _ := new(big.Rat).SetString("1.0507009873554804934193349852946")
		if x > 0 {
			return Round(q.Mul(q, c), f)
		}
		alpha, _ := new(big.Rat).SetString("1.6732632423543772848170429916717")
		return scaledExpm1(q, c.Mul(c, alpha), x, f)
	case "leaky_relu":
		if x > 0 {
			return Round(q, f)
		}
		s := p["negative_slope"]
		return ratio(q.Mul(q, Rat(s)), math.Copysign(0, math.Copysign(1, s)*math.Copysign(1, x)))
	case "softshrink": // x less what lies within both ends
		s := Rat(p["lambd"])
		switch {
		case q.Cmp(s) > 0:
			q.Sub(q, s)
		case q.Cmp(new(big.Rat).Neg(s)) < 0:
			q.Add(q, s)
		default:
			q.SetInt64(0)
		}
		return ratio(q, math.Copysign(0, x))
	case "hardsigmoid":
		q.Add(q, three)
		return ratio(within(q, new(big.Rat), six).Quo(within(q, new(big.Rat), six), six), 0)
	case "hard_sigmoid":
		q.Mul(q, Rat(p["alpha"])).Add(q, Rat(p["beta"]))
		return ratio(within(q, new(big.Rat), one), 0)
	case "hardswish":
		s := within(new(big.Rat).Add(q, three), new(big.Rat), six)
		return ratio(s.Mul(s, q).Quo(s, six), math.Copysign(0, x))
	case "softsign":
		return ratio(new(big.Rat).Quo(q, new(big.Rat).Add(one, new(big.Rat).Abs(q))), x)
	case "swish":
		return swish(q, Rat(p["alpha"]), x, f)
	case "mish":
		return mish(q, x, f)
	}
	panic(fmt.Sprintf("bigref: unknown function %q", name))
}

// aside returns r and 2^-1080 more, away from zero for +1, towards it for -1.
func aside(r *big.Rat, sign int) *big.Rat {
	d := pow2(-1080)
	if sign*r.Sign() < 0 {
		d.Neg(d)
	}
	return new(big.Rat).Add(r, d)
}

func within(r, lo, hi *big.Rat) *big.Rat {
	switch {
	case r.Cmp(lo) < 0:
		r = lo
	case r.Cmp(hi) > 0:
		r = hi
	}
	return new(big.Rat).Set(r)
}

// wide returns r to 2^-(prec+guard) of it.
func wide(r *big.Rat, prec uint) *big.Float { return newF(prec + 2*guard).SetRat(r) }

func exponential(q *big.Rat, f fp16.Format) float64 {
	x, _ := q.Float64()
	switch {
	case q.Sign() == 0:
		return 1
	case x > 1000:
		return Round(pow2(1200), f)
	case x < -1000:
		return Round(pow2(-1080), f)
	}
	return Nearest(f, func(prec uint) *big.Float { return Exp(wide(q, prec), prec) })
}

func logarithm(q *big.Rat, f fp16.Format) float64 {
	if q.Cmp(big.NewRat(1, 1)) == 0 {
		return 0
	}
	w := uint(q.Num().BitLen()+q.Denom().BitLen()) + guard // q is exact with so many
	return Nearest(f, func(prec uint) *big.Float { return Log(newF(w).SetRat(q), prec) })
}

// exactLog2 returns the logarithm of a power of 2.
func exactLog2(x float64) (*big.Rat, bool) {
	for e := -1074; e < 1024; e++ {
		if math.Ldexp(1, e) == x {
			return big.NewRat(int64(e), 1), true
		}
	}
	return nil, false
}

// root returns the square root of q >= 0: of all numbers k/2^n the greatest whose
// square is not above q, and something more if it is below.
func root(q *big.Rat, zero float64, f fp16.Format) float64 {
	if q.Sign() == 0 {
		return zero
	}
	const n = 400
	s := new(big.Int).Lsh(q.Num(), 2*n)
	s.Quo(s, q.Denom())
	s.Sqrt(s)
	r := new(big.Rat).SetFrac(s, new(big.Int).Lsh(big.NewInt(1), n))
	if new(big.Rat).Mul(r, r).Cmp(q) != 0 {
		r = aside(r, 1)
	}
	return Round(r, f)
}

func tan(x *big.Float, prec uint) *big.Float {
	v := Sin(x, prec+guard)
	return v.Quo(v, Cos(x, prec+guard)).SetPrec(prec)
}

// scaledExpm1 returns c (e^q - 1); for a product of 0 that of c and x.
func scaledExpm1(q, c *big.Rat, x float64, f fp16.Format) float64 {
	at, _ := q.Float64()
	switch {
	case q.Sign() == 0 || c.Sign() == 0:
		s, _ := c.Float64()
		return math.Copysign(0, math.Copysign(1, s)*math.Copysign(1, x))
	case at > 1000:
		return Round(new(big.Rat).Mul(c, pow2(1400)), f)
	case at < -1000:
		return Round(aside(new(big.Rat).Neg(c), -1), f)
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + 2*guard
		if e := math.Abs(at); e < 1 {
			w += uint(-math.Log2(e)) + 1 // what the difference cancels
		}
		v := Exp(newF(w).SetRat(q), w)
		v.Sub(v, intF(w, 1))
		return v.Mul(v, wide(c, prec)).SetPrec(prec)
	})
}

// sigmoid is (1 + tanh(x/2))/2 for x > -1, e^x/(1 + e^x) below.
func sigmoid(q *big.Rat, f fp16.Format) float64 {
	x, _ := q.Float64()
	switch {
	case q.Sign() == 0:
		return 0.5
	case x > 100:
		return Round(aside(big.NewRat(1, 1), -1), f)
	case x < -1000:
		return Round(pow2(-1080), f)
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + guard
		if x > -1 {
			v := wide(q, prec)
			v.Quo(v, intF(w, 2))
			v = Tanh(v, w)
			return v.Quo(v.Add(v, intF(w, 1)), intF(w, 2)).SetPrec(prec)
		}
		e := Exp(wide(q, prec), w)
		return e.Quo(e, newF(w).Add(e, intF(w, 1))).SetPrec(prec)
	})
}

// softplus is ln(1 + e^(beta x))/beta, with 1 + e^t as it is.
func softplus(q, beta *big.Rat, threshold float64, f fp16.Format) float64 {
	t := new(big.Rat).Mul(beta, q)
	x, _ := t.Float64()
	switch {
	case !math.IsInf(threshold, 0) && t.Cmp(Rat(threshold)) > 0, math.IsInf(threshold, -1):
		return Round(q, f)
	case x > 1000:
		return Round(aside(q, 1), f)
	case x < -1000:
		return Round(pow2(-1080), f)
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + 2*guard + uint(2*math.Abs(x)) // 1 + e^t loses that many bits of e^t
		e := Exp(newF(w).SetRat(t), w)
		v := Log(newF(w).Add(e, intF(w, 1)), prec+guard)
		return v.Quo(v, wide(beta, prec)).SetPrec(prec)
	})
}

// swish is x/2 (1 + tanh(t/2)), t = alpha x. From t = 64 on it is within 2^-92 of x, nearer than any middle of
// two numbers that is not x itself.
func swish(q, alpha *big.Rat, zero float64, f fp16.Format) float64 {
	t := new(big.Rat).Mul(alpha, q)
	half := new(big.Rat).Mul(q, big.NewRat(1, 2))
	switch v, _ := t.Float64(); {
	case q.Sign() == 0:
		return zero
	case t.Sign() == 0:
		return Round(half, f)
	case v > 64:
		return Round(aside(q, -1), f)
	case v < -1000:
		return Round(new(big.Rat).Mul(big.NewRat(int64(q.Sign()), 1), pow2(-1080)), f)
	}
	t.Mul(t, big.NewRat(1, 2))
	return Nearest(f, func(prec uint) *big.Float {
		v, _ := t.Float64()
		w := prec + 2*guard + uint(4*math.Abs(v)) // 1 + tanh loses twice that, and more bits
		h := Tanh(newF(w).SetRat(t), w)
		h.Add(h, intF(w, 1))
		return h.Mul(h, newF(w).SetRat(half)).SetPrec(prec)
	})
}

// mish is x tanh(ln(1 + e^x)).
func mish(q *big.Rat, zero float64, f fp16.Format) float64 {
	x, _ := q.Float64()
	switch {
	case q.Sign() == 0:
		return zero
	case x > 100:
		return Round(aside(q, -1), f)
	case x < -1000:
		return Round(new(big.Rat).Neg(pow2(-1080)), f)
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + 2*guard + uint(2*math.Abs(x))
		e := Exp(newF(w).SetRat(q), w)
		v := Tanh(Log(e.Add(e, intF(w, 1)), prec+2*guard), prec+guard)
		return v.Mul(v, wide(q, prec)).SetPrec(prec)
	})
}

// Power returns x^y for a finite x > 0 and a finite y, rounded to f. It is rational if
// and only if x has as many square roots as y has bits behind the point; then it is
// judged as a fraction, unless that has more than 4000 bits: as odd numbers of so many
// bits, or quotients by them, none is the middle of two numbers.
func Power(x, y float64, f fp16.Format) float64 {
	a, b := Rat(x), Rat(y)
	for !b.IsInt() {
		n, d := new(big.Int).Sqrt(a.Num()), new(big.Int).Sqrt(a.Denom())
		r := new(big.Rat).SetFrac(n, d)
		if new(big.Rat).Mul(r, r).Cmp(a) != 0 || a.Cmp(big.NewRat(1, 1)) == 0 {
			break
		}
		a, b = r, b.Add(b, b)
	}
	e, _ := b.Float64()
	bits := float64(a.Num().BitLen() + a.Denom().BitLen())
	switch {
	case y == 0 || x == 1:
		return 1
	case b.IsInt() && math.Abs(e)*bits < 4000:
		n := new(big.Int).Abs(b.Num())
		r := new(big.Rat).SetFrac(new(big.Int).Exp(a.Num(), n, nil), new(big.Int).Exp(a.Denom(), n, nil))
		if e < 0 {
			r.Inv(r)
		}
		return Round(r, f)
	}
	switch size := y * math.Log(x); {
	case size > 1000:
		return Round(pow2(1200), f)
	case size < -1000:
		return Round(pow2(-1080), f)
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + guard
		t := Log(newF(64).SetFloat64(x), w)
		return Exp(t.Mul(t, newF(64).SetFloat64(y)), prec)
	})
}

// Angle returns the angle of the point (x, y), finite numbers, rounded to f. For y = 0
// and x > 0 it is y.
func Angle(y, x float64, f fp16.Format) float64 {
	if y == 0 && !math.Signbit(x) {
		return y
	}
	return Nearest(f, func(prec uint) *big.Float {
		w := prec + guard
		v := newF(w)
		switch {
		case x == 0 && y != 0:
			v.Quo(Pi(w), intF(w, 2))
		case y != 0:
			v = Atan(v.Quo(newF(64).SetFloat64(math.Abs(y)), newF(64).SetFloat64(math.Abs(x))), w)
		}
		if math.Signbit(x) && (x != 0 || y == 0) {
			v.Sub(Pi(w), v)
		}
		if math.Signbit(y) {
			v.Neg(v)
		}
		return v.SetPrec(prec)
	})
}
