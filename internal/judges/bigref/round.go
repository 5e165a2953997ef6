// Package bigref holds the judges of the test suites: the same mathematics as
// the production packages, written again, independently, on math/big and
// without regard for speed. Only tests import it.
package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// Round returns x rounded to nearest, ties to even, in format f, by integer
// arithmetic on the fraction. Zero is +0; what underflows keeps x's sign.
func Round(x *big.Rat, f fp16.Format) float64 {
	var p, emin, emax int
	switch f {
	case fp16.Float64:
		p, emin, emax = 53, -1022, 1023
	case fp16.Float32:
		p, emin, emax = 24, -126, 127
	case fp16.TF32:
		p, emin, emax = 11, -126, 127
	case fp16.Float16:
		p, emin, emax = 11, -14, 15
	case fp16.BFloat16:
		p, emin, emax = 8, -126, 127
	default:
		panic("bigref: unknown format")
	}
	if x.Sign() == 0 {
		return 0
	}
	a := new(big.Rat).Abs(x)
	e := a.Num().BitLen() - a.Denom().BitLen() // 2^(e-1) < a < 2^(e+1)
	if a.Cmp(pow2(e)) < 0 {
		e--
	}
	ulp := pow2(max(e, emin) - (p - 1))
	steps := new(big.Rat).Quo(a, ulp)
	n, r := new(big.Int).QuoRem(steps.Num(), steps.Denom(), new(big.Int))
	switch twice := r.Lsh(r, 1).Cmp(steps.Denom()); {
	case twice > 0, twice == 0 && n.Bit(0) == 1:
		n.Add(n, big.NewInt(1))
	}
	rounded := new(big.Rat).Mul(new(big.Rat).SetInt(n), ulp)
	v := math.Inf(1)
	if rounded.Cmp(pow2(emax+1)) < 0 {
		v, _ = rounded.Float64()
	}
	return math.Copysign(v, float64(x.Sign()))
}

// Rat returns the exact value of a finite float64; it panics on others.
func Rat(v float64) *big.Rat {
	r := new(big.Rat).SetFloat64(v)
	if r == nil {
		panic("bigref: not finite")
	}
	return r
}

func pow2(e int) *big.Rat {
	one := big.NewInt(1)
	if e >= 0 {
		return new(big.Rat).SetInt(new(big.Int).Lsh(one, uint(e)))
	}
	return new(big.Rat).SetFrac(one, new(big.Int).Lsh(one, uint(-e)))
}
