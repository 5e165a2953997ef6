package plan

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// TestProductsTakeNoMemory: products of matrices and attention work in memory that is kept;
// finding a constant operand as it was packed takes its key.
func TestProductsTakeNoMemory(t *testing.T) {
	numbers := func(period int, shape ...int) *tensor.Tensor {
		x := tensor.New(fp16.Float32, shape...)
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(float64(i%period) * 0.1)
		}
		return x
	}
	in, out := []*tensor.Tensor{numbers(11, 2, 64, 64)}, []*tensor.Tensor{tensor.New(fp16.Float32, 2, 64, 64)}
	for name, most := range map[string]float64{"bmm": 0, "scaled_dot_product_attention": 0, "linear": 1} {
		g := graph.New(&graph.Kept{})
		x := g.Input("x")
		operands := map[string][]int{"bmm": {x, x}, "scaled_dot_product_attention": {x, x, x}}[name]
		if operands == nil {
			operands = []int{x, g.Constant("w", numbers(7, 64, 64))}
		}
		op, err := graph.Bind(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []int{g.Add(op, "y", operands...)}
		p, err := New(g, graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: in[0].Shape, Format: fp16.Float32})
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if err := p.Run(nil, noise.Time{}, out, in); err != nil {
				t.Fatal(err)
			}
		}
		run()
		least := testing.AllocsPerRun(10, run) // a collection may empty what is kept
		for range 4 {
			least = min(least, testing.AllocsPerRun(10, run))
		}
		if least > most {
			t.Errorf("%s: %v allocations: want %v", name, least, most)
		}
	}
}
