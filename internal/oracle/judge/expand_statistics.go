package judge

import (
	"encoding/json"
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

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
	case graph.MeanVariance:
		axes := []int(op.Axes)
		if len(axes) == 0 {
			axes = lastAxes(shape, len(shape))
		}
		b.outside = true
		defer func() { b.outside = false }()
		return one(b.norm(in[0], shape, axes, 1e-9, -1, -1))
	case graph.LpPool:
		return one(b.lpPool(op, len(shape)-2, in[0]))
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

// lpPool is the root of order p of the sum of |x|^p over each window.
func (b *builder) lpPool(op graph.LpPool, axes, x int) int {
	one := 1
	attributes, err := json.Marshal(graph.AvgPool{Kernel: op.Kernel, Stride: op.Stride, Padding: op.Padding,
		Dilation: op.Dilation, Ceil: op.Ceil, Divisor: &one})
	if err != nil {
		panic("judge: " + err.Error())
	}
	sum, err := graph.Bind(fmt.Sprintf("avg_pool%dd", axes), attributes)
	if err != nil {
		panic("judge: " + err.Error())
	}
	size := b.step("size", unary("abs"), x)
	switch op.P {
	case 1:
		return b.step("output", sum, size)
	case 2:
		squares := b.may(true, b.step("square", unary("square"), x))
		return b.step("output", unary("sqrt"), b.may(true, b.step("sum", sum, squares)))
	}
	to := func(p float64) graph.Op { return graph.Binary{Of: pointwise.Pow, Other: &p} }
	powers := b.may(true, b.step("power", to(float64(op.P)), size))
	return b.step("output", to(1/float64(op.P)), b.may(true, b.step("sum", sum, powers)))
}
