package onnx

import (
	"github.com/refrun/refrun/graph"
)

// rotary turns pairs of numbers by angles of places: each pair is a complex number, multiplied by another one.
type rotary struct {
	*call
	interleaved bool
	size        int // how many of a head's numbers are turned, 0 for all
}

// turn returns x [batch,heads,length,size] with its pairs turned by cos and sin, [batch or 1,length,pairs].
func (r rotary) turn(x, cos, sin int) int {
	s := r.shape(x)
	if r.err == nil && len(s) != 4 {
		r.fail("input of shape %v: want four axes", s)
	}
	if r.err != nil {
		return poison
	}
	n := r.size
	if n == 0 {
		n = s[3]
	}
	if n < 2 || n%2 != 0 || n > s[3] {
		r.fail("rotary_embedding_dim: %d of heads of %d: want an even number of at most as many", n, s[3])
		return poison
	}
	rest := absent
	if n < s[3] {
		if parts := r.addAll(graph.Split{Sizes: graph.Ints{n, s[3] - n}, Axis: 3}, 2, x); parts != nil {
			x, rest = parts[0], parts[1]
		}
	}
	angles := r.add(graph.Stack{Axis: 3}, cos, sin) // [batch,length,pairs,2]
	if a := r.shape(angles); r.err == nil && (len(a) != 4 || a[1] != s[2] || a[2] != n/2 || a[0] != 1 && a[0] != s[0]) {
		r.fail("cos and sin of shape %v: want [%d,%d,%d]", a[:3], s[0], s[2], n/2)
	}
	angles = r.add(graph.Unsqueeze{Axes: graph.Ints{1}}, angles)
	if r.interleaved {
		x = r.reshape(x, []int{s[0], s[1], s[2], n / 2, 2}, true)
	} else {
		x = r.add(graph.Transpose{A: 3, B: 4}, r.reshape(x, []int{s[0], s[1], s[2], 2, n / 2}, true))
	}
	x = r.add(graph.ComplexMul{}, x, angles)
	if !r.interleaved {
		x = r.add(graph.Transpose{A: 3, B: 4}, x)
	}
	x = r.reshape(x, []int{s[0], s[1], s[2], n}, true)
	if rest >= 0 {
		x = r.add(graph.Cat{Axis: 3}, x, rest)
	}
	return x
}

// split brings [batch,length,heads*size] into heads; others it returns as they are.
func (c *call) split(x, heads int) (v int, flat bool) {
	s := c.shape(x)
	if c.err != nil || len(s) != 3 {
		return x, false
	}
	if heads < 1 || s[2]%heads != 0 {
		c.fail("num_heads: %d: want a divisor of %d", heads, s[2])
		return poison, true
	}
	return c.add(graph.Transpose{A: 1, B: 2}, c.reshape(x, []int{s[0], s[1], heads, s[2] / heads}, true)), true
}

// joinHeads is the way back.
func (c *call) joinHeads(y int) int {
	s := c.shape(y)
	if y = c.add(graph.Transpose{A: 1, B: 2}, y); c.err != nil {
		return poison
	}
	return c.reshape(y, []int{s[0], s[2], s[1] * s[3]}, true)
}

// rotated is a rotary embedding with positions, or with angles for each place.
func (c *call) rotated(x, cos, sin, position, heads, size int) []int {
	v, flat := c.split(x, heads)
	if c.err != nil {
		return nil
	}
	if position >= 0 {
		cos, sin = c.anglesAt(cos, position, c.shape(v)), c.anglesAt(sin, position, c.shape(v))
	}
	y := rotary{c, c.flag("interleaved"), size}.turn(v, cos, sin)
	if flat {
		y = c.joinHeads(y)
	}
	return one(y)
}

// anglesAt returns the rows of a table that positions name: one for each place, or the first of all.
func (c *call) anglesAt(table, position int, s []int) int {
	if c.err == nil && (c.rank(table) != 2 || len(s) != 4) {
		c.fail("cos and sin of shape %v: want two axes", c.shape(table))
	}
	if c.err == nil && elements(c.shape(position)) == 1 && c.rank(position) < 2 && c.room(s[2]) {
		all := make([]int, s[2])
		for i := range all {
			all[i] = i
		}
		position = c.add(graph.Addition, c.wholes([]int{1, s[2]}, all...), position)
	}
	return c.add(graph.IndexSelect{}, table, position)
}

// opRotary is ONNX's, of opset 23, whose positions may be left out.
func opRotary(c *call) []int {
	return c.rotated(c.arg(0), c.arg(1), c.arg(2), c.optional(3), c.int("num_heads", 0), c.int("rotary_embedding_dim", 0))
}

// opRotaryMicrosoft is ONNX Runtime's. The number of heads follows from the table where it is not given.
func opRotaryMicrosoft(c *call) []int {
	x, cos, sin := c.arg(0), c.arg(2), c.arg(3)
	heads, size := c.int("num_heads", 0), c.int("rotary_embedding_dim", 0)
	c.float("scale", 1)
	if c.flag("is_packed_batching") {
		c.fail("is_packed_batching: not supported")
	}
	if s := c.shape(x); c.err == nil && heads == 0 && len(s) == 3 && c.rank(cos) == 2 && c.shape(cos)[1] > 0 {
		heads = s[2] / (2 * c.shape(cos)[1])
	}
	return c.rotated(x, cos, sin, c.arg(1), heads, size)
}
