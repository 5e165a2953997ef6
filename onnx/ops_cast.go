package onnx

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/pointwise"
)

func opCast(c *call) []int {
	return one(c.cast(c.arg(0), DType(c.int("to", 0))))
}

// cast returns a value as numbers of another type.
func (c *call) cast(v int, to DType) int {
	from := c.dtype(v)
	a, b := dtypes[from], dtypes[to]
	switch {
	case c.err != nil || from == to:
		return v
	case from.whole() && to.whole() && b.lo <= a.lo && a.hi <= b.hi:
		return c.as(c.add(graph.Reshape{Shape: graph.Ints(c.shape(v)), AllowZero: true}, v), to) // the same numbers
	case from.whole() && to == Float32:
		unit := 1.0
		return c.as(c.add(graph.Binary{Of: pointwise.Mul, Other: &unit}, v), to)
	}
	c.fail("numbers of %v as %v: not supported", from, to)
	return poison
}
