package exact

import (
	"math"
	"math/big"
)

// Squares returns the exact sum of squares of finite numbers, rounded to odd.
func (m *Moments) Squares() float64 { return m.squares.Odd() }

// MeanRat returns the mean of finite numbers, at least one.
func (m *Moments) MeanRat() *big.Rat {
	r := m.sum.Rat()
	return r.Quo(r, big.NewRat(int64(m.n), 1))
}

// VarianceRat returns their biased variance, Q/n - mu^2.
func (m *Moments) VarianceRat() *big.Rat {
	r, mu := m.squares.Rat(), m.MeanRat()
	r.Quo(r, big.NewRat(int64(m.n), 1))
	return r.Sub(r, mu.Mul(mu, mu))
}

// InverseRoot returns 1/sqrt(V), V being their biased variance plus eps, rounded to odd; +Inf
// for 0.
func (m *Moments) InverseRoot(eps float64) float64 {
	v := m.VarianceRat()
	v.Add(v, new(big.Rat).SetFloat64(eps))
	if v.Sign() == 0 {
		return math.Inf(1)
	}
	return SqrtQuotient(v.Denom(), 0, v.Num())
}

// Blend returns share x + (1-share) y for finite numbers, rounded to odd.
func Blend(share, x float64, y *big.Rat) float64 {
	a, b := new(big.Rat).SetFloat64(share), new(big.Rat).SetFloat64(x)
	b.Mul(b, a)
	a.Sub(big.NewRat(1, 1), a)
	return ratio(b.Add(b, a.Mul(a, y)))
}

// ratio returns r rounded to odd; where it is too small for float64 the least number of its
// sign, which is odd.
func ratio(r *big.Rat) float64 {
	if f, _ := r.Float64(); math.Abs(f) < 0x1p-1000 && r.Sign() != 0 {
		return math.Copysign(least, float64(r.Sign()))
	}
	return Ratio(r)
}

// OverNorm returns x over the norm of a line of finite float32 numbers, not all of them 0,
// rounded to odd.
func OverNorm(x float64, line []float64, order int) float64 {
	var s Sum
	for _, v := range line {
		if order == 1 {
			s.Add(math.Abs(v))
		} else {
			s.Add(float64(v * v))
		}
	}
	if r := new(big.Rat).SetFloat64(x); order == 1 {
		return Ratio(r.Quo(r, s.Rat()))
	}
	r := new(big.Rat).SetFloat64(float64(x * x))
	r.Quo(r, s.Rat())
	return math.Copysign(SqrtQuotient(r.Num(), 0, r.Denom()), x)
}

// Rat returns a finite sum.
func (s *Sum) Rat() *big.Rat {
	m, exp := s.Int()
	r := new(big.Rat).SetInt(m)
	return r.Mul(r, new(big.Rat).SetFloat64(math.Ldexp(1, exp)))
}

// Log returns the logarithm of a finite sum, rounded to odd: NaN below 0, -Inf of 0. It is
// irrational but for the sum 1 (Lindemann), so that ziv ends.
func (s *Sum) Log() float64 {
	m, exp := s.Int()
	switch m.Sign() {
	case -1:
		return math.NaN()
	case 0:
		return math.Inf(-1)
	}
	x := new(big.Float).SetPrec(uint(max(64, m.BitLen()))).SetInt(m)
	x.SetMantExp(x, exp)
	if x.Cmp(big.NewFloat(1)) == 0 {
		return 0
	}
	return ziv(func(w uint) *big.Float { return bigLog(x, w) })
}

// Norm returns the root of order p of the sum of |x|^p for float32 numbers that are finite and
// not all 0, rounded to odd.
func Norm(line []float64, p int) float64 {
	const unit = 149 // numbers are whole ones over 2^unit
	sum, order := new(big.Int), big.NewInt(int64(p))
	for _, x := range line {
		fraction, e := math.Frexp(math.Abs(x))
		v := big.NewInt(int64(math.Ldexp(fraction, 24)))
		if e += unit - 24; e >= 0 {
			v.Lsh(v, uint(e))
		} else {
			v.Rsh(v, uint(-e)) // zeros, as of subnormal numbers
		}
		sum.Add(sum, v.Exp(v, order, nil))
	}
	more := max(0, 56-sum.BitLen()/p)
	sum.Lsh(sum, uint(p*more))
	r := root(sum, p)
	return oddInt(r, -unit-more, new(big.Int).Exp(r, order, nil).Cmp(sum) != 0)
}

// root returns the root of order p of a positive number, rounded down, by Newton's method: from
// above it comes down until it does not.
func root(v *big.Int, p int) *big.Int {
	x := new(big.Int).Lsh(big.NewInt(1), uint((v.BitLen()+p-1)/p))
	rest, order := big.NewInt(int64(p-1)), big.NewInt(int64(p))
	for {
		next := new(big.Int).Exp(x, rest, nil)
		next.Quo(v, next).Add(next, new(big.Int).Mul(rest, x)).Quo(next, order)
		if next.Cmp(x) >= 0 {
			return x
		}
		x = next
	}
}
