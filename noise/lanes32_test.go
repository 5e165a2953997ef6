package noise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/exact/single"
)

// All lanes equal single.FMA, also in place.
func TestLanes32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cases := make([][3]float32, 1<<16)
	for i := range cases { // sums near midpoints, and any
		cases[i] = [3]float32{1 + float32(r.IntN(8))*0x1p-23,
			float32(math.Ldexp(1-float64(r.IntN(8))*0x1p-24, r.IntN(60)-30)), float32(r.NormFloat64())}
	}
	for ; len(cases) >= len(lanes32{}); cases = cases[len(lanes32{}):] {
		var a, b, c, want, y lanes32
		for i := range want {
			a[i], b[i], c[i] = cases[i][0], cases[i][1], cases[i][2]
			want[i] = single.FMA(a[i], b[i], c[i])
		}
		y.fma(&a, &b, &c)
		inA, inB, inC := a, b, c
		inA.fma(&inA, &b, &c)
		inB.fma(&a, &inB, &c)
		inC.fma(&a, &b, &inC)
		for _, got := range []*lanes32{&y, &inA, &inB, &inC} {
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("lane %d: %x*%x + %x = %#08x, want %#08x", i, a[i], b[i], c[i],
						math.Float32bits(got[i]), math.Float32bits(want[i]))
				}
			}
		}
	}
}
