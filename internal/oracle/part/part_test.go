package part

import (
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// chain is y = (relu(x) + w) * z with inputs x and z and a constant w, the values of its results, and what they are.
func chain() (g *graph.Graph, relu, sum, product int, of map[int][]float64) {
	g = graph.New(new(graph.Kept))
	x, z := g.Input("x"), g.Input("z")
	w := g.Constant("w", tensor.Of(fp16.Float32, []float64{1, 2}, 2))
	relu = g.Add(graph.Act{Func: act.ReLU}, "relu", x)
	sum = g.Add(graph.Addition, "sum", relu, w)
	product = g.Add(graph.Multiplication, "product", sum, z)
	g.Outputs = []int{product}
	return g, relu, sum, product, map[int][]float64{x: {-1, 3}, z: {5, 7}, relu: {0, 3}, sum: {1, 5}, product: {5, 35}}
}

// TestTo: each part of a graph, cut at whatever is known, makes of the known values what the whole graph makes, reads
// no other ones, and has no more nodes than it needs.
func TestTo(t *testing.T) {
	g, relu, sum, product, all := chain()
	x, z := g.Inputs[0], g.Inputs[1]
	for _, c := range []struct {
		end   int
		known []int
		from  []int
		nodes int
	}{
		{product, []int{x, z}, []int{x, z}, 3},
		{product, []int{x, z, relu}, []int{z, relu}, 2},
		{product, []int{x, z, sum}, []int{z, sum}, 1},
		{product, []int{x, z, sum, product}, []int{z, sum}, 1}, // it is not made of itself
		{sum, []int{x}, []int{x}, 2},
		{relu, []int{x, z, sum}, []int{x}, 1},
		{x, []int{x}, []int{x}, 1}, // handed on
	} {
		p, err := To(g, c.end, func(v int) bool { return slices.Contains(c.known, v) })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.From, c.from) || len(p.Nodes) != c.nodes || len(p.Inputs) != len(c.from) {
			t.Errorf("to %d of %v: from %v by %d nodes: want %v by %d", c.end, c.known, p.From, len(p.Nodes), c.from, c.nodes)
		}
		var in []*tensor.Tensor
		for _, v := range p.From {
			in = append(in, tensor.Of(fp16.Float32, all[v], 2))
		}
		types := make([]graph.Type, len(in))
		for k, v := range in {
			types[k] = graph.Type{Shape: v.Shape, Format: v.Format}
		}
		program, err := p.Infer(graph.Mode{Precision: fp16.Float32}, types...)
		if err != nil {
			t.Fatal(err)
		}
		run, err := program.Run(new(graph.Run), in...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(run[0].Data, all[c.end]) {
			t.Errorf("to %d of %v: %v: want %v", c.end, c.known, run[0].Data, all[c.end])
		}
	}
}

// TestToUnknown: what is made of a value that nobody knows or makes has no part, and the error names it.
func TestToUnknown(t *testing.T) {
	g, _, _, product, _ := chain()
	_, err := To(g, product, func(v int) bool { return v == g.Inputs[0] })
	if err == nil || !strings.Contains(err.Error(), `"z", which nothing makes`) {
		t.Errorf("error %v: want one that names z", err)
	}
}
