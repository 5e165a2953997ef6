package judge

import "github.com/refrun/refrun/graph"

// statistics adds the steps of sums and means that kernels compute in several operations, none for
// other nodes.
func (b *builder) statistics(n *graph.Node, in []int) []int {
	one := func(v int) []int { return []int{v} }
	shape := b.types[n.In[0]].Shape
	switch op := n.Op.(type) {
	case graph.Reduction:
		last := graph.Reduction{Of: "sum", Axes: op.Axes, Keep: op.Keep}
		switch op.Of {
		case "sum_squares":
			return one(b.step("output", last, b.may(true, b.step("squares", unary("square"), in[0]))))
		case "log_sum":
			return one(b.step("output", unary("log"), b.may(true, b.step("sum", last, in[0]))))
		}
	case graph.InverseStd:
		v := b.variance(graph.Var{Axes: op.Axes, Correction: new(int), Keep: op.Keep}, shape, in[0])
		return one(b.step("output", unary("reciprocal"),
			b.step("deviation", unary("sqrt"), b.step("variance_eps", plus, v, b.number(op.Eps)))))
	case graph.Running:
		axes := graph.Ints{0}
		for a := 2; a < len(shape); a++ {
			axes = append(axes, a)
		}
		var now int
		if op.Var {
			now = b.variance(graph.Var{Axes: axes, Correction: new(int)}, shape, in[0])
		} else {
			now = b.step("mean", graph.Reduction{Of: "mean", Axes: axes}, in[0])
		}
		kept := b.step("kept", mul, in[1], b.number(op.Momentum))
		return one(b.step("output", plus, kept, b.step("new", mul, now, b.number(1-op.Momentum))))
	case graph.LpNormalize:
		sum := over("sum", op.Axis)
		if op.P == 1 {
			return one(b.step("output", div, in[0], b.step("norm", sum, b.step("sizes", unary("abs"), in[0]))))
		}
		s := b.step("sum", sum, b.step("squares", unary("square"), in[0]))
		return one(b.step("output", div, in[0], b.step("norm", unary("sqrt"), s)))
	}
	return nil
}
