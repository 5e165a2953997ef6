package judge

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/tensor"
)

// TestNeeds: what takes more memory than there is is refused before it is taken, by the node and in bytes.
func TestNeeds(t *testing.T) {
	defer memory.Limit(0)
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	wide := g.Add(graph.Expand{Size: graph.Ints{1, 1 << 20}}, "wide", x)
	g.Outputs = []int{g.Add(graph.Reduction{Of: "sum", Axes: graph.Ints{0, 1}, Keep: true}, "sum", wide)}
	q := Question{Graph: g, Inputs: []*tensor.Tensor{tensor.Of(fp16.Float32, []float64{1}, 1, 1)},
		Output: tensor.Of(fp16.Float32, []float64{1 << 20}, 1, 1)}
	for _, c := range []struct {
		limit int64
		want  string
	}{{100 << 20, "wide.output: with output [1 1048576] the graph takes "}, {1 << 30, ""}} {
		memory.Limit(c.limit)
		switch _, err := Check(q); {
		case c.want == "" && err != nil:
			t.Errorf("%d bytes: %v, want none", c.limit, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%d bytes: %v, want %q", c.limit, err, c.want)
		}
	}
}
