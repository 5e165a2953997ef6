package onnx

import (
	"maps"
	"slices"

	"github.com/refrun/refrun/graph"
)

// opResize is one function of the axes that change.
func opResize(c *call) []int {
	x := c.arg(0)
	o := graph.Interpolate{
		Mode: c.text("mode", "nearest"), Coordinates: c.text("coordinate_transformation_mode", "half_pixel"),
	}
	rounding, antialias, exclude := c.text("nearest_mode", "round_prefer_floor"), c.flag("antialias"),
		c.flag("exclude_outside")
	coefficient := c.float("cubic_coeff_a", -0.75)
	o.Coefficient, o.Aspect, o.Outside = &coefficient, c.text("keep_aspect_ratio_policy", "stretch"),
		c.float("extrapolation_value", 0)
	switch o.Mode {
	case "nearest":
		o.Rounding = rounding
	case "linear", "cubic":
		o.Antialias, o.Exclude = antialias, exclude
	default:
		c.fail("mode %.40q: want nearest, linear or cubic", o.Mode)
	}
	axes := c.resized(x, &o)
	if c.err != nil {
		return nil
	}
	if len(axes) == 0 {
		return one(x)
	}
	var order []int
	for a := range c.shape(x) {
		if !slices.Contains(axes, a) {
			order = append(order, a)
		}
	}
	return one(c.lastAxes(x, append(order, axes...), len(axes), o))
}

// resized returns the axes that change, in order, and says how.
func (c *call) resized(x int, o *graph.Interpolate) []int {
	s := c.shape(x)
	axes := c.ints("axes")
	if axes == nil {
		for a := range s {
			axes = append(axes, a)
		}
	}
	scales, sizes := c.floats(2, "scales"), c.known(3, "sizes")
	if c.err == nil && ((len(scales) == 0) == (len(sizes) == 0) || max(len(scales), len(sizes)) != len(axes)) {
		c.fail("scales, sizes: want one of them, of %d numbers", len(axes))
	}
	var part []float64
	if o.Coordinates == "tf_crop_and_resize" {
		if part = c.floats(1, "roi"); c.err == nil && len(part) != 2*len(axes) {
			c.fail("roi: %d numbers: want %d", len(part), 2*len(axes))
		}
	}
	if c.err != nil {
		return nil
	}
	at := map[int]int{} // where an axis is listed
	for i, a := range axes {
		if a < -len(s) || a >= len(s) {
			c.fail("axes: %d: want an axis of rank %d", a, len(s))
			return nil
		}
		a = (a + len(s)) % len(s)
		if s[a] < 1 {
			c.fail("input of shape %v: want one that is not empty", s)
			return nil
		}
		same := len(scales) > 0 && scales[i] == 1 || len(sizes) > 0 && sizes[i] == s[a] && o.Aspect == "stretch"
		if !same || part != nil && (part[i] != 0 || part[i+len(axes)] != 1) {
			at[a] = i
		}
	}
	changed := slices.Sorted(maps.Keys(at))
	var ends []float64
	for _, a := range changed {
		i := at[a]
		if len(scales) > 0 {
			o.Scale = append(o.Scale, scales[i])
		} else {
			o.Size = append(o.Size, sizes[i])
		}
		if part != nil {
			o.Part, ends = append(o.Part, part[i]), append(ends, part[i+len(axes)])
		}
	}
	o.Part = append(o.Part, ends...)
	return changed
}

// floats returns the numbers of an input that is known, or none.
func (c *call) floats(i int, what string) []float64 {
	if c.has(i) {
		if t := c.value(c.in[i], what); t != nil {
			return t.Data
		}
	}
	return nil
}

// lastAxes applies an operation on images to the last n axes of an order of axes.
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
	if sorted && len(s) == n+2 { // as they are
		return c.add(op, x)
	}
	if !sorted {
		x = c.add(graph.Permute{Axes: graph.Ints(order)}, x)
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

// opGridSample has other names of its modes since opset 20.
func opGridSample(c *call) []int {
	o := graph.GridSampler{
		Mode: c.text("mode", "linear"), Padding: c.text("padding_mode", "zeros"), AlignCorners: c.flag("align_corners"),
		RoundFirst: true,
	}
	switch o.Mode {
	case "linear":
		o.Mode = "bilinear"
	case "cubic":
		o.Mode = "bicubic"
	}
	return one(c.add(o, c.arg(0), c.arg(1)))
}
