package onnx

import (
	"github.com/refrun/refrun/graph"
)

// opCast saturates where numbers of 8 bits and fewer would overflow, unless it must not.
func opCast(c *call) []int {
	x, to := c.arg(0), DType(c.int("to", 0))
	saturate, rounding := c.int("saturate", 1) != 0, c.text("round_mode", "up")
	if _, ok := to.Format(); !ok {
		c.fail("to: %v: want a type that a graph holds", to)
	}
	if _, small := minis[to]; small {
		return one(c.narrowed(x, narrow{to, saturate, rounding}))
	}
	return one(c.cast(x, to))
}

// opCastLike casts to the type of its second input.
func opCastLike(c *call) []int {
	x, to := c.arg(0), c.dtype(c.arg(1))
	saturate, rounding := c.int("saturate", 1) != 0, c.text("round_mode", "up")
	if _, small := minis[to]; small {
		return one(c.narrowed(x, narrow{to, saturate, rounding}))
	}
	return one(c.cast(x, to))
}

// cast returns a value as numbers of another type.
func (c *call) cast(v int, to DType) int {
	if _, small := minis[to]; small {
		return c.narrowed(v, narrow{to: to, saturate: true})
	}
	if c.err != nil || c.dtype(v) == to {
		return v
	}
	if to.whole() && dtypes[to].bits < 8 && !c.dtype(v).whole() { // of these the low bits count
		v = c.add(graph.Cast{Dtype: "int64"}, v)
	}
	return c.as(c.add(graph.Cast{Dtype: to.String()}, v), to)
}

// narrowed returns a value as numbers of 8 bits or fewer.
func (c *call) narrowed(v int, op narrow) int {
	if c.dtype(v) == op.to {
		return v
	}
	return c.as(c.add(op, v), op.to)
}
