package judge

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestOnePassLimit: variances that are off by what sums of squares lose are those of one
// pass; eight times as much is no such loss, whatever it looks like.
func TestOnePassLimit(t *testing.T) {
	const rows, n, mean = 16, 64, 30.0
	x := tensor.New(fp16.Float32, rows, n)
	y, faulty, w := make([]float64, rows*n), make([]float64, rows*n), make([]float64, rows*n)
	for k := range y {
		y[k] = math.Copysign(1, float64(k%2)-.5) // deviation 1
		x.Data[k] = mean + y[k]
		faulty[k], w[k] = y[k]/math.Sqrt(1+nudge), 1
	}
	s, q := float64(n*mean), float64(n*(mean*mean+1))
	fourth := n * (math.Pow(mean, 4) + 6*mean*mean + 1)
	usual := sumSigma(n, q, fourth)/n + 2*mean*sumSigma(n, s, q)/n
	for _, c := range []struct {
		times float64
		found bool
	}{{2, true}, {8, false}} {
		out := tensor.New(fp16.Float64, rows, n)
		for k := range y {
			off := math.Copysign(c.times*usual, float64(k/n%2)-.5)
			out.Data[k] = y[k] / math.Sqrt(1+off)
		}
		question := &Question{Graph: &graph.Graph{Nodes: []graph.Node{{Op: graph.LayerNorm{}}}}, Inputs: []*tensor.Tensor{x}, Output: out}
		if gain, _, _ := question.onePass(&trial{y: y}, w, faulty); (gain > 0) != c.found {
			t.Errorf("variances off by %v times what sums lose: explains %v of the errors, found wanted %v", c.times, gain, c.found)
		}
	}
}
