package onnx

import (
	"github.com/refrun/refrun/graph"
)

// opResize changes the sizes of axes, up to three of them, by scales or to sizes.
func opResize(c *call) []int {
	x := c.arg(0)
	s := c.shape(x)
	o := graph.Interpolate{Mode: c.text("mode", "nearest"), Coordinates: c.text("coordinate_transformation_mode", "half_pixel"), Coefficient: c.float("cubic_coeff_a", -0.75)}
	rounding := c.text("nearest_mode", "round_prefer_floor")
	if o.Mode == "nearest" {
		o.Rounding = rounding
	}
	c.float("extrapolation_value", 0)
	for _, name := range []string{"antialias", "exclude_outside"} {
		if c.flag(name) {
			c.fail("%s: not supported", name)
		}
	}
	if p := c.text("keep_aspect_ratio_policy", "stretch"); p != "stretch" {
		c.fail("keep_aspect_ratio_policy %.40q: not supported", p)
	}
	axes := c.ints("axes")
	if axes == nil {
		for a := range s {
			axes = append(axes, a)
		}
	}
	var scales []float64
	if c.has(2) {
		if t := c.value(c.in[2], "scales"); t != nil {
			scales = t.Data
		}
	}
	sizes := c.known(3, "sizes")
	if c.err == nil && (len(scales) == 0) == (len(sizes) == 0) || max(len(scales), len(sizes)) != len(axes) {
		c.fail("scales, sizes: want one of them, of %d numbers", len(axes))
	}
	if c.err != nil {
		return nil
	}
	// The axes that change come last, after one of all others.
	var still, moving []int
	change := map[int]int{}
	for i, a := range axes {
		if a < -len(s) || a >= len(s) {
			c.fail("axes: %d: want an axis of rank %d", a, len(s))
			return nil
		}
		change[(a+len(s))%len(s)] = i
	}
	for a := range s {
		i, is := change[a]
		if is && (len(scales) > 0 && scales[i] != 1 || len(sizes) > 0 && sizes[i] != s[a]) {
			moving = append(moving, a)
			if len(scales) > 0 {
				o.Scale = append(o.Scale, scales[i])
			} else {
				o.Size = append(o.Size, sizes[i])
			}
		} else {
			still = append(still, a)
		}
	}
	if len(moving) == 0 {
		return one(x)
	}
	if len(moving) > 3 {
		c.fail("%d axes change: want at most 3", len(moving))
		return nil
	}
	order := append(still, moving...)
	return one(c.lastAxes(x, order, len(moving), o))
}

// lastAxes applies an operation on images to the last axes of an order of axes.
func (c *call) lastAxes(x int, order []int, n int, op graph.Op) int {
	s := c.shape(x)
	sorted := true
	shape, back := []int{1, 1}, make([]int, len(s))
	for i, a := range order {
		sorted = sorted && i == a
		back[a] = i
		if i < len(s)-n {
			shape[0] *= s[a]
		} else {
			shape = append(shape, s[a])
		}
	}
	if !sorted {
		x = c.add(graph.Permute{Axes: graph.Ints(order)}, x)
	}
	if sorted && len(s) == n+2 { // as they are
		return c.add(op, x)
	}
	y := c.add(op, c.reshape(x, shape, true))
	if c.err != nil {
		return poison
	}
	var full []int
	for _, a := range order[:len(s)-n] {
		full = append(full, s[a])
	}
	y = c.reshape(y, append(full, c.shape(y)[2:]...), true)
	if !sorted {
		y = c.add(graph.Permute{Axes: graph.Ints(back)}, y)
	}
	return y
}
