package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// KernelOutputs returns the graph of an operation, as [Kernel] does, with further outputs that kernels of it return for
// their backward pass: mean and rstd of norms, rstd of rms_norm, lse of an attention, and of batch_norm in training
// running_mean and running_var, updated. Inputs are of those shapes; outputs are names, "output" that of the operation.
func KernelOutputs(
	op string, attributes []byte, names []string, in map[string]*tensor.Tensor, outputs []string,
) (*graph.Graph, []string, error) {
	g, order, err := Kernel(op, attributes, names)
	if err != nil {
		return nil, nil, err
	}
	e := extras{Graph: g, n: g.Nodes[len(g.Nodes)-1]}
	for _, name := range order {
		e.in = append(e.in, in[name])
	}
	e.shape = e.in[0].Shape
	known := e.known()
	var of []int
	for _, name := range outputs {
		if name == "output" {
			of = append(of, g.Outputs[0])
			continue
		}
		if !slices.Contains(known, name) {
			return nil, nil, fmt.Errorf("%s: output %.60q: want %v", op, name, append([]string{"output"}, known...))
		}
		of = append(of, e.add(name))
	}
	g.Outputs = of
	return g, order, nil
}

// extras are what a kernel returns beside its output.
type extras struct {
	*graph.Graph
	n     graph.Node
	in    []*tensor.Tensor
	shape []int // of the first input
}

// known are the names of what there is.
func (e *extras) known() []string {
	switch op := e.n.Op.(type) {
	case graph.LayerNorm, graph.GroupNorm, graph.InstanceNorm:
		return []string{"mean", "rstd"}
	case graph.RMSNorm:
		return []string{"rstd"}
	case graph.BatchNorm:
		if op.Training {
			return []string{"mean", "rstd"}
		}
	case graph.Attention:
		return []string{"lse"}
	}
	return nil
}

// add adds an output of that name.
func (e *extras) add(name string) int {
	switch op := e.n.Op.(type) {
	case graph.LayerNorm:
		return e.statistic(name, e.n.In[0], lastAxes(e.shape, max(len(op.Shape), 1)), op.Eps)
	case graph.RMSNorm:
		eps := defaultEps
		if op.Eps != nil {
			eps = *op.Eps
		}
		square := e.Add(unary("square"), "squares", e.n.In[0])
		return e.rstd(e.Add(over("mean", lastAxes(e.shape, max(len(op.Shape), 1))...), "mean_square", square), eps)
	case graph.GroupNorm:
		return e.grouped(name, op.Groups, op.Eps)
	case graph.InstanceNorm:
		return e.grouped(name, e.shape[1], op.Eps)
	case graph.BatchNorm:
		axes := []int{0}
		for a := 2; a < len(e.shape); a++ {
			axes = append(axes, a)
		}
		return e.statistic(name, e.n.In[0], axes, op.Eps)
	}
	return e.lse(e.n.Op.(graph.Attention))
}

// grouped is a statistic of groups of channels.
func (e *extras) grouped(name string, groups int, eps float64) int {
	x := e.Add(graph.Reshape{Shape: []int{e.shape[0], groups, -1}}, "grouped_for_"+name, e.n.In[0])
	return e.statistic(name, x, []int{2}, eps)
}

// statistic is the mean, or 1/sqrt(variance + eps).
func (e *extras) statistic(name string, x int, axes []int, eps float64) int {
	if name == "mean" {
		return e.Add(over("mean", axes...), "mean", x)
	}
	return e.rstd(e.Add(graph.Var{Axes: axes, Correction: new(int), Keep: true}, "variance", x), eps)
}

func (e *extras) rstd(v int, eps float64) int {
	return e.Add(unary("rsqrt"), "rstd", e.Add(graph.Binary{Of: pointwise.Add, Other: &eps}, "variance_eps", v))
}

// lse is the logarithm of the sum of e^score of each query.
func (e *extras) lse(op graph.Attention) int {
	q, k := e.in[0].Shape, e.in[1].Shape
	scale := 1 / math.Sqrt(float64(q[len(q)-1]))
	if op.Scale != nil {
		scale = *op.Scale
	}
	key := e.n.In[1]
	if h := len(q) - 3; op.Grouped && h >= 0 && q[h] != k[h] {
		key = e.Add(graph.RepeatInterleave{Repeats: q[h] / max(1, k[h]), Axis: &h}, "key_heads", key)
	}
	scores := e.Add(graph.MatMul{}, "products", e.n.In[0], e.Add(graph.Transpose{A: -2, B: -1}, "key_transposed", key))
	scores = e.Add(graph.Binary{Of: pointwise.Mul, Other: &scale}, "scores", scores)
	hidden := func(mask int) int {
		return e.Add(graph.Where{}, "masked", mask, scores,
			e.Constant("hidden", tensor.Of(fp16.Float64, []float64{math.Inf(-1)})))
	}
	switch {
	case op.Causal:
		scores = hidden(e.Constant("mask", causal(q[len(q)-2], k[len(k)-2], 0)))
	case len(e.n.In) > 3 && e.in[3].Format == fp16.Int64:
		scores = hidden(e.n.In[3])
	case len(e.n.In) > 3:
		return e.Add(graph.Reduction{Of: "logsumexp", Axes: []int{-1}}, "lse", e.Add(plus, "masked", scores, e.n.In[3]))
	}
	return e.Add(graph.Reduction{Of: "logsumexp", Axes: []int{-1}}, "lse", scores)
}
