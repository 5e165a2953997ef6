package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// No float32 number beyond 3/4 is within 2^-32 of a multiple of pi/2. Let a = 2^e 2/pi;
// of all m < 2^24, m a is closest to a whole number for the greatest denominator below
// 2^24 of a convergent of a's continued fraction.
func TestCircularReduction(t *testing.T) {
	perQuarter := new(big.Rat)
	new(big.Float).SetPrec(600).Quo(big.NewFloat(2), bigref.Pi(600)).Rat(perQuarter)
	closest := 1.0
	for e := -24; e <= 104; e++ {
		a := new(big.Rat).Set(perQuarter)
		if two := new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))); e < 0 {
			a.Quo(a, new(big.Rat).SetInt(two))
		} else {
			a.Mul(a, new(big.Rat).SetInt(two))
		}
		rest, q0, q1 := new(big.Rat).Set(a), big.NewInt(0), big.NewInt(1)
		for {
			whole := new(big.Int).Quo(rest.Num(), rest.Denom())
			rest.Sub(rest, new(big.Rat).SetInt(whole)).Inv(rest)
			k := new(big.Int).Quo(rest.Num(), rest.Denom())
			q := new(big.Int).Mul(k, q1)
			if q.Add(q, q0); q.BitLen() > 24 {
				break
			}
			q0, q1 = q1, q
		}
		d := new(big.Rat).Mul(a, new(big.Rat).SetInt(q1))
		n := new(big.Rat).Add(d, big.NewRat(1, 2))
		d.Sub(d, new(big.Rat).SetInt(new(big.Int).Quo(n.Num(), n.Denom())))
		v, _ := d.Abs(d).Float64()
		closest = min(closest, v*math.Pi/2)
	}
	t.Logf("closest: 2^%.1f", math.Log2(closest))
	if !(closest > 0x1p-32) || closest > 0x1p-29 { // 16367173 2^72 has 2^-29.2
		t.Errorf("closest: %g", closest)
	}
}

// Angles of all sizes, the closest one to a multiple of pi/2 among them.
func TestCircular(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	x := []float64{16367173 * 0x1p72, -16367173 * 0x1p72, math.MaxFloat32, 0x1p-149, 0.75, 0.7853982, 1.5707964, 3.1415927}
	for range 150 {
		x = append(x, float64(float32(math.Ldexp(r.NormFloat64(), r.IntN(160)-40))))
	}
	for _, x := range x {
		for name, f := range map[string]func(float64) float64{"sin": Sin, "cos": Cos, "tan": Tan} {
			for _, format := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
				if got, want := format.Round(f(x)), bigref.Unary(name, x, nil, format); got != want {
					t.Errorf("%s(%x) in %v: %x, want %x", name, x, format, got, want)
				}
			}
		}
	}
}
