package fault

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// TestConstants: an operation of constants alone has no faults, wherever else a fault acts.
func TestConstants(t *testing.T) {
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	scale := g.Add(graph.Act{Func: act.Tanh}, "scale", g.Constant("w", tensor.Of(fp16.Float64, []float64{1, 2}, 2)))
	g.Outputs = []int{g.Add(graph.Act{Func: act.Tanh}, "out", g.Add(graph.Addition, "sum", x, scale))}
	of := trial.NewGraph(g, graph.Mode{Precision: fp16.Float32}, func(int) graph.Type {
		return graph.Type{Shape: []int{2}, Format: fp16.Float64}
	})
	acted := 0
	for _, h := range Library() {
		for _, alone := range []bool{false, true} {
			for _, s := range of.Scopes(h, alone) {
				wrong := of.With(h, s)
				if wrong.Nodes[0].Op != g.Nodes[0].Op {
					t.Errorf("%s acts on an operation of constants", h.Row.ID)
				}
				for i := range wrong.Nodes {
					if wrong.Nodes[i].Op != g.Nodes[i].Op {
						acted++
					}
				}
			}
		}
	}
	if acted == 0 {
		t.Error("no fault acts on any operation")
	}
}
