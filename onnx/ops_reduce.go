package onnx

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// axes returns the axes of a reduction: an attribute, or an input. No axes are all, or, if
// the attribute says so, none: then it is false.
func (c *call) axes() (graph.Ints, bool) {
	axes, _ := c.numbers(1, "axes")
	if c.flag("noop_with_empty_axes") && len(axes) == 0 {
		return nil, false
	}
	return graph.Ints(axes), true
}

// reduction maps what makes one number of many.
func reduction(of string) mapping {
	return func(c *call) []int {
		axes, some := c.axes()
		keep := c.int("keepdims", 1) != 0
		if !some {
			return one(c.arg(0))
		}
		return one(c.add(graph.Reduction{Of: of, Axes: axes, Keep: keep}, c.arg(0)))
	}
}

// norms maps norms of an order.
func norms(order graph.Order) mapping {
	return func(c *call) []int {
		axes, some := c.axes()
		keep := c.int("keepdims", 1) != 0
		if !some {
			return one(c.bind("abs", nil, c.arg(0)))
		}
		return one(c.add(graph.VectorNorm{Order: order, Axes: axes, Keep: keep}, c.arg(0)))
	}
}

// opReduceLogSum is the logarithm of a sum.
func opReduceLogSum(c *call) []int { return c.reduceOr("log_sum", "log") }

// opReduceSumSquare is a sum of squares, of whole numbers as two operations.
func opReduceSumSquare(c *call) []int {
	if c.dtype(c.arg(0)).whole() {
		axes, _ := c.axes()
		o := graph.Reduction{Of: "sum", Axes: axes, Keep: c.int("keepdims", 1) != 0}
		return one(c.add(o, c.bind("square", nil, c.arg(0))))
	}
	return c.reduceOr("sum_squares", "square")
}

// reduceOr is a reduction, or along no axes a function of each number.
func (c *call) reduceOr(of, each string) []int {
	axes, some := c.axes()
	keep := c.int("keepdims", 1) != 0
	if !some {
		return one(c.bind(each, nil, c.arg(0)))
	}
	return one(c.add(graph.Reduction{Of: of, Axes: axes, Keep: keep}, c.arg(0)))
}

func argMax(least bool) mapping {
	return func(c *call) []int {
		axis := c.int("axis", 0)
		o := graph.ArgMax{Least: least, Axis: &axis, Keep: c.int("keepdims", 1) != 0}
		x := c.arg(0)
		if !c.flag("select_last_index") {
			return one(c.as(c.add(o, x), Int64))
		}
		first := c.as(c.add(o, c.add(graph.Flip{Axes: graph.Ints{axis}}, x)), Int64) // counted from the end
		if c.err != nil {
			return nil
		}
		last := float64(c.shape(x)[(axis+c.rank(x))%c.rank(x)] - 1)
		return one(c.as(c.add(graph.Binary{Of: pointwise.Sub, Self: &last}, first), Int64))
	}
}

// opHardmax is 1 at the first of the greatest numbers of a line, and 0 elsewhere.
func opHardmax(c *call) []int {
	x := c.arg(0)
	usual := -1
	if c.opset < 13 {
		usual = 1
	}
	axis := c.axis("axis", usual, c.rank(x))
	if c.err != nil {
		return nil
	}
	s := c.shape(x)
	of, line := x, s
	if c.opset < 13 { // of which all axes from there on are one
		line, axis = []int{elements(s[:axis]), elements(s[axis:])}, 1
		of = c.reshape(x, line, true)
	}
	places, shape := make([]int, line[axis]), slices.Repeat([]int{1}, len(line))
	for i := range places {
		places[i] = i
	}
	shape[axis] = len(places)
	first := c.as(c.add(graph.ArgMax{Axis: &axis, Keep: true}, of), Int64)
	hot := c.add(graph.Binary{Of: pointwise.Equal}, first, c.wholes(shape, places...))
	return one(c.reshape(c.cast(hot, c.dtype(x)), s, true))
}

func opTopK(c *call) []int {
	k := c.known(1, "k")
	if c.err == nil && len(k) != 1 {
		c.fail("k: %d numbers: want one", len(k))
	}
	o := graph.TopK{Axis: c.int("axis", -1), Largest: c.int("largest", 1) != 0, Sorted: c.int("sorted", 1) != 0}
	if c.err != nil {
		return nil
	}
	o.K = k[0]
	out := c.addAll(o, 2, c.arg(0))
	if out != nil {
		c.as(out[1], Int64)
	}
	return out
}

func opCumSum(c *call) []int {
	axis := c.known(1, "axis")
	if c.err == nil && len(axis) != 1 {
		c.fail("axis: %d numbers: want one", len(axis))
	}
	o := graph.CumSum{Exclusive: c.flag("exclusive"), Reverse: c.flag("reverse")}
	if c.err != nil {
		return nil
	}
	o.Axis = axis[0]
	return one(c.add(o, c.arg(0)))
}

// softmax is along one axis since opset 13; before it was over all from the axis on.
func softmax(log bool) mapping {
	return func(c *call) []int {
		x := c.arg(0)
		if c.opset >= 13 {
			return one(c.add(graph.Softmax{Log: log, Axis: c.int("axis", -1)}, x))
		}
		at := c.axis("axis", 1, c.rank(x))
		if c.err != nil {
			return nil
		}
		s := c.shape(x)
		y := c.add(graph.Softmax{Log: log, Axis: 1}, c.reshape(x, []int{elements(s[:at]), elements(s[at:])}, true))
		return one(c.reshape(y, s, true))
	}
}
