package lower

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestWholeFunctions: layers are one function with what reads them where nothing else does: another reader would lose
// their bias, or their rounding.
func TestWholeFunctions(t *testing.T) {
	for _, other := range []bool{false, true} {
		g := graph.New(new(graph.Kept))
		weight := func(n int) int { return g.Constant("", tensor.New(fp16.Float32, n, 4)) }
		bias := func(n int) int { return g.Constant("", tensor.New(fp16.Float32, n)) }
		x, h := g.Input("x"), g.Input("h")
		state := g.Add(graph.Linear{}, "state", h, weight(4), bias(4))
		input := g.Add(graph.Linear{}, "input", x, weight(4), bias(4))
		step := g.Add(graph.Select{Axis: 0}, "step", input)
		gates := g.Add(graph.Addition, "gates", state, step)
		all := g.Add(graph.Linear{}, "all", gates, weight(12), bias(12))
		parts := g.AddNode(graph.Chunk{Chunks: 3, Axis: -1}, "parts", 3, all)
		y := g.Add(graph.Attention{}, "attention", parts...)
		g.Outputs = []int{y}
		if other {
			g.Outputs = append(g.Outputs, g.Add(sqrt, "a", step), g.Add(graph.Binary{Of: pointwise.Add}, "b", parts[1], y))
		}
		want := 1
		if other {
			want = 0
		}
		if r, p := len(recurrences(g)), len(projections(g)); r != want || p != want {
			t.Errorf("another reader %v: %d recurrences, %d projections: want %d", other, r, p, want)
		}
	}
}
