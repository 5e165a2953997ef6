package dd

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// Frac is the number of fractional bits of the fixed-point evaluations: an
// integer v stands for v * 2^-Frac.
const Frac = 768

// The functions of this file take and return such integers. A product, a
// quotient or a term of a series is cut to the grid, an absolute error of
// 2^-768; what the functions lose beyond that is a few bits for the number of
// operations and what is said of each.

func fixInt(n int64) *big.Int { return new(big.Int).Lsh(big.NewInt(n), Frac) }

// fixFloat returns x, cut to the grid: exact for multiples of 2^-768.
func fixFloat(x float64) *big.Int {
	m, e := math.Frexp(x)
	v := big.NewInt(int64(math.Ldexp(m, 53)))
	if e += Frac - 53; e < 0 {
		return v.Rsh(v, uint(-e))
	}
	return v.Lsh(v, uint(e))
}

func fixMul(a, b *big.Int) *big.Int {
	p := new(big.Int).Mul(a, b)
	return p.Rsh(p, Frac)
}

func fixQuo(a, b *big.Int) *big.Int {
	q := new(big.Int).Lsh(a, Frac)
	return q.Quo(q, b)
}

// fixSqrt returns the square root of a >= 0.
func fixSqrt(a *big.Int) *big.Int {
	r := new(big.Int).Lsh(a, Frac)
	return r.Sqrt(r)
}

// fixLn2 returns ln 2 = sum over n >= 1 of 1/(n 2^n).
var fixLn2 = sync.OnceValue(func() *big.Int {
	sum := new(big.Int)
	for n := int64(1); n <= Frac; n++ {
		t := new(big.Int).Lsh(big.NewInt(1), Frac-uint(n))
		sum.Add(sum, t.Quo(t, big.NewInt(n)))
	}
	return sum
})

// fixPi returns pi = 48 arctan(1/18) + 32 arctan(1/57) - 20 arctan(1/239)
// (Gauss).
var fixPi = sync.OnceValue(func() *big.Int {
	sum := new(big.Int)
	for _, a := range [][2]int64{{48, 18}, {32, 57}, {-20, 239}} {
		power := fixInt(a[0])
		power.Quo(power, big.NewInt(a[1]))
		square := big.NewInt(-a[1] * a[1])
		for n := int64(1); power.Sign() != 0; n += 2 {
			sum.Add(sum, new(big.Int).Quo(power, big.NewInt(n)))
			power.Quo(power, square)
		}
	}
	return sum
})

// fixRoot2Pi returns sqrt(2 pi).
var fixRoot2Pi = sync.OnceValue(func() *big.Int {
	return fixSqrt(new(big.Int).Lsh(fixPi(), 1))
})

// fixExp returns e^t for |t| < 128: Taylor's series at t/2^16, squared 16
// times. Each squaring doubles the relative error and adds 2^-768 to the
// absolute one, so it is off by less than 2^-730 of max(1, e^t).
func fixExp(t *big.Int) *big.Int {
	const squarings = 16
	r := new(big.Int).Rsh(t, squarings)
	sum, term := fixInt(1), fixInt(1)
	for n := int64(1); ; n++ {
		term.Mul(term, r).Rsh(term, Frac)
		term.Quo(term, big.NewInt(n))
		if term.BitLen() <= 1 {
			break
		}
		sum.Add(sum, term)
	}
	for range squarings {
		sum.Mul(sum, sum).Rsh(sum, Frac)
	}
	return sum
}

// fixTail returns the normal tail Q(a) = erfc(a/sqrt 2)/2 for 0 <= a < 16, as
//
//	1/2 - 1/sqrt(2 pi) sum over n of (-1)^n a^(2n+1) / (2^n n! (2n+1)).
//
// A term is the one before times a^2/2n, a product with an integer of at most
// 106 bits. The cut of a term grows with the terms, by at most e^(a^2/2) <
// 2^185: with fewer than 2^10 terms the error is below 2^-570.
func fixTail(a float64) *big.Int {
	m, e := math.Frexp(a)
	mant := int64(math.Ldexp(m, 53))
	shift := 53 - e
	trailing := min(bits.TrailingZeros64(uint64(mant)), shift)
	mant, shift = mant>>trailing, shift-trailing
	square := new(big.Int).Mul(big.NewInt(mant), big.NewInt(mant))
	power := fixFloat(a)
	sum := new(big.Int)
	var part, k big.Int
	for n := int64(0); power.Sign() != 0; n++ {
		k.SetInt64(2*n + 1)
		if part.Quo(power, &k); n&1 == 0 {
			sum.Add(sum, &part)
		} else {
			sum.Sub(sum, &part)
		}
		power.Mul(power, square).Rsh(power, uint(2*shift))
		power.Quo(power, k.SetInt64(2*n+2))
	}
	half := new(big.Int).Rsh(fixInt(1), 1)
	return half.Sub(half, fixQuo(sum, fixRoot2Pi()))
}

// split returns v as a sum of float64 numbers: the nearest, and the nearest to
// what is left. It misses v by E/2 of it at most.
func split(v *big.Int) Num {
	hi := toFloat(v)
	return Num{hi, toFloat(new(big.Int).Sub(v, fixFloat(hi)))}
}

// toFloat returns the float64 nearest to v * 2^-Frac.
func toFloat(v *big.Int) float64 {
	f := new(big.Float).SetInt(v)
	y, _ := f.SetMantExp(f, -Frac).Float64()
	return y
}
