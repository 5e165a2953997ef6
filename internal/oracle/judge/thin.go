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

// Of a chain of many operations intervals say nothing: through norms and functions they grow to hundreds and
// millions of the deviations that right kernels have, and to infinity where a variance may be 0. So such a chain is
// evaluated thinly: numbers and the deviations of each step's own errors, without radii. What is not finite is held
// to what simulated kernels return, and all else to their statistics.

// thinStep is step without radii.
func thinStep(op graph.Op, in []ball, acc accumulator) ([]ball, error) {
	out, err := bounds(op, in, acc)
	for k := range out {
		release(out[k].r)
		out[k].r = nil
	}
	return out, err
}

// thinProduct is product without radii.
func thinProduct(op graph.Op, in []ball, v *tensor.Tensor, n float64, acc accumulator) ([]ball, error) {
	q, err := of(acc, op, in, func(b ball) *tensor.Tensor { return squares(b.v) })
	if err != nil {
		return nil, err
	}
	out := ball{v: v, sigma: fresh(fp16.Float64, v.Shape...), sum: true, lost: lost(n)}
	if acc.cores != nil {
		out.cut, out.drift = fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	}
	for i, s := range v.Data {
		out.sigma.Data[i] = acc.sigma(n, s, q.Data[i])
		if acc.cores != nil {
			out.cut.Data[i], out.drift.Data[i] = acc.cores.sigma(n, q.Data[i]), acc.cores.drift(n, s)
		}
	}
	release(q)
	return []ball{out}, nil
}

// jumping are functions that are not continuous: near an edge, right kernels that differ by a rounding return
// results that differ by much more.
var jumping = map[string]bool{
	"floor": true, "ceil": true, "round": true, "trunc": true, "sign": true, "hardshrink": true,
}

// Unknown returns the first node of a chain of which it is not known what right kernels return, "" if there is
// none: an operation that is not known at all, or one with jumps that reads numbers which are not exact.
func (q *Question) Unknown() (node string, err error) {
	exact := make([]bool, len(q.Graph.Values))
	for v := range q.Graph.Values {
		exact[v] = q.Graph.Values[v].Const != nil || slices.Contains(q.Graph.Inputs, v)
	}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		given := !slices.ContainsFunc(n.In, func(v int) bool { return !exact[v] })
		if !stepsKnown(n.Op) || !given && jumps(n.Op) {
			return q.Graph.Name(n), fmt.Errorf("%s: %w", n.Op.Name(), errNotJudged)
		}
		for _, v := range n.Out {
			exact[v] = given && moves[n.Op.Name()]
		}
	}
	return "", nil
}

// stepsKnown is Knows, with what rollouts do to states.
func stepsKnown(op graph.Op) bool {
	switch op.(type) {
	case graph.MinMax, graph.ZScore:
		return true
	}
	return Knows(op)
}

func jumps(op graph.Op) bool {
	switch op := op.(type) {
	case graph.Binary:
		return op.Of < pointwise.Equal && !computes(op) && op.Of != pointwise.PReLU
	case graph.Cast:
		f, err := fp16.ParseFormat(op.Dtype)
		return err != nil || f == fp16.Int64
	}
	return jumping[op.Name()]
}

// minmax are the steps of (x - least)/(greatest - least).
func (b *builder) minmax(start int, shape []int, x int) int {
	if tensor.Size(shape[start:]) == 1 { // there is no range, and the number stays
		return b.step("output", same, x)
	}
	axes := lastAxes(shape, len(shape)-start)
	least, most := b.step("least", over("amin", axes...), x), b.step("greatest", over("amax", axes...), x)
	return b.step("output", div, b.step("shifted", sub, x, least), b.step("range", sub, most, least))
}

// zscore are those of (x - mean)/(deviation + 1e-8), of the variance over n - 1.
func (b *builder) zscore(start int, shape []int, x int) int {
	axes, n := lastAxes(shape, len(shape)-start), tensor.Size(shape[start:])
	if n == 1 { // 0/0
		return b.step("output", mul, b.step("centered", sub, x, x), b.number(math.Inf(1)))
	}
	centered := b.step("centered", sub, x, b.step("mean", over("mean", axes...), x))
	sum := b.step("sum", over("sum", axes...), b.step("square", unary("square"), centered))
	variance := b.step("variance", mul, sum, b.number(1/float64(max(1, n-1))))
	return b.step("output", div, centered,
		b.step("deviation_eps", plus, b.squareRoot("deviation", variance), b.number(1e-8)))
}
