package onnx

import (
	"math"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// opLRN divides by a power of a mean of squares over neighbouring channels.
func opLRN(c *call) []int {
	x, size := c.arg(0), c.int("size", 0)
	alpha, beta, bias := c.float("alpha", float32Number(0.0001)), c.float("beta", 0.75), c.float("bias", 1)
	s := c.shape(x)
	if c.err == nil && (len(s) < 2 || size < 1 || size > 1<<20) {
		c.fail("input of shape %v, size %d: want channels, and a size of 1 or more", s, size)
	}
	if c.err != nil {
		return nil
	}
	v := c.reshape(c.bind("square", nil, x), []int{s[0], 1, s[1], elements(s[2:])}, true)
	before := (size - 1) / 2
	around := graph.Pad{
		Before: graph.Ints{0, 0, before, 0}, After: graph.Ints{0, 0, size - 1 - before, 0}, Mode: "constant",
	}
	v = c.add(around, v)
	v = c.bind("avg_pool2d", map[string]any{"kernel_size": []int{size, 1}, "stride": 1}, v)
	v = c.add(graph.Binary{Of: pointwise.Mul, Other: &alpha}, c.reshape(v, s, true))
	v = c.add(graph.Binary{Of: pointwise.Add, Other: &bias}, v)
	return one(c.add(graph.Binary{Of: pointwise.Div}, x, c.add(graph.Binary{Of: pointwise.Pow, Other: &beta}, v)))
}

// opReverseSequence turns around as many numbers from the first on as each sample has.
func opReverseSequence(c *call) []int {
	x, lens := c.arg(0), c.arg(1)
	time, batch := c.int("time_axis", 0), c.int("batch_axis", 1)
	s := c.shape(x)
	if c.err == nil && (len(s) < 2 || time < 0 || time > 1 || batch != 1-time) {
		c.fail("time_axis %d, batch_axis %d, input of shape %v: want 0 and 1, or 1 and 0", time, batch, s)
	}
	if c.err == nil {
		c.want("sequence_lens", lens, s[batch])
	}
	if c.err != nil || !c.room(s[time]) {
		return nil
	}
	steps := make([]int, s[time])
	for i := range steps {
		steps[i] = i
	}
	shape, counts := slices.Repeat([]int{1}, len(s)), slices.Repeat([]int{1}, len(s))
	shape[time], counts[batch] = s[time], s[batch]
	t, n := c.wholes(shape, steps...), c.reshape(lens, counts, true)
	minusOne := -1.0
	back := c.add(graph.Binary{Of: pointwise.Sub}, c.add(graph.Binary{Of: pointwise.Add, Other: &minusOne}, n), t)
	from := c.add(graph.Where{}, c.add(graph.Binary{Of: pointwise.Less}, t, n), back, t)
	return one(c.as(c.add(graph.Gather{Axis: time}, x, c.spread(from, s)), c.dtype(x)))
}

// opUpsample is what Resize was before opset 10.
func opUpsample(c *call) []int {
	o := graph.Interpolate{Mode: c.text("mode", "nearest"), Coordinates: "asymmetric"}
	if o.Mode == "nearest" {
		o.Rounding = "floor"
	} else if o.Mode != "linear" {
		c.fail("mode %.40q: want nearest or linear", o.Mode)
	}
	scales := c.list("scales")
	if scales == nil {
		scales = c.floats(1, "scales")
	}
	x := c.arg(0)
	s := c.shape(x)
	if c.err == nil && len(scales) != len(s) {
		c.fail("scales: %d numbers: want %d", len(scales), len(s))
	}
	if c.err != nil {
		return nil
	}
	var kept, axes []int
	for a, v := range scales {
		if !(v >= 1) || math.IsInf(v, 0) || s[a] < 1 {
			c.fail("scales: %v along an axis of %d: want 1 or more, and numbers", v, s[a])
			return nil
		}
		if v == 1 {
			kept = append(kept, a)
			continue
		}
		axes, o.Scale = append(axes, a), append(o.Scale, v)
	}
	if len(axes) == 0 {
		return one(x)
	}
	return one(c.lastAxes(x, append(kept, axes...), len(axes), o))
}
