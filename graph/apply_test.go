package graph_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/tensor"
)

// TestApply: of every operation that is drawn, what it gives alone is what a graph of it gives, with operands as they
// are stored and as autocast rounds them.
func TestApply(t *testing.T) {
	for _, mode := range []graph.Mode{{Precision: fp16.Float32}, {Precision: fp16.BFloat16, Autocast: graph.CUDA2}} {
		applyAlone(t, mode)
	}
	linear, err := graph.Bind("linear", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Apply(linear, graph.Mode{Precision: fp16.Float32}, tensor.New,
		tensor.New(fp16.Float32, 3)); err == nil || !strings.HasPrefix(err.Error(), "linear: ") {
		t.Errorf("%v: want an error of linear", err)
	}
}

func applyAlone(t *testing.T, mode graph.Mode) {
	compared := 0
	for _, name := range randgraph.Names() {
		c := randgraph.Of(name, 1)
		var types []graph.Type
		in := c.Inputs(1)
		for _, x := range in {
			types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
		}
		p, err := c.Graph.Infer(mode, types...)
		if err != nil || len(c.Graph.Nodes) != 1 || !slices.Equal(c.Graph.Nodes[0].In, c.Graph.Inputs) ||
			len(c.Graph.Outputs) == 0 {
			continue
		}
		want, err := p.Run(&graph.Run{}, in...)
		if err != nil {
			continue
		}
		got, err := graph.Apply(c.Graph.Nodes[0].Op, mode, tensor.New, in...)
		if err != nil {
			t.Fatal(name, err)
		}
		for k, v := range c.Graph.Nodes[0].Out {
			if v == c.Graph.Outputs[0] && !sameTensor(got[k], want[0]) {
				t.Errorf("%s: %v: want %v", name, got[k], want[0])
			}
		}
		compared++
	}
	if compared < 80 {
		t.Errorf("%d operations were compared", compared)
	}
}

func sameTensor(a, b *tensor.Tensor) bool {
	return a.Format == b.Format && a.SameShape(b) &&
		slices.EqualFunc(a.Data, b.Data, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}
