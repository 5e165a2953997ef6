package lower

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Exact evaluates a graph in float64, and rounds the result of each node with round, if it is not nil.
func Exact(g *graph.Graph, inputs []*tensor.Tensor, round func(t *tensor.Tensor)) ([]float64, error) {
	types, in := make([]graph.Type, len(inputs)), slices.Clone(inputs)
	for i, x := range in {
		if x.Format != fp16.Int64 {
			in[i] = tensor.Of(fp16.Float64, x.Data, x.Shape...)
		}
		types[i] = graph.Type{Shape: x.Shape, Format: in[i].Format}
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		return nil, err
	}
	r := new(graph.Run)
	if round != nil {
		r.Seen = func(_ int, t *tensor.Tensor) { round(t) }
	}
	out, err := p.Run(r, in...)
	if err != nil {
		return nil, err
	}
	return out[0].Data, nil
}
