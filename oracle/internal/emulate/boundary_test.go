package emulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// TestBoundary: the middle between a number's rounding and the next one, above or below, is as far as it says; beside
// powers of two, zero and the largest number too.
func TestBoundary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.TF32, fp16.Float32} {
		for range 20000 {
			y := math.Ldexp(r.NormFloat64(), r.IntN(60)-40)
			switch r.IntN(6) {
			case 0:
				y = f.Round(y)
			case 1:
				y = math.Ldexp(1, r.IntN(12)-6) * (1 + 0x1p-13*r.NormFloat64())
			case 2:
				y = f.Largest() * (1 - 0x1p-13*r.Float64())
			case 3:
				y = f.NextUp(0) * 2 * r.NormFloat64()
			}
			n := f.Round(y)
			if math.IsInf(n, 0) {
				continue
			}
			up, down := f.NextUp(n), f.NextDown(n)
			if math.IsInf(up, 0) {
				up = n + f.Ulp(n)
			}
			if math.IsInf(down, 0) {
				down = n - f.Ulp(n)
			}
			if got, want := Boundary(f, y), min((n+up)/2-y, y-(n+down)/2); got != want {
				t.Fatalf("%v: %v is %v from a boundary, want %v", f, y, got, want)
			}
		}
	}
	for _, y := range []float64{math.NaN(), math.Inf(1)} {
		if got := Boundary(fp16.Float16, y); !math.IsInf(got, 1) {
			t.Errorf("%v is %v from a boundary", y, got)
		}
	}
}
