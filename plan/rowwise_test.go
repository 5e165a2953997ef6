package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestRowwise: norms, softmax and reductions of rows have the bits of Run in a plan, and take
// no memory for each row.
func TestRowwise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rows, size = 1200, 24
	for _, op := range []graph.Op{
		graph.LayerNorm{Eps: 1e-5}, graph.RMSNorm{}, graph.Softmax{Axis: -1}, graph.Softmax{Log: true, Axis: -1},
		graph.Reduction{Of: "mean", Axes: graph.Ints{-1}}, graph.Reduction{Of: "amax", Axes: graph.Ints{1}},
		graph.Reduction{Of: "logsumexp", Axes: graph.Ints{-1}},
	} {
		g := graph.New(new(graph.Kept))
		in := []int{g.Input("x")}
		if _, is := op.(graph.LayerNorm); is {
			in = append(in, g.Constant("w", random(r, fp16.Float32, size)), g.Constant("b", random(r, fp16.Float32, size)))
		}
		g.Outputs = []int{g.Add(op, "y", in...)}
		of := graph.Type{Shape: []int{3, rows / 3, size}, Format: fp16.Float32}
		m := graph.Mode{Precision: fp16.Float32}
		p, err := plan.New(g, m, of)
		if err != nil {
			t.Fatal(err)
		}
		program, err := g.Infer(m, of)
		if err != nil {
			t.Fatal(err)
		}
		x := []*tensor.Tensor{random(r, fp16.Float32, of.Shape...)}
		y := []*tensor.Tensor{tensor.New(p.Type(0).Format, p.Type(0).Shape...)}
		n := testing.AllocsPerRun(3, func() {
			if err := p.Run(nil, noise.Time{}, y, x); err != nil {
				t.Fatal(err)
			}
		})
		if n > rows/4 { // something is settled for some
			t.Errorf("%s: %v allocations", op.Name(), n)
		}
		want, err := program.Run(&graph.Run{}, x...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(y[0].Data, want[0].Data) {
			t.Errorf("%s: a plan has other numbers", op.Name())
		}
	}
}
