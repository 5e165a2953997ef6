package fp16_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// judgeTF32 rounds by fractions: |v| is n and something ulps.
func judgeTF32(v float64, r fp16.Rounding) float64 {
	if v != v || v == 0 || math.IsInf(v, 0) || r == fp16.NearestEven {
		return judge(fp16.TF32, v)
	}
	e := max(new(big.Float).SetFloat64(v).MantExp(nil)-1, -126)
	ulp := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 1100)) // 2^-1100
	ulp.Mul(ulp, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(1100+e-10))))
	steps := new(big.Rat).Quo(new(big.Rat).Abs(bigref.Rat(v)), ulp)
	if r == fp16.NearestAway {
		steps.Add(steps, big.NewRat(1, 2))
	}
	n := new(big.Int).Quo(steps.Num(), steps.Denom())
	a, _ := new(big.Rat).Mul(new(big.Rat).SetInt(n), ulp).Float64()
	if a >= 0x1p128 {
		a = math.Inf(1)
		if r == fp16.TowardZero {
			a = limits[fp16.TF32][2]
		}
	}
	return math.Copysign(a, v)
}

// TestRoundTF32 rounds float64 numbers that float32 does not have: around numbers,
// ties and limits. (TestFloat32 does the float32 numbers.)
func TestRoundTF32(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	least, normal, most := limits[fp16.TF32][0], limits[fp16.TF32][1], limits[fp16.TF32][2]
	var vs []float64
	for range 500 {
		v := fp16.TF32.Round(math.Ldexp(1+r.Float64(), -138+r.IntN(266)))
		vs = append(vs, edges(v)...)
		vs = append(vs, edges(v+fp16.TF32.Ulp(v)/2)...)
		vs = append(vs, math.Float64frombits(r.Uint64()))
	}
	for _, v := range []float64{least / 2, least, normal, most, most + fp16.TF32.Ulp(most)/2, 0x1p128, 0x1p129, 1e300} {
		vs = append(vs, edges(v)...)
	}
	vs = append(vs, 0, math.MaxFloat64, math.Inf(1), fp16.NaN)
	for _, v := range vs {
		for _, v := range []float64{v, -v} {
			for way := fp16.NearestEven; way <= fp16.TowardZero; way++ {
				if got, want := fp16.RoundTF32(v, way), judgeTF32(v, way); !same(got, want) {
					t.Fatalf("%v of %x: %x, want %x", way, v, got, want)
				}
			}
		}
	}
}

// TestRoundTF32Rules writes out where the three differ.
func TestRoundTF32Rules(t *testing.T) {
	inf, negZero := math.Inf(1), math.Copysign(0, -1)
	for _, c := range []struct{ v, even, away, cut float64 }{
		{0x1.002p0, 1, 0x1.004p0, 1},
		{-0x1.006p0, -0x1.008p0, -0x1.008p0, -0x1.004p0},
		{0x1.003p0, 0x1.004p0, 0x1.004p0, 1},
		{0x1.001p0, 1, 1, 1},
		{0x1.fffffep127, inf, inf, 0x1.ffcp127},
		{-0x1.ffep127, -inf, -inf, -0x1.ffcp127},
		{0x1.ffdp127, 0x1.ffcp127, 0x1.ffcp127, 0x1.ffcp127},
		{1e300, inf, inf, 0x1.ffcp127},
		{-inf, -inf, -inf, -inf},
		{0x1p-137, 0, 0x1p-136, 0},
		{-0x1.8p-137, -0x1p-136, -0x1p-136, negZero},
		{-0x1p-149, negZero, negZero, negZero},
		{math.Float64frombits(0xfff0000020000000), fp16.NaN, fp16.NaN, fp16.NaN}, // no payload in 10 bits
	} {
		for way, want := range []float64{c.even, c.away, c.cut} {
			if got := fp16.RoundTF32(c.v, fp16.Rounding(way)); !same(got, want) {
				t.Errorf("%v of %x: %x, want %x", fp16.Rounding(way), c.v, got, want)
			}
		}
	}
	mustPanic(t, "fp16: unknown TF32 rounding", func() { fp16.RoundTF32(1, 3) })
}

func TestRoundingNames(t *testing.T) {
	for i, name := range []string{"even", "away", "truncate"} {
		r, err := fp16.ParseRounding(name)
		if err != nil || r != fp16.Rounding(i) || r.String() != name {
			t.Errorf("ParseRounding(%q) = %v, %v", name, r, err)
		}
	}
	_, err := fp16.ParseRounding("rna")
	if want := `unknown rounding "rna": want even, away or truncate`; err == nil || err.Error() != want {
		t.Errorf("ParseRounding: %v", err)
	}
	if got := fp16.Rounding(9).String(); got != "Rounding(9)" {
		t.Errorf("String of an unknown rounding: %q", got)
	}
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}
