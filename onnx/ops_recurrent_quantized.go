package onnx

import "github.com/refrun/refrun/graph"

// opDynamicQuantizeLSTM is an LSTM of weights in 8 bits, transposed. All that comes in is quantized at once, by its
// extremes, and the state of each step by its own. A gate's sum is s_x a_x + s_h a_h + Wb + Rb, with exact sums a of
// whole numbers and scales s: the terms are rounded to float64, and their sum to float32.
func opDynamicQuantizeLSTM(c *call) []int {
	c.whole(1, 2, 9, 11)
	x, scale, zero := c.dynamic(c.arg(0))
	w, r := c.arg(1), c.arg(2)
	if c.err == nil && (c.rank(w) != 3 || c.rank(r) != 3) {
		c.fail("W and R of shapes %v and %v: want 3 axes each", c.shape(w), c.shape(r))
	}
	for i, name := range []string{"W_scale", "W_zero_point", "R_scale", "R_zero_point"} {
		if v := c.arg(8 + i); c.err == nil && (c.rank(v) < 1 || c.rank(v) > 2 || c.shape(v)[0] != c.shape(w)[0]) {
			c.fail("%s of shape %v: want a number, or one for each row, of %d directions", name, c.shape(v), c.shape(w)[0])
		}
	}
	if c.err != nil {
		return nil
	}
	given := c.in
	turned := func(v int) int { return c.add(graph.Transpose{A: 1, B: 2}, v) }
	c.in = append([]int{given[0], turned(w), turned(r)}, given[3:]...)
	l := c.recurrent(4, 2, "Sigmoid", "Tanh", "Tanh")
	if c.err != nil {
		return nil
	}
	if l.batchFirst {
		x = c.as(c.add(graph.Permute{Axes: graph.Ints{1, 0, 2}}, x), Uint8)
	}
	k := 0
	return l.lstm(func(d *direction) func(t, h int) int {
		of := &quantizedSums{call: c, bias: absent}
		of.w = c.centered(d.w, c.pick(given[9], k))
		of.r = c.centered(d.r, c.pick(given[11], k))
		of.scaleW, of.scaleR = c.cast(c.pick(given[8], k), Float64), c.cast(c.pick(given[10], k), Float64)
		if d.wb >= 0 {
			of.bias = c.plus(c.cast(d.wb, Float64), c.cast(d.rb, Float64))
		}
		k++
		// What comes in is multiplied once, all steps of all samples as the rows of one matrix.
		rows := c.as(c.reshape(x, []int{l.steps * l.batch, l.inputs}, false), Uint8)
		terms := c.reshape(of.term(rows, zero, of.w, scale, of.scaleW), []int{l.steps, l.batch, 4 * l.hidden}, false)
		steps := c.addAll(graph.Unbind{}, l.steps, terms)
		return func(t, h int) int {
			hidden, scaleH, zeroH := c.dynamic(h)
			v := c.plus(steps[t], of.term(hidden, zeroH, of.r, scaleH, of.scaleR))
			if of.bias >= 0 {
				v = c.plus(v, of.bias)
			}
			return c.cast(v, c.dtype(given[0]))
		}
	})
}

// quantizedSums are the weights of a direction, centered.
type quantizedSums struct {
	*call
	w, r, scaleW, scaleR, bias int
}

// term is a product with weights, scaled, in float64.
func (q *quantizedSums) term(v, zero, weights, scale, scaleW int) int {
	sum := q.add(graph.Gemm{Alpha: 1, Beta: 1, TransB: true}, q.centered(v, zero), weights)
	return q.times(sum, q.times(q.cast(scale, Float64), scaleW))
}
