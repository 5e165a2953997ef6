package exact_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// float32s are arguments on the float32 grid: random ones of every size, and
// the places where the settle functions change their method.
func float32s(r *rand.Rand, n int) []float64 {
	var x []float64
	for _, v := range []float64{
		0x1p-149, 0x1p-148, 0x1.8p-148, 0x1p-126, 0x1.fffffcp-127, 0x1p-61, 0x1p-60, 0x1.fffffep-61, 0x1p-27,
		0x1.fffffep-28, 0x1p-12, 0.5, 1, 2, 9.999999, 10, 10.000001, 13.0, 14.2, 19.999998, 20, 37.5, 38.4, 39.99999,
		40, 45, 88, 103, 104, 700, 745, 799, 1000, 1001, math.MaxFloat32,
	} {
		v = float64(float32(v))
		x = append(x, v, -v)
	}
	for range n {
		v := float64(math.Float32frombits(r.Uint32()))
		if v-v != 0 || r.IntN(2) == 0 {
			v = float64(float32(r.NormFloat64() * 3))
		}
		x = append(x, v)
	}
	return x
}

// The value rounded to odd has an odd last bit, lies within an ulp of the
// nearest float64, and rounds to the nearest number of every shorter format.
func TestElementaryRoundedToOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, fn := range []struct {
		name  string
		f     func(float64) float64
		judge func(float64, fp16.Format) float64
		far   float64 // where the judge becomes slow
	}{
		{"GELU", exact.GELU, bigref.GELU, -60},
		{"GELUTanh", exact.GELUTanh, bigref.GELUTanh, -20},
		{"SiLU", exact.SiLU, bigref.SiLU, -1e9},
		{"Tanh", exact.Tanh, bigref.RoundTanh, -1e9},
	} {
		for _, x := range float32s(r, 200) {
			y := fn.f(x)
			if y == 0 || math.Float64bits(y)&1 == 0 {
				t.Errorf("%s(%x) = %x: last bit is even", fn.name, x, y)
			}
			if x < fn.far && x >= -40 { // 2^-1080 < |value| < 2^-500
				if y < -0x1p-500 || y >= 0 {
					t.Errorf("%s(%x) = %x", fn.name, x, y)
				}
				continue
			}
			for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
				got, want := f.Round(y), fn.judge(x, f)
				if math.Float64bits(got) != math.Float64bits(want) {
					t.Errorf("%s(%x) = %x rounds to %x in %v, want %x", fn.name, x, y, got, f, want)
				}
			}
			near := fn.judge(x, fp16.Float64)
			if math.Abs(near) < 0x1p-1022 {
				if y != math.Copysign(math.SmallestNonzeroFloat64, x) {
					t.Errorf("%s(%x) = %x, want the least number", fn.name, x, y)
				}
			} else if y != near && y != math.Nextafter(near, 0) && y != math.Nextafter(near, 2*near) {
				t.Errorf("%s(%x) = %x, but the nearest number is %x", fn.name, x, y, near)
			}
		}
		for _, zero := range []float64{0, math.Copysign(0, -1)} {
			if y := fn.f(zero); math.Float64bits(y) != math.Float64bits(zero) {
				t.Errorf("%s(%g) = %g", fn.name, zero, y)
			}
		}
	}
}

func TestSin2Pi(t *testing.T) {
	for _, c := range []struct {
		num, den int64
		want     float64
	}{
		{0, 5, 0}, {-7, 7, 0}, {1, 2, 0}, {-3, 2, 0}, {1, 4, 1}, {3, 4, -1}, {-1, 4, -1}, {25, 100, 1},
		{1, 12, 0.5}, {5, 12, 0.5}, {7, 12, -0.5}, {11, 12, -0.5}, {-1, 12, -0.5}, {14, 24, -0.5},
		{math.MinInt64, 1, 0}, {math.MaxInt64, math.MaxInt64, 0},
	} {
		if got := exact.Sin2Pi(c.num, c.den); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("Sin2Pi(%d, %d) = %x, want %x", c.num, c.den, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		den := 1 + r.Int64()>>r.IntN(62)
		num := r.Int64() >> r.IntN(62)
		num -= r.Int64() >> r.IntN(62)
		y := exact.Sin2Pi(num, den)
		if y == 0 || math.Abs(y) == 1 || math.Abs(y) == 0.5 {
			continue // the exact cases above
		}
		angle := big.NewRat(num, den)
		value := func(prec uint) *big.Float {
			x := new(big.Float).SetPrec(prec + 256).SetRat(angle)
			x.Mul(x, bigref.Pi(prec+256))
			return bigref.Sin(x.Add(x, x), prec)
		}
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			if got, want := f.Round(y), bigref.Nearest(f, value); got != want {
				t.Fatalf("Sin2Pi(%d, %d) = %x rounds to %x, want %x", num, den, y, got, want)
			}
		}
		near := bigref.Nearest(fp16.Float64, value)
		if y != near && y != math.Nextafter(near, 0) && y != math.Nextafter(near, 2*near) || math.Float64bits(y)&1 == 0 {
			t.Fatalf("Sin2Pi(%d, %d) = %x, but the nearest number is %x", num, den, y, near)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a denominator of 0 does not panic")
		}
	}()
	exact.Sin2Pi(1, 0)
}

func BenchmarkSettle(b *testing.B) {
	for _, fn := range []struct {
		name string
		f    func(float64) float64
	}{{"GELU", exact.GELU}, {"GELUTanh", exact.GELUTanh}, {"SiLU", exact.SiLU}, {"Tanh", exact.Tanh}} {
		b.Run(fn.name, func(b *testing.B) {
			for b.Loop() {
				fn.f(-1.25)
			}
		})
	}
}
