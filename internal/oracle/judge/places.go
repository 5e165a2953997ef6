package judge

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// argsort is ATen's argsort, the places of the numbers along an axis in their order. Of equal numbers any may be the
// first, unless it is stable: places are judged by what stands there.
type argsort struct{ graph.Sort }

// Name implements [graph.Op].
func (argsort) Name() string { return "argsort" }

// Infer implements [graph.Op].
func (o argsort) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	inf, err := o.Sort.Infer(m, in)
	if err == nil {
		inf.Out = inf.Out[1:]
	}
	return inf, err
}

// Eval implements [graph.Op].
func (argsort) Eval(*graph.Call) error {
	return fmt.Errorf("argsort inside a graph: %w", ErrNotJudged)
}

// placesOf is the node that puts numbers in order, if the question asks for their places: an argsort, a sort or a topk.
// So it is for the greatest or least of numbers that a kernel computed; of given ones it is the first.
func (q *Question) placesOf() *graph.Node {
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		if n.Out[len(n.Out)-1] != q.Graph.Outputs[0] {
			continue
		}
		switch op := n.Op.(type) {
		case argsort, graph.Sort, graph.TopK:
			return n
		case graph.ArgMax:
			if op.Axis != nil && !slices.Contains(q.Graph.Inputs, n.In[0]) {
				return n
			}
		case graph.Extreme:
			if len(n.Out) > 1 && op.Axis != nil && !slices.Contains(q.Graph.Inputs, n.In[0]) {
				return n
			}
		}
	}
	return nil
}

// inOrder checks places: the numbers there are those of the order, and the places of a line are all different. Where a
// kernel computed the numbers, it takes the exact ones at its places. In that order they are as near to the exact order
// as the kernel's own numbers are.
func (q *Question) inOrder(n *graph.Node) (*Report, error) {
	order, axis, stable := n.Op, 0, false
	switch op := n.Op.(type) {
	case argsort:
		order, axis, stable = op.Sort, op.Axis, op.Stable
	case graph.Sort:
		axis, stable = op.Axis, op.Stable
	case graph.TopK:
		axis = op.Axis
	case graph.Extreme:
		axis = *op.Axis
	case graph.ArgMax:
		axis, order = *op.Axis, graph.Extreme(op)
	}
	x, err := q.numbersAt(n.In[0])
	if err != nil {
		return nil, err
	}
	sorted, err := apply(order, x)
	got := q.Output
	switch {
	case err != nil:
		return nil, err
	case got.Format != fp16.Int64:
		return nil, fmt.Errorf("output of %v numbers: want whole ones, which are places", got.Format)
	case !slices.Equal(got.Shape, sorted[0].Shape):
		return nil, fmt.Errorf("output of shape %v: want %v", got.Shape, sorted[0].Shape)
	}
	taken, wrong := take(x, got, sorted[0], axis, stable)
	g := q.upTo(n.In[0])
	g.Outputs = g.AddNode(order, g.Values[n.Out[0]].Name, 2, n.In[0])[:1]
	of := *q
	of.Graph, of.Output = g, taken
	r, err := Check(of)
	if err != nil {
		return nil, err
	}
	if r.Store = got.Format.String(); wrong != "" && r.Verdict == Fail {
		r.Reason = wrong
	}
	return r, nil
}

// upTo is the graph up to a value, its output.
func (q *Question) upTo(value int) *graph.Graph {
	g := *q.Graph
	g.Outputs = []int{value}
	for i := range g.Nodes {
		if slices.Contains(g.Nodes[i].Out, value) {
			g.Nodes = slices.Clip(g.Nodes[:i+1])
			return &g
		}
	}
	g.Nodes = nil // it is an input
	return &g
}

// numbersAt are the numbers of a value, rounded once to float32 if they are computed.
func (q *Question) numbersAt(value int) (*tensor.Tensor, error) {
	if k := slices.Index(q.Graph.Inputs, value); k >= 0 {
		return q.Inputs[k], nil
	}
	of := *q
	of.Graph = q.upTo(value)
	all, err := of.exact()
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// take returns the numbers at places along an axis, and what is wrong with the first place that is none, or that a
// stable order has elsewhere: another number than the right one stands for these.
func take(x, places, sorted *tensor.Tensor, axis int, stable bool) (taken *tensor.Tensor, wrong string) {
	taken = tensor.New(x.Format, places.Shape...)
	n, of, step := 1, 1, 1 // numbers of a line, and places: of an extreme one, whose axis may be gone
	if rank := len(x.Shape); rank > 0 {
		a := (axis + rank) % rank
		n, step = x.Shape[a], tensor.Size(x.Shape[a+1:])
		of = len(places.Data) * n / max(len(x.Data), 1)
	}
	for line := range len(places.Data) / max(of, 1) {
		row, column := line/step, line%step
		from, to, seen, before := row*step*n+column, row*step*of+column, make([]bool, n), -1
		for k := range of {
			i := to + k*step
			p := int(places.Data[i])
			why := ""
			switch {
			case p < 0 || p >= n:
				why = fmt.Sprintf("place %d of a line of %d", p, n)
			case seen[p]:
				why = fmt.Sprintf("place %d twice in a line", p)
			case stable && before > p && same64(x.Data[from+before*step], x.Data[from+p*step]):
				why = fmt.Sprintf("places %d and %d of equal numbers: want the first one first, as it is stable", before, p)
			}
			if why == "" {
				taken.Data[i], seen[p], before = x.Data[from+p*step], true, p
				continue
			}
			if wrong == "" {
				wrong = fmt.Sprintf("element %d: %s", i, why)
			}
			if sorted.Data[i] == 0 {
				taken.Data[i] = 1
			}
		}
	}
	return taken, wrong
}

// same64 reports whether two numbers are equal, or both NaN.
func same64(a, b float64) bool { return a == b || a != a && b != b }
