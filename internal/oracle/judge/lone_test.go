package judge

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestLoneDrawnSmall: of an element whose simulated errors are by chance all small, four deviations are no
// fault, and twelve are; of a product, whose terms are added one after the other, twelve are none, and 25 are.
func TestLoneDrawnSmall(t *testing.T) {
	const n, sigma = 1000, 0x1p-22
	product := graph.New(nil)
	product.Outputs = []int{product.Add(graph.MatMul{}, "y", product.Input("a"), product.Input("b"))}
	for _, c := range []struct {
		of    *graph.Graph
		times float64
		want  bool
	}{{graph.New(nil), 4, true}, {graph.New(nil), 12, false}, {product, 12, true}, {product, 25, false}} {
		times, want := c.times, c.want
		q := Question{Graph: c.of, Output: tensor.New(fp16.Float32, n), whole: []int{n}}
		k := trial{b: &builder{Graph: c.of}, y: make([]float64, n), r: make([]float64, n), e: make([]float64, n),
			sigma: make([]float64, n), stored: make([]float64, n), ways: ways{}}
		for i := range n {
			k.y[i], k.stored[i], k.sigma[i], k.e[i] = 1, 1, sigma, sigma*sigma
		}
		k.e[7] = 0
		k.right = [][]float64{k.stored}
		copy(q.Output.Data, k.stored)
		q.Output.Data[7] += times * sigma
		q.alone(&k, fp16.Float32)
		if excess, at := k.ways.excess(); (excess <= 1) != want {
			t.Errorf("%v deviations: %v over the limit at %s", times, excess, at)
		}
	}
}

// TestOneErrorManyTimes: elements of one value that are all off are one error; of as many values they are as
// many.
func TestOneErrorManyTimes(t *testing.T) {
	const n = 4000
	for _, same := range []bool{true, false} {
		g := graph.New(nil)
		op, _ := graph.Bind("relu", nil)
		g.Outputs = []int{g.Add(op, "y", g.Input("x"))}
		q := Question{Graph: g, Output: tensor.New(fp16.BFloat16, 1, n), whole: []int{1, n}}
		k := trial{b: &builder{Graph: graph.New(nil)}, y: make([]float64, n), r: make([]float64, n),
			e: make([]float64, n), stored: make([]float64, n)}
		for i := range n {
			k.y[i], k.e[i] = 1+0x1p-8+float64(i)*0x1p-40, 0x1p-34
			if same && i%100 == 0 {
				k.y[i] = 1 + 0x1p-8
			}
			k.stored[i], q.Output.Data[i] = 1+0x1p-7, 1+0x1p-7
			if i%100 == 0 {
				q.Output.Data[i] = 1
			}
		}
		k.right = [][]float64{k.stored}
		q.statistics(&k)
		if (k.excess <= 1) != same {
			t.Errorf("one value: %v: %v over the limit at %s", same, k.excess, k.region)
		}
	}
}
