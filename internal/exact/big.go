package exact

import (
	"math"
	"math/big"
)

// Int returns the sum as an integer m with value m*2^exp. The sum must be
// finite (Finite).
func (s *Sum) Int() (m *big.Int, exp int) {
	if s.special != 0 {
		panic("exact: sum is not finite")
	}
	t := *s
	t.carry()
	m = new(big.Int).SetInt64(t.limb[limbs-1])
	for i := limbs - 2; i >= 0; i-- {
		m.Lsh(m, 32).Add(m, big.NewInt(t.limb[i]))
	}
	return m, low
}

// Finite reports whether no infinity and no NaN was added.
func (s *Sum) Finite() bool { return s.special == 0 }

// oddInt returns m*2^exp rounded to odd, where below says that the exact
// magnitude is greater than |m| by less than one. With below set, m must have
// at least 53 bits.
func oddInt(m *big.Int, exp int, below bool) float64 {
	neg := m.Sign() < 0
	a := new(big.Int).Abs(m)
	if d := a.BitLen() - 53; d > 0 {
		below = below || int(a.TrailingZeroBits()) < d
		a.Rsh(a, uint(d))
		exp += d
	} else if below && d < 0 {
		panic("exact: too few bits to round to odd")
	}
	u := a.Uint64()
	if below {
		u |= 1
	}
	v := math.Ldexp(float64(u), exp)
	if neg {
		return -v
	}
	return v
}

// Quotient returns num*2^exp/den rounded to odd; den must be positive, and the
// result a normal float64 or zero.
func Quotient(num *big.Int, exp int, den *big.Int) float64 {
	if num.Sign() == 0 {
		return 0
	}
	sh := max(0, 55+den.BitLen()-num.BitLen())
	q, r := new(big.Int).QuoRem(new(big.Int).Lsh(num, uint(sh)), den, new(big.Int))
	return oddInt(q, exp-sh, r.Sign() != 0)
}

// SqrtQuotient returns sqrt(num*2^exp/den) rounded to odd; num must not be
// negative, den must be positive, and the result a normal float64 or zero.
func SqrtQuotient(num *big.Int, exp int, den *big.Int) float64 {
	if num.Sign() == 0 {
		return 0
	}
	// Scale so that the integer quotient has at least 110 bits and an even
	// exponent; its root then has 55 or more.
	sh := max(0, 110+den.BitLen()-num.BitLen())
	if (exp-sh)&1 != 0 {
		sh++
	}
	q, r := new(big.Int).QuoRem(new(big.Int).Lsh(num, uint(sh)), den, new(big.Int))
	root := new(big.Int).Sqrt(q)
	inexact := r.Sign() != 0 || new(big.Int).Mul(root, root).Cmp(q) != 0
	return oddInt(root, (exp-sh)/2, inexact)
}

// Beside returns a value that differs from z by less than half an ulp in the
// direction of dir (+1 up, -1 down), rounded to odd. z must have an even last
// bit, as every float32 has as a float64; z = 0 gives the least number of that sign.
func Beside(z float64, dir int) float64 {
	if z == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, float64(dir))
	}
	return math.Nextafter(z, math.Inf(dir))
}
