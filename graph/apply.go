package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Apply evaluates an operation alone, of inputs as they are stored, without noise, and returns its outputs: tensors
// that fresh makes. It is a program of one node, of which no memory is counted: who evaluates one operation
// after the other, of small tensors, would pay more for a graph of each than for the numbers.
func Apply(
	op Op, m Mode, fresh func(f fp16.Format, shape ...int) *tensor.Tensor, in ...*tensor.Tensor,
) ([]*tensor.Tensor, error) {
	n := Node{Op: op, In: make([]int, len(in))}
	p := &Program{mode: m, types: make([]Type, len(in))}
	for k, t := range in {
		n.In[k], p.types[k] = k, Type{t.Shape, t.Format}
	}
	inferred, err := op.Infer(m, p.types)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name(), err)
	}
	out := make([]*tensor.Tensor, len(inferred.Out))
	for k, t := range inferred.Out {
		if err := bounded(t.Shape); err != nil {
			return nil, fmt.Errorf("%s: %w", op.Name(), err)
		}
		out[k] = fresh(t.Format, t.Shape...)
		n.Out = append(n.Out, len(in)+k)
	}
	p.types = append(p.types, inferred.Out...)
	p.nodes = []Inference{inferred}
	p.graph = &Graph{Values: make([]Value, len(p.types)), Nodes: []Node{n}, Inputs: n.In, Outputs: n.Out}
	if err := op.Eval(&Call{Mode: m, Out: out, program: p, in: in}); err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name(), err)
	}
	return out, nil
}
