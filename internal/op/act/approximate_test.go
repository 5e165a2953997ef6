package act

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestApproximate: within its error of Forward, for numbers of 53 bits of all
// sizes, and Forward's where an argument is special.
func TestApproximate(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	n := 20003
	x := tensor.New(fp16.Float64, 1, 1, 1, n)
	for i := range x.Data {
		x.Data[i] = math.Ldexp(r.NormFloat64(), r.IntN(30)-24)
	}
	special := []float64{
		0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 3e38, -3e38, 1e-300, -1e-40, 0x1p-149,
	}
	copy(x.Data[1000:], special)
	for f := Identity; f <= Tanh; f++ {
		got, want := tensor.New(fp16.Float64, 1, 1, 1, n), tensor.New(fp16.Float64, 1, 1, 1, n)
		Approximate(got, x, f)
		Forward(want, x, f)
		for i, w := range want.Data {
			g := got.Data[i]
			if g == w || g != g && w != w {
				continue
			}
			if !(math.Abs(g-w) <= 0x1p-36*math.Abs(w)+0x1p-152) {
				t.Fatalf("%v of %g: %g, want %g", f, x.Data[i], g, w)
			}
		}
	}
}
