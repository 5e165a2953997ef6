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

// scatters are the graph's names of what becomes of numbers that come to one place.
var scatters = map[string]string{"none": "none", "add": "sum", "max": "amax", "min": "amin"}

func (c *call) reduction() string {
	name := c.text("reduction", "none")
	of, ok := scatters[name]
	if !ok {
		c.fail("reduction %.40q: not supported", name)
	}
	return of
}

func opScatterElements(c *call) []int {
	at, of := c.int("axis", 0), c.reduction()
	var op graph.Op = graph.Scatter{Axis: at}
	switch of {
	case "sum":
		op = graph.ScatterAdd{Axis: at}
	case "amax", "amin":
		op = graph.ScatterReduce{Axis: at, Reduce: of, Include: true}
	}
	return one(c.add(op, c.arg(0), c.arg(1), c.arg(2)))
}

func opScatterND(c *call) []int {
	return one(c.add(graph.ScatterND{Reduce: c.reduction()}, c.arg(0), c.arg(1), c.arg(2)))
}
