package onnx

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// scatters are the graph's names of what becomes of numbers that come to one place.
var scatters = map[string]string{"none": "none", "add": "sum", "max": "amax", "min": "amin", "mul": "prod"}

func (c *call) reduction() string {
	name := c.text("reduction", "none")
	of, ok := scatters[name]
	if !ok {
		c.fail("reduction %.40q: want none, add, mul, max or min", name)
	}
	return of
}

func opScatterElements(c *call) []int {
	at, of := c.axis("axis", 0, c.rank(c.arg(0))), c.reduction()
	var op graph.Op = graph.Scatter{Axis: at, FromEnd: true}
	switch of {
	case "sum":
		op = graph.ScatterAdd{Axis: at, FromEnd: true}
	case "amax", "amin":
		op = graph.ScatterReduce{Axis: at, Reduce: of, Include: true, FromEnd: true}
	case "prod":
		return c.multiplied(graph.ScatterAdd{Axis: at, FromEnd: true}, func(index []int, s, shape []int) []int {
			to := make([]int, len(index))
			for k, v := range index {
				left, by := k, 1
				for a := len(s) - 1; a >= 0; a-- {
					i := left % shape[a]
					if left /= shape[a]; a == at {
						if i = v; v < 0 {
							i += s[a]
						}
					}
					to[k] += i * by
					by *= s[a]
				}
			}
			return to
		})
	}
	return one(c.add(op, c.arg(0), c.arg(1), c.arg(2)))
}

func opScatterND(c *call) []int {
	of := c.reduction()
	if of != "prod" {
		return one(c.add(graph.ScatterND{Reduce: of}, c.arg(0), c.arg(1), c.arg(2)))
	}
	return c.multiplied(graph.ScatterND{Reduce: "sum"}, func(index []int, s, shape []int) []int {
		depth := shape[len(shape)-1]
		block := elements(s[depth:])
		var to []int
		for k := 0; k < len(index); k += depth {
			at := 0
			for a, v := range index[k : k+depth] {
				if v < 0 {
					v += s[a]
				}
				at = at*s[a] + v
			}
			for i := range block {
				to = append(to, at*block+i)
			}
		}
		return to
	})
}

// multiplied is a scatter that multiplies. Its index must be known. The numbers that come to
// a place first are one layer, those that come second another; layers are 1 elsewhere. All
// of them, and the old numbers, are one product, rounded once. Where returns the place of
// each number of the source for an index of a shape.
func (c *call) multiplied(scatter graph.Op, where func(index []int, s, shape []int) []int) []int {
	x, at, src := c.arg(0), c.arg(1), c.arg(2)
	c.add(scatter, x, at, src) // checks them
	index := c.known(1, "indices, for a product,")
	if c.err != nil {
		return nil
	}
	s, shape := c.shape(x), c.shape(at)
	n := elements(s)
	to := where(index, s, shape)
	count, layer, layers := make([]int, n), make([]int, len(to)), 0
	for k, i := range to {
		if i < 0 || i >= n {
			c.fail("indices: want places in the input of shape %v", s)
			return nil
		}
		layer[k] = count[i]
		count[i]++
		layers = max(layers, count[i])
	}
	if len(to) != elements(c.shape(src)) {
		c.fail("updates of shape %v: want the shape of the indices", c.shape(src))
		return nil
	}
	all := []int{x}
	for l := range layers {
		if !c.room(n + len(to)) {
			return nil
		}
		base := tensor.New(c.types[x].Format, s...)
		for i := range base.Data {
			if count[i] <= l {
				base.Data[i] = 1
			}
		}
		mask := make([]int, len(to))
		for k := range to {
			if layer[k] == l {
				mask[k] = 1
			}
		}
		v := c.add(graph.Where{}, c.wholes(c.shape(src), mask...), src, c.number(src, 0))
		all = append(all, c.add(scatter, c.constant("", base, c.dtype(x)), at, v))
	}
	return one(c.add(graph.Reduction{Of: "prod", Axes: graph.Ints{0}}, c.add(graph.Stack{}, all...)))
}
