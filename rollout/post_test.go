package rollout

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func numbers(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(scale * r.NormFloat64()))
	}
	return x
}

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func TestPostSpecials(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	clamp := &[2]float64{-1, 0.1}
	f32, one := float64(float32(0.1)), 1.0
	end := 1 / (one + 1e-8) // formed at run time: constants would not round
	for _, c := range []struct {
		what string
		c    Config
		f    fp16.Format
		x, y []float64
	}{
		{"range below 1e-8 stays", Config{Normalization: MinMax}, fp16.Float32, []float64{1, 1, 1}, []float64{1, 1, 1}},
		{"NaN switches min-max off", Config{Normalization: MinMax}, fp16.Float32, []float64{0, nan, 4}, []float64{0, nan, 4}},
		{"infinite range", Config{Normalization: MinMax}, fp16.Float32, []float64{0, 1, inf}, []float64{0, 0, nan}},
		{"ends are exact", Config{Normalization: MinMax}, fp16.Float32, []float64{-2, 0, 2}, []float64{0, 0.5, 1}},
		{"float64", Config{Normalization: MinMax}, fp16.Float64, []float64{0, 1, 3}, []float64{0, 1.0 / 3, 1}},
		{"constant field", Config{Normalization: ZScore}, fp16.Float32, []float64{5, 5, 5}, []float64{0, 0, 0}},
		{"score of -0", Config{Normalization: ZScore}, fp16.Float32, []float64{-1, math.Copysign(0, -1), 1},
			[]float64{-float64(float32(end)), 0, float64(float32(end))}},
		{"score of -0, float64", Config{Normalization: ZScore}, fp16.Float64, []float64{-1, math.Copysign(0, -1), 1},
			[]float64{-end, 0, end}},
		{"-infinite range", Config{Normalization: MinMax}, fp16.Float32, []float64{math.Inf(-1), 1, 2},
			[]float64{nan, nan, nan}},
		{"single number", Config{Normalization: ZScore}, fp16.Float32, []float64{5}, []float64{nan}},
		{"single number, float64", Config{Normalization: ZScore}, fp16.Float64, []float64{5}, []float64{nan}},
		{"infinity spoils z-scores", Config{Normalization: ZScore}, fp16.Float32, []float64{5, inf}, []float64{nan, nan}},
		{"clamp to float32 bounds", Config{Clamp: clamp}, fp16.Float32, []float64{-2, 0.05, 7, nan, inf},
			[]float64{-1, 0.05, f32, nan, f32}},
		{"clamp to float64 bounds", Config{Clamp: clamp}, fp16.Float64, []float64{-inf, 7}, []float64{-1, 0.1}},
		{"normalise, then clamp", Config{Normalization: MinMax, Clamp: &[2]float64{0.25, 1}}, fp16.Float32,
			[]float64{0, 1, 2}, []float64{0.25, 0.5, 1}},
	} {
		got := append([]float64(nil), c.x...)
		c.c.post(got, c.f)
		for i := range got {
			if !same(got[i], c.y[i]) {
				t.Errorf("%s: %v gives %v, want %v", c.what, c.x, got, c.y)
				break
			}
		}
	}
}
