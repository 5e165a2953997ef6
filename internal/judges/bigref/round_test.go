package bigref_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// TestRoundFloat holds Round to math/big's own conversions of fractions,
// which round to nearest even in float64 and float32.
func TestRoundFloat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		x := new(big.Rat).SetFrac64(int64(r.Uint64()>>1)-1<<62, 1+int64(r.Uint64()>>uint(1+r.IntN(60))))
		scale := new(big.Int).Lsh(big.NewInt(1), uint(r.IntN(1100)))
		if x.Mul(x, new(big.Rat).SetInt(scale)); r.IntN(2) == 0 {
			x.Quo(x, new(big.Rat).SetInt(scale.Mul(scale, scale)))
		}
		if x.Sign() == 0 {
			continue
		}
		want, _ := x.Float64()
		if got := bigref.Round(x, fp16.Float64); math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("float64: %x, want %x", got, want)
		}
		want32, _ := x.Float32()
		if got := bigref.Round(x, fp16.Float32); math.Float64bits(got) != math.Float64bits(float64(want32)) {
			t.Fatalf("float32: %x, want %x", got, want32)
		}
	}
}

// TestRoundNarrow writes out where the narrow formats tie, underflow and
// overflow, with fractions no float64 equals beside them.
func TestRoundNarrow(t *testing.T) {
	hair := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(3), 2000))
	inf := math.Inf(1)
	for _, c := range []struct {
		f                fp16.Format
		x                float64
		below, at, above float64 // rounded x - hair, x, x + hair
	}{
		{fp16.Float16, 2049, 2048, 2048, 2050},
		{fp16.Float16, 2051, 2050, 2052, 2052},
		{fp16.Float16, 0x1p-25, 0, 0, 0x1p-24},
		{fp16.Float16, 0x1.8p-24, 0x1p-24, 0x1p-23, 0x1p-23},
		{fp16.Float16, 65520, 65504, inf, inf},
		{fp16.BFloat16, 257, 256, 256, 258},
		{fp16.BFloat16, 0x1.ffp127, 0x1.fep127, inf, inf},
		{fp16.BFloat16, 0x1p-134, 0, 0, 0x1p-133},
		{fp16.TF32, 2049, 2048, 2048, 2050},
		{fp16.TF32, 0x1.ffep127, 0x1.ffcp127, inf, inf},
		{fp16.TF32, 0x1p-137, 0, 0, 0x1p-136},
		{fp16.Float32, 0x1p-150, 0, 0, 0x1p-149},
		{fp16.Float16, 0, math.Copysign(0, -1), 0, 0},
	} {
		for sign := 1.0; sign >= -1; sign -= 2 {
			for i, want := range []float64{c.below, c.at, c.above} {
				x := new(big.Rat).Mul(hair, big.NewRat(int64(i-1), 1))
				x.Add(x, bigref.Rat(c.x))
				if sign < 0 {
					x.Neg(x)
				}
				if want *= sign; x.Sign() == 0 {
					want = 0
				}
				if got := bigref.Round(x, c.f); math.Float64bits(got) != math.Float64bits(want) {
					t.Errorf("%v: %+g*(%g %+d hair) rounds to %g, want %g", c.f, sign, c.x, i-1, got, want)
				}
			}
		}
	}
}

func TestRat(t *testing.T) {
	if got := bigref.Rat(-0x1.8p-3); got.Cmp(big.NewRat(-3, 16)) != 0 {
		t.Errorf("Rat(-3/16) = %v", got)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Rat(%g) does not panic", v)
				}
			}()
			bigref.Rat(v)
		}()
	}
}
