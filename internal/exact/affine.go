package exact

import (
	"math"
	"math/big"
)

// Affine returns alpha s + beta c, rounded to odd, or an infinity or a zero of its
// sign where it is beyond the range of float64. All must be finite.
func Affine(alpha float64, s *Sum, beta, c float64) float64 {
	m, exp := s.Int()
	a, ea := integer(alpha)
	m.Mul(m, a)
	exp += ea
	q, eq := integer(beta)
	x, ex := integer(c)
	q.Mul(q, x)
	eq += ex
	if d := exp - eq; d > 0 {
		m.Lsh(m, uint(d))
		exp = eq
	} else {
		q.Lsh(q, uint(-d))
	}
	m.Add(m, q)
	if m.Sign() == 0 {
		return 0
	}
	return oddInt(m, exp, false)
}

// integer returns a finite v as an integer times a power of two.
func integer(v float64) (m *big.Int, exp int) {
	frac, e := math.Frexp(v)
	return big.NewInt(int64(math.Ldexp(frac, 53))), e - 53
}
