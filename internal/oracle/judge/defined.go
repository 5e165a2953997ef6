package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// defined puts the number of the operations' definitions where their steps have none. At an
// infinity the one function can have a limit that its usual steps miss: softsign is 1, and
// x/(1 + |x|) is Inf/Inf. A kernel that returns the limit is right there, and so is one that
// returns NaN.
func (q *Question) defined(y []float64) {
	if q.built.id != "" { // of a fault there is no definition, but kernels may write 0 for 0/0
		for i, v := range y {
			if v != v && q.Output.Data[i] == 0 {
				y[i] = 0
			}
		}
		return
	}
	missed := func(i int) bool { return y[i] != y[i] && q.Output.Data[i] == q.Output.Data[i] }
	var of []float64
	for i := range y {
		if !missed(i) {
			continue
		}
		if of == nil {
			out, err := q.exact()
			if err != nil { // an operation that has steps alone
				return
			}
			of = out[0].Data
		}
		y[i] = of[i]
	}
}

// exact is what the operations' definitions make of the inputs, each rounded once to the format of its
// inputs: in float64 a weight of e^-800 would be 0, which makes NaN of an infinity.
func (q *Question) exact() ([]*tensor.Tensor, error) {
	var types []graph.Type
	for _, x := range q.Inputs {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	p, err := q.Graph.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		return nil, err
	}
	return p.Run(&graph.Run{}, q.Inputs...)
}

// withoutKeys puts what a kernel returns as the lse of a query all of whose keys are masked. It is -Inf, the
// logarithm of no numbers' sum; but a backward pass has e^(score - lse) of it, which must be 0 there, and
// FlashAttention-2 returns Inf, and PyTorch on a CPU 0.
func (q *Question) withoutKeys(y []float64) {
	last, is := q.Graph.Nodes[len(q.Graph.Nodes)-1].Op.(graph.Reduction)
	if !q.Attends || !is || last.Of != "logsumexp" || q.built.id != "" {
		return
	}
	for i, v := range y {
		if got := q.Output.Data[i]; math.IsInf(v, -1) && (got == 0 || math.IsInf(got, 1)) {
			y[i] = got
		}
	}
}
