package elem

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestExpBelow: many at a time are what one is, to the bit.
func TestExpBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for trial := range 2000 {
		top := math.Ldexp(r.NormFloat64(), r.IntN(60)-30)
		src := []float64{top, math.Inf(-1), -math.MaxFloat64, top - 700, top - 708.5, top - 745, top - 746.5}
		for range 20 {
			if x := top - math.Abs(math.Ldexp(r.NormFloat64(), r.IntN(20)-9)); x <= top {
				src = append(src, x)
			}
		}
		dst := make([]float64, len(src))
		ExpBelow(dst, src, top)
		for i, x := range src {
			want := 0.0
			if d := x - top; !math.IsInf(d, -1) {
				z := d - x
				want = ExpSum(d, (x-(d-z))+(-top-z))
			}
			if math.Float64bits(dst[i]) != math.Float64bits(want) {
				t.Fatalf("trial %d: e^(%v - %v) is %v, want %v", trial, x, top, dst[i], want)
			}
		}
	}
}
