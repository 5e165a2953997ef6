package plan

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// mostSettled is how many numbers a value may have that is kept as long as a plan: 32 MB of them.
const mostSettled = 1 << 22

// settled returns the graph with what depends on constants alone as constants, which are evaluated once: windows that
// a file computes, say, or weights. Results depend on the mode, so that they cannot be evaluated when the file is
// read. In autocast the graph stays as it is: a constant of a half format is not treated there as a result of that
// format is.
func settled(g *graph.Graph, program *graph.Program, mode graph.Mode) *graph.Graph {
	if mode.Precision != fp16.Float32 {
		return g
	}
	known, rest := make([]*tensor.Tensor, len(g.Values)), []graph.Node(nil)
	for i := range g.Nodes {
		if !settle(g, program, i, known) {
			rest = append(rest, g.Nodes[i])
		}
	}
	if len(rest) == len(g.Nodes) {
		return g
	}
	of := *g
	of.Values, of.Nodes = slices.Clone(g.Values), rest
	read := func(values []int) {
		for _, v := range values {
			if known[v] != nil {
				of.Values[v].Const = known[v]
			}
		}
	}
	for i := range rest {
		read(rest[i].In)
	}
	read(g.Outputs)
	return &of
}

// settle evaluates node i if all that it reads is constant, and reports whether it did.
func settle(g *graph.Graph, program *graph.Program, i int, known []*tensor.Tensor) bool {
	n := &g.Nodes[i]
	if _, random := n.Op.(graph.Noise); random {
		return false
	}
	var in, out []*tensor.Tensor
	for _, v := range n.In {
		if known[v] == nil && g.Values[v].Const == nil {
			return false
		}
		in = append(in, known[v])
	}
	for _, v := range n.Out {
		t := program.Type(v)
		if tensor.Size(t.Shape) > mostSettled {
			return false
		}
		out = append(out, tensor.New(t.Format, t.Shape...))
	}
	if program.Eval(new(graph.Run), i, out, in) != nil { // which a run will say
		return false
	}
	for k, v := range n.Out {
		known[v] = out[k]
	}
	return true
}
