package exact

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// ZScore decides the roundings of (x-mu)/(sigma+eps), where mu is the exact
// mean of the numbers that m has seen and sigma the square root of their exact
// variance with the divisor n-1, or n less another correction.
type ZScore struct {
	// Mean is mu, but for 2^-103 of itself; Divisor is sigma+eps to a relative
	// error of 2^-51. They are NaN if there are no more numbers than the
	// correction or one is not finite.
	Mean    double.Num
	Divisor float64

	m     *Moments // nil if there is no score
	eps   float64
	over  float64    // n less the correction
	scale double.Num // n (sigma+eps); NaN if it is not known
}

// ZScore returns the scores of the numbers seen, which it keeps. eps must not be
// negative.
//
// With A = nQ - S^2 from Spread, sigma is sqrt(A/(n(n-1))), or with another correction: in units of 2^-106, 4 for
// A and 15 for the quotient count half, 8 for the root, 2 for the sum, 2 for the
// product with n: scale is off by 22.
func (m *Moments) ZScore(eps float64) ZScore { return m.Scores(eps, 1) }

// Scores is ZScore with another correction, not negative, than 1.
func (m *Moments) Scores(eps float64, correction int) ZScore {
	nan := math.NaN()
	z := ZScore{Mean: double.Num{Hi: nan, Lo: nan}, Divisor: nan, eps: eps, scale: double.Num{Hi: nan, Lo: nan}}
	if m.n <= correction || !m.squares.Finite() {
		return z
	}
	n := float64(m.n)
	z.m, z.Mean, z.over = m, m.Mean(), float64(m.n-correction)
	if a, ok := m.Spread(0); ok {
		var sigma double.Num
		if a.Hi > 0 {
			sigma = a.Over(double.Product(n, z.over)).Root()
		}
		z.scale = sigma.Add(eps).Scaled(n)
		z.Divisor = z.scale.Hi / n
	} else {
		// V*n/over carries three roundings, its root half of them and one more,
		// the sum another: below 4 * 2^-53.
		z.Divisor = math.Sqrt(float64(m.Standard(0).V*n)/z.over) + eps
	}
	return z
}

// Settle returns the score of x, a float32 number, rounded to odd; NaN if
// there is none. Nearly always double-double arithmetic decides: n x - S, off by 4,
// over the scale, 22, with 15 for the quotient. Otherwise math/big does.
func (z ZScore) Settle(x float64) float64 {
	if z.m == nil || !finite(x) {
		return (x - z.Mean.Hi) / z.Divisor
	}
	d := z.m.Above(x)
	if d.Hi == 0 {
		return 0 // also where all numbers are equal and eps is 0
	}
	y := d.Over(z.scale)
	if odd, ok := y.Odd(float64(0x1p-100 * math.Abs(y.Hi))); ok {
		return odd
	}
	return z.m.score(x, z.eps, z.over)
}

// score is Settle without error. With S the sum, Q the sum of squares and
// v = nQ - S^2,
//
//	sign of score - g  =  sign of a - b sqrt(v/(n over)),
//	a = (n x - S) - n g eps,   b = n g,
//
// which is the sign of a or -b, or else that of a^2 n over - b^2 v, taken
// without error.
func (m *Moments) score(x, eps, over float64) float64 {
	s := m.Standard(0) // of whose v no eps is part
	pairs := wide().Mul(s.n, wideOf(over))
	divisor := narrow().Quo(s.v, pairs) // n (sigma+eps) to 128 bits
	divisor.Sqrt(divisor)
	divisor.Add(divisor, wideOf(eps))
	divisor.Mul(divisor, s.n)
	d := wide().Mul(s.n, wideOf(x))
	d.Sub(d, s.sum)
	compare := func(g float64) int {
		b := wide().Mul(s.n, wideOf(g))
		a := wide().Sub(d, wide().Mul(b, wideOf(eps)))
		if sign := a.Sign(); sign != b.Sign() {
			// a and -b agree, or one is zero.
			if sign != 0 {
				return sign
			}
			return -b.Sign()
		} else {
			left := wide().Mul(a, a)
			left.Mul(left, pairs)
			right := wide().Mul(b, b)
			right.Mul(right, s.v)
			return sign * left.Cmp(right)
		}
	}
	// No cancellation in the divisor: 128 bits give g to far below an ulp, so
	// the score is g or lies between g and the next float64 on its side. One
	// of the two has an odd last bit.
	g, _ := narrow().Quo(d, divisor).Float64()
	side := compare(g)
	if side == 0 || math.Float64bits(g)&1 == 1 {
		return g
	}
	return math.Nextafter(g, math.Inf(side))
}
