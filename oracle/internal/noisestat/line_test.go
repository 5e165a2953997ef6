package noisestat

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// TestLine: numbers of weight 0 count for nothing, others by their weight.
func TestLine(t *testing.T) {
	for _, c := range []struct {
		x, y, weight  []float64
		slope, offset float64
	}{
		{[]float64{0, 1, 2, 3}, []float64{1, 3, 5, 100}, []float64{1, 1, 1, 0}, 2, 1},
		{[]float64{0, 1, 2, 3}, []float64{1, 3, 5, math.NaN()}, []float64{1, 1, 1, 1}, 2, 1},
		{[]float64{0, 0, 1, 1}, []float64{0, 2, 1, 3}, []float64{3, 1, 3, 1}, 1, 0.5},
	} {
		slope, offset := line(c.y, c.x, func(i int) float64 { return c.weight[i] })
		if math.Abs(slope-c.slope) > 1e-12 || math.Abs(offset-c.offset) > 1e-12 {
			t.Errorf("%v at %v, weights %v: %v x + %v, want %v and %v", c.y, c.x, c.weight, slope, offset, c.slope, c.offset)
		}
	}
}

// TestLineWeights: noise that multiplies has the variance of what it multiplies.
func TestLineWeights(t *testing.T) {
	hidden := tensor.Of(fp16.Float64, []float64{1, 3, 2, 4}, 1, 2, 1, 2)
	for kind, want := range map[noise.Type]float64{noise.Multiplicative: (3*3 + 4*4.) / (1 + 2*2.), noise.Gaussian: 1} {
		u := &Unseen{M: &Model{Kind: kind, W: [][]float64{{1, 1}}, Rows: []int{0}, sigma: 0.1}}
		if got := u.weight(hidden, 0, 0, 0) / u.weight(hidden, 0, 0, 1); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: the first pixel counts %v times as much as the second, want %v", kind, got, want)
		}
	}
}
