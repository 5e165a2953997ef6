package oracle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestLookAlikes counts pixels with the same surroundings.
func TestLookAlikes(t *testing.T) {
	const n, c, h, w = 2, 3, 5, 7
	fill := func(v func(c, y, x int) float64) *tensor.Tensor {
		s := tensor.New(fp16.Float64, n, c, h, w)
		for i := range s.Data {
			s.Data[i] = v(i/(h*w)%c, i/w%h, i%w)
		}
		return s
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []struct {
		name string
		x    *tensor.Tensor
		want float64
	}{
		// Of 5x7 pixels, 15 have no border near by, 2 x 5 and 2 x 3 have one, 4 have two.
		{"a constant", fill(func(c, _, _ int) float64 { return float64(c) }), n * (15*15 + 2*25 + 2*9 + 4) / 35.},
		{"columns", fill(func(_, _, x int) float64 { return float64(x) }), n * 7 * (9 + 1 + 1) / 35.},
		{"below half an ulp", fill(func(_, y, x int) float64 { return 1 + 1e-4*float64(y*w+x)/35 }), n * (15*15 + 2*25 + 2*9 + 4) / 35.},
		{"random numbers", fill(func(int, int, int) float64 { return r.NormFloat64() }), 1},
	} {
		if got := lookAlikes(s.x, fp16.Float16); math.Abs(got-s.want) > 1e-12 {
			t.Errorf("%s: %.6g pixels are alike: want %.6g", s.name, got, s.want)
		}
	}
}
