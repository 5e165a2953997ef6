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

// inOrder checks the output of an argsort: the numbers at its places are those of a sort, which makes no error, and the
// places of a line are all different.
func (q *Question) inOrder(o argsort) (*Report, error) {
	x, got := q.Inputs[0], q.Output
	sorted, err := apply(o.Sort, x)
	switch {
	case err != nil:
		return nil, err
	case got.Format != fp16.Int64:
		return nil, fmt.Errorf("output of %v numbers: want whole ones, which are places", got.Format)
	case !slices.Equal(got.Shape, x.Shape):
		return nil, fmt.Errorf("output of shape %v: want %v", got.Shape, x.Shape)
	}
	g := graph.New(nil)
	g.Outputs = g.AddNode(o.Sort, "output", 2, g.Input("input"))[:1]
	taken, wrong := o.take(x, got, sorted[0])
	r, err := Check(Question{Graph: g, Inputs: q.Inputs, Output: taken})
	if err != nil {
		return nil, err
	}
	if r.Store = got.Format.String(); wrong != "" && r.Verdict == Fail {
		r.Reason = wrong
	}
	return r, nil
}

// take returns the numbers at places, and what is wrong with the first place that is none, or that a stable order has
// elsewhere: another number than the right one stands for these.
func (o argsort) take(x, places, sorted *tensor.Tensor) (taken *tensor.Tensor, wrong string) {
	taken = tensor.New(x.Format, x.Shape...)
	n, step := 1, 1
	if rank := len(x.Shape); rank > 0 {
		a := (o.Axis + rank) % rank
		n, step = x.Shape[a], tensor.Size(x.Shape[a+1:])
	}
	for line := range len(x.Data) / max(n, 1) {
		first, seen, before := line/step*step*n+line%step, make([]bool, n), -1
		for k := range n {
			i := first + k*step
			p := int(places.Data[i])
			why := ""
			switch {
			case p < 0 || p >= n:
				why = fmt.Sprintf("place %d of a line of %d", p, n)
			case seen[p]:
				why = fmt.Sprintf("place %d twice in a line", p)
			case o.Stable && before > p && same64(x.Data[first+before*step], x.Data[first+p*step]):
				why = fmt.Sprintf("places %d and %d of equal numbers: want the first one first, as it is stable", before, p)
			}
			if why == "" {
				taken.Data[i], seen[p], before = x.Data[first+p*step], true, p
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
