package onnx

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// quantization is what quantizing and its inverse have in common.
type quantization struct {
	x, scale, zero int // zero may be absent
	graph.Quantization
}

func (c *call) quantization() quantization {
	q := quantization{x: c.arg(0), scale: c.arg(1), zero: absent}
	if c.has(2) {
		q.zero = c.in[2]
		if s := c.shape(q.scale); !equal(c.shape(q.zero), s) && elements(c.shape(q.zero)) == 1 && elements(s) == 1 {
			q.zero = c.reshape(q.zero, s, true)
		}
	}
	q.Axis, q.BlockSize = c.int("axis", 1), c.int("block_size", 0)
	if n := c.rank(q.x); q.Axis >= n && q.BlockSize == 0 && elements(c.shape(q.scale)) == 1 {
		q.Axis = max(n-1, 0) // of one scale the axis does not matter
	}
	return q
}

// spread returns a scale in the shape of the input, as numpy spreads it.
func (c *call) spreadScale(q quantization, v int) int {
	s, x := c.shape(v), c.shape(q.x)
	if c.err != nil || elements(s) == 1 && q.BlockSize == 0 {
		return v
	}
	a := q.Axis
	if a < 0 {
		a += len(x)
	}
	if a < 0 || a >= len(x) {
		c.fail("axis: %d: want an axis of rank %d", q.Axis, len(x))
		return poison
	}
	if q.BlockSize == 0 {
		shape := slices.Repeat([]int{1}, len(x))
		shape[a] = elements(s)
		return c.reshape(v, shape, true)
	}
	v = c.add(graph.RepeatInterleave{Repeats: q.BlockSize, Axis: &a}, v)
	if s := c.shape(v); c.err == nil && len(s) > a && s[a] > x[a] {
		v = c.add(graph.Slice{Axes: graph.Ints{a}, Start: graph.Ints{0}, End: graph.Ints{x[a]}}, v)
	}
	return v
}

// opQuantize is one function of the exact quotient.
func opQuantize(c *call) []int {
	q := c.quantization()
	to := DType(c.int("output_dtype", 0))
	saturate := c.int("saturate", 1) != 0
	c.int("precision", 0) // every function is exact
	switch {
	case q.zero >= 0:
		to = c.dtype(q.zero)
	case to == 0:
		to = Uint8
	}
	if c.err != nil {
		return nil
	}
	if _, small := minis[to]; small {
		in := []int{q.x, c.spread(c.spreadScale(q, q.scale), c.shape(q.x))}
		if q.zero >= 0 {
			in = append(in, c.spread(c.spreadScale(q, q.zero), c.shape(q.x)))
		}
		return one(c.as(c.add(narrow{to: to, saturate: saturate}, in...), to))
	}
	x := q.x
	if c.dtype(x).whole() { // int32 numbers
		x = c.cast(x, Float64)
	}
	in := []int{x, q.scale}
	if q.zero >= 0 {
		in = append(in, q.zero)
	}
	return one(c.as(c.add(graph.QuantizeLinear{Quantization: q.Quantization, Dtype: to.String()}, in...), to))
}

func opDequantize(c *call) []int {
	q := c.quantization()
	to := DType(c.int("output_dtype", 0))
	if to == 0 {
		to = c.dtype(q.scale)
	}
	if c.err != nil {
		return nil
	}
	if !c.dtype(q.x).whole() {
		x := q.x
		if q.zero >= 0 && c.dtype(q.x) == Float4E2M1 {
			x = c.add(graph.Binary{Of: pointwise.Sub}, x, c.spreadScale(q, q.zero))
		}
		scale := c.spreadScale(q, q.scale)
		if c.dtype(scale) != to { // the product has 28 bits
			x, scale = c.cast(x, Float64), c.cast(scale, Float64)
		}
		return one(c.cast(c.add(graph.Binary{Of: pointwise.Mul}, x, scale), to))
	}
	in := []int{q.x, q.scale}
	if q.zero >= 0 {
		in = append(in, q.zero)
	}
	return one(c.as(c.add(graph.DequantizeLinear{Quantization: q.Quantization, Dtype: to.String()}, in...), to))
}

// opDynamicQuantize finds its scale and zero point, of uint8, from the extremes of its input.
func opDynamicQuantize(c *call) []int {
	out := c.addAll(graph.DynamicQuantizeLinear{}, 3, c.arg(0))
	if len(out) == 3 {
		c.as(out[0], Uint8)
		c.as(out[2], Uint8)
	}
	return out
}
