package onnx

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

func opGather(c *call) []int {
	return one(c.add(graph.IndexSelect{Axis: c.int("axis", 0), FromEnd: true}, c.arg(0), c.arg(1)))
}

func opGatherElements(c *call) []int {
	return one(c.add(graph.Gather{Axis: c.int("axis", 0), FromEnd: true}, c.arg(0), c.arg(1)))
}

func opGatherND(c *call) []int {
	return one(c.add(graph.GatherND{Batch: c.int("batch_dims", 0)}, c.arg(0), c.arg(1)))
}

// opOneHot has its second value where an index names the place along a new axis, counted from
// the end if it is negative, and its first elsewhere.
func opOneHot(c *call) []int {
	at, depth := c.arg(0), c.known(1, "depth")
	values := c.arg(2)
	rank := c.rank(at)
	axis := c.axis("axis", -1, rank+1)
	if c.err == nil && (len(depth) != 1 || depth[0] < 1) {
		c.fail("depth: want one number from 1 on")
	}
	if c.err != nil || !c.room(depth[0]) {
		return nil
	}
	n := depth[0]
	places, shape := make([]int, n), make([]int, rank+1)
	for i := range places {
		places[i] = i
	}
	for a := range shape {
		shape[a] = 1
	}
	shape[axis] = n
	i := c.add(graph.Unsqueeze{Axes: graph.Ints{axis}}, c.cast(at, Int64))
	zero, size := 0.0, float64(n)
	below := c.add(graph.Binary{Of: pointwise.Less, Other: &zero}, i)
	i = c.add(graph.Where{}, below, c.add(graph.Binary{Of: pointwise.Add, Other: &size}, i), i)
	hot := c.add(graph.Binary{Of: pointwise.Equal}, i, c.wholes(shape, places...))
	pick := func(k int) int { return c.add(graph.Select{Index: k}, values) }
	return one(c.as(c.add(graph.Where{}, hot, pick(1), pick(0)), c.dtype(values)))
}
