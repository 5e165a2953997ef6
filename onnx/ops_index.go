package onnx

import "github.com/refrun/refrun/graph"

func opGather(c *call) []int {
	return one(c.add(graph.IndexSelect{Axis: c.int("axis", 0)}, c.arg(0), c.arg(1)))
}

func opGatherElements(c *call) []int {
	return one(c.add(graph.Gather{Axis: c.int("axis", 0)}, c.arg(0), c.arg(1)))
}

func opGatherND(c *call) []int {
	return one(c.add(graph.GatherND{Batch: c.int("batch_dims", 0)}, c.arg(0), c.arg(1)))
}
