package judge

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
)

// fits returns an error if an evaluation with so many simulated kernels takes more memory than there is: of each
// value of the steps its number and its radius, and its number in every kernel, as long as the value is read; and of
// the output as much again, which a trial keeps. What is evaluated in blocks takes little besides the output.
func (q *Question) fits(kernels int) error {
	types, err := q.types()
	if err != nil {
		return err
	}
	output := memory.Product(8, int64(len(q.Output.Data)), int64(3+kernels))
	if len(q.blocks(types)) > 1 {
		return memory.Fits(output)
	}
	b := expand(q.Graph, types, Form{written: q.Written}, q.built)
	in := make([]graph.Type, len(q.Inputs))
	for k, v := range q.Graph.Inputs {
		in[k] = types[v]
	}
	p, err := b.Infer(graph.Mode{}, in...)
	if err != nil {
		return err
	}
	given := p.Given()
	return p.Within(memory.Sum(output, given, memory.Product(p.Between()-given, int64(2+kernels))))
}
