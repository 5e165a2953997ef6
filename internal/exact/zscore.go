package exact

import (
	"math"
	"math/big"
)

// ZScore decides the roundings of (x-mu)/(sigma+eps), where mu is the exact
// mean of the numbers that m has seen and sigma the square root of their exact
// variance with the divisor n-1.
type ZScore struct {
	// MuHi is the float64 nearest to mu and MuLo the one nearest to mu-MuHi;
	// Divisor is sigma+eps to a relative error of 2^-51. MuHi and Divisor are
	// NaN if there are fewer than two numbers or one is not finite.
	MuHi, MuLo, Divisor float64

	eps float64
	// n, the sum S, n(n-1) and v = nQ - S^2 without error; n (sigma+eps) to
	// 128 bits. All nil if there is no score.
	n, sum, pairs, v, divisor *big.Float
}

// ZScore returns the scores of the numbers seen. eps must not be negative.
func (m *Moments) ZScore(eps float64) *ZScore {
	z := &ZScore{MuHi: math.NaN(), Divisor: math.NaN(), eps: eps}
	if m.n < 2 || !m.squares.Finite() {
		return z
	}
	s := m.Standard(0)
	n := float64(m.n)
	z.MuHi, z.MuLo = s.MuHi, s.MuLo
	// V*n/(n-1) carries three roundings, its root half of them and one more,
	// the sum another: below 4 * 2^-53.
	z.Divisor = math.Sqrt(float64(s.V*n)/(n-1)) + eps

	z.n, z.sum = s.n, s.sum
	z.pairs = wide().Mul(z.n, wideOf(n-1))
	z.v = s.v // of which no eps is part
	z.divisor = narrow().Quo(z.v, z.pairs)
	z.divisor.Sqrt(z.divisor)
	z.divisor.Add(z.divisor, wideOf(eps))
	z.divisor.Mul(z.divisor, z.n)
	return z
}

// Settle returns the score of x, a float32 number, rounded to odd; NaN if
// there is none. With S the sum, Q the sum of squares and v = nQ - S^2,
//
//	sign of score - g  =  sign of a - b sqrt(v/(n(n-1))),
//	a = (n x - S) - n g eps,   b = n g,
//
// which is the sign of a or -b, or else that of a^2 n(n-1) - b^2 v, taken
// without error.
func (z *ZScore) Settle(x float64) float64 {
	if z.n == nil || !finite(x) {
		return (x - z.MuHi) / z.Divisor
	}
	d := wide().Mul(z.n, wideOf(x))
	d.Sub(d, z.sum)
	if d.Sign() == 0 {
		return 0 // also where all numbers are equal and eps is 0
	}
	compare := func(g float64) int {
		b := wide().Mul(z.n, wideOf(g))
		a := wide().Sub(d, wide().Mul(b, wideOf(z.eps)))
		if s := a.Sign(); s != b.Sign() {
			// a and -b agree, or one is zero.
			if s != 0 {
				return s
			}
			return -b.Sign()
		} else {
			left := wide().Mul(a, a)
			left.Mul(left, z.pairs)
			right := wide().Mul(b, b)
			right.Mul(right, z.v)
			return s * left.Cmp(right)
		}
	}
	// No cancellation in the divisor: 128 bits give g to far below an ulp, so
	// the score is g or lies between g and the next float64 on its side. One
	// of the two has an odd last bit.
	g, _ := narrow().Quo(d, z.divisor).Float64()
	side := compare(g)
	if side == 0 || math.Float64bits(g)&1 == 1 {
		return g
	}
	return math.Nextafter(g, math.Inf(side))
}
