package norm_test

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/tensor"
)

// TestFormulas: each norm by hand, of one sample with channels {1, 3} and {2, 6}.
func TestFormulas(t *testing.T) {
	one := fp16.Float32.Round(1 / (math.Sqrt2 + 1e-8))
	for name, c := range map[string]struct {
		of   func(x *tensor.Tensor)
		want []float64
	}{
		"instance": {func(x *tensor.Tensor) { norm.Instance(x, x, []float64{2, 1}, []float64{0, 10}, 0) },
			[]float64{-2, 2, 9, 11}},
		"group, two":   {func(x *tensor.Tensor) { norm.Group(x, x, 2, nil, nil, 0) }, []float64{-1, 1, -1, 1}},
		"group of all": {func(x *tensor.Tensor) { norm.Group(x, x, 1, nil, nil, 0.5) }, []float64{-1, 0, -0.5, 1.5}},
		"batch": {func(x *tensor.Tensor) { norm.Batch(x, x, []float64{1, 2}, []float64{4, 16}, nil, nil, 0) },
			[]float64{0, 1, 0, 1}},
		"minmax": {func(x *tensor.Tensor) { norm.MinMax(x.Data[:3], x.Format) }, []float64{0, 1, 0.5, 6}},
		"zscore": {func(x *tensor.Tensor) { norm.ZScore(x.Data[:2], x.Format) }, []float64{-one, one, 2, 6}},
	} {
		x := tensor.Of(fp16.Float32, []float64{1, 3, 2, 6}, 1, 2, 1, 2)
		if c.of(x); !slices.Equal(x.Data, c.want) {
			t.Errorf("%s: %v, want %v", name, x.Data, c.want)
		}
	}
}
