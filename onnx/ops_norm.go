package onnx

import (
	"slices"

	"github.com/refrun/refrun/graph"
)

// eps is ONNX's, of all norms.
func (c *call) eps() float64 { return c.float("epsilon", float32Number(1e-5)) }

// places returns the first axis of a norm over the last ones, and their sizes, and inputs
// spread to them.
func (c *call) places(inputs ...int) (at int, in []int) {
	x := c.arg(0)
	at = c.axis("axis", -1, c.rank(x))
	c.int("stash_type", 1) // every function is exact
	if c.err != nil {
		return 0, nil
	}
	in = []int{x}
	for _, i := range inputs {
		if c.has(i) {
			in = append(in, c.spread(c.in[i], c.shape(x)[at:]))
		}
	}
	return at, in
}

// opLayerNorm may also want the mean and the inverse of the deviation.
func opLayerNorm(c *call) []int {
	at, in := c.places(1, 2)
	eps := c.eps()
	if c.err != nil {
		return nil
	}
	x := in[0]
	out := one(c.add(graph.LayerNorm{Shape: graph.Ints(slices.Clone(c.shape(x)[at:])), Eps: eps}, in...))
	if len(c.node.out) > 1 {
		var axes graph.Ints
		for a := at; a < c.rank(x); a++ {
			axes = append(axes, a)
		}
		mean := c.add(graph.Reduction{Of: "mean", Axes: axes, Keep: true}, x)
		out = append(out, mean, c.add(graph.InverseStd{Axes: axes, Eps: eps, Keep: true}, x))
	}
	return out
}

func opRMSNorm(c *call) []int {
	at, in := c.places(1)
	eps := c.eps()
	if c.err != nil {
		return nil
	}
	return one(c.add(graph.RMSNorm{Shape: graph.Ints(slices.Clone(c.shape(in[0])[at:])), Eps: &eps}, in...))
}

func opInstanceNorm(c *call) []int {
	return one(c.add(graph.InstanceNorm{Eps: c.eps()}, c.args(3, 3)...))
}

// opGroupNorm has a weight and a bias for each channel since opset 21, for each group before.
func opGroupNorm(c *call) []int {
	in, groups := c.args(3, 3), c.int("num_groups", 0)
	eps := c.eps()
	c.int("stash_type", 1)
	if c.err != nil || c.rank(in[0]) < 2 {
		c.fail("input of shape %v: want [N,C,...]", c.shape(in[0]))
		return nil
	}
	if channels := c.shape(in[0])[1]; c.opset < 21 && groups > 0 && channels%groups == 0 && channels > groups {
		axis := 0
		for i := 1; i < 3; i++ {
			in[i] = c.add(graph.RepeatInterleave{Repeats: channels / groups, Axis: &axis}, in[i])
		}
	}
	return one(c.add(graph.GroupNorm{Groups: groups, Eps: eps}, in...))
}

// opBatchNorm in training also returns running statistics.
func opBatchNorm(c *call) []int {
	in := c.args(5, 5)
	eps, momentum := c.eps(), c.float("momentum", float32Number(0.9))
	training := c.flag("training_mode")
	c.int("spatial", 1)
	if c.err != nil {
		return nil
	}
	x := in[0]
	if !training {
		return one(c.add(graph.BatchNorm{Eps: eps}, in[0], in[1], in[2], in[3], in[4]))
	}
	y := c.add(graph.BatchNorm{Eps: eps, Training: true}, in[0], in[1], in[2])
	mean := c.add(graph.Running{Momentum: momentum}, x, in[3])
	return []int{y, mean, c.add(graph.Running{Var: true, Momentum: momentum}, x, in[4])}
}

// opMeanVariance is over samples and pixels, if nothing else is said.
func opMeanVariance(c *call) []int {
	axes := c.ints("axes")
	if axes == nil {
		axes = []int{0, 2, 3}
	}
	return one(c.add(graph.MeanVariance{Axes: graph.Ints(axes)}, c.arg(0)))
}

func opLpNormalization(c *call) []int {
	return one(c.add(graph.LpNormalize{P: c.int("p", 2), Axis: c.int("axis", -1)}, c.arg(0)))
}
