package onnx

import (
	"math"
	"slices"
	"sort"

	"github.com/refrun/refrun/graph"
)

// resize is a Resize under way.
type resize struct {
	*call
	mode, coordinates, rounding string
	coefficient                 float64
	antialias, exclude          bool
	extrapolation               float64
	axes                        []resizedAxis // those that change
}

// resizedAxis is an axis, its sizes before and after, the scale, and the part of it that is
// meant, from 0 to 1.
type resizedAxis struct {
	axis, in, out int
	scale         float64
	given         bool // by its scale, not its size
	first, last   float64
}

// opResize is one function where the graph has it, and else one product along each axis.
func opResize(c *call) []int {
	x := c.arg(0)
	r := &resize{call: c, mode: c.text("mode", "nearest"), coordinates: c.text("coordinate_transformation_mode", "half_pixel"),
		rounding: c.text("nearest_mode", "round_prefer_floor"), coefficient: c.float("cubic_coeff_a", -0.75),
		antialias: c.flag("antialias"), exclude: c.flag("exclude_outside"), extrapolation: c.float("extrapolation_value", 0)}
	simple := r.sizes(x)
	if c.err != nil {
		return nil
	}
	if r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic" {
		c.fail("mode %.40q: want nearest, linear or cubic", r.mode)
		return nil
	}
	if len(r.axes) == 0 {
		return one(x)
	}
	if simple && len(r.axes) <= 3 {
		return one(r.whole(x))
	}
	return one(r.byAxis(x))
}

// sizes finds which axes change and how, and reports whether the graph has the operation as
// one function.
func (r *resize) sizes(x int) (simple bool) {
	c := r.call
	s := c.shape(x)
	policy, axes := c.text("keep_aspect_ratio_policy", "stretch"), c.ints("axes")
	if axes == nil {
		for a := range s {
			axes = append(axes, a)
		}
	}
	floats := func(i int, what string) []float64 {
		if !c.has(i) {
			return nil
		}
		if t := c.value(c.in[i], what); t != nil {
			return t.Data
		}
		return nil
	}
	scales, sizes := floats(2, "scales"), c.known(3, "sizes")
	if c.err == nil && ((len(scales) == 0) == (len(sizes) == 0) || max(len(scales), len(sizes)) != len(axes)) {
		c.fail("scales, sizes: want one of them, of %d numbers", len(axes))
	}
	crop := r.coordinates == "tf_crop_and_resize"
	var roi []float64
	if crop {
		if roi = floats(1, "roi"); c.err == nil && len(roi) != 2*len(axes) {
			c.fail("roi: %d numbers: want %d", len(roi), 2*len(axes))
		}
	}
	if c.err != nil {
		return false
	}
	simple = !crop && !r.antialias && !r.exclude && policy == "stretch"
	ratio := r.ratio(policy, sizes, axes, s)
	for i, a := range axes {
		if a < -len(s) || a >= len(s) {
			c.fail("axes: %d: want an axis of rank %d", a, len(s))
			return false
		}
		a = (a + len(s)) % len(s)
		v := resizedAxis{axis: a, in: s[a], last: 1}
		switch {
		case len(scales) > 0:
			v.scale, v.given = scales[i], true
			size := math.Floor(float64(v.in) * v.scale)
			if !(size >= 1 && size <= 1<<40) || v.in < 1 {
				c.fail("scales: %g of a size of %d: want 1 to 2^40", v.scale, v.in)
				return false
			}
			v.out = int(size)
			// Aligned corners are those of the size before it is cut off.
			simple = simple && (r.coordinates != "align_corners" || size == float64(v.in)*v.scale)
		default:
			if sizes[i] < 1 || v.in < 1 {
				c.fail("sizes: %d of a size of %d: want 1 or more", sizes[i], v.in)
				return false
			}
			v.out, v.scale = sizes[i], float64(sizes[i])/float64(v.in)
			if policy != "stretch" {
				size := math.Floor(float64(float64(v.in)*ratio) + 0.5)
				if !(size >= 1 && size <= 1<<40) {
					c.fail("sizes: %g by a scale of %g: want 1 to 2^40", size, ratio)
					return false
				}
				v.scale, v.out = ratio, int(size)
			}
		}
		if crop {
			v.first, v.last = roi[i], roi[i+len(axes)]
		}
		if v.scale != 1 || v.out != v.in || v.first != 0 || v.last != 1 {
			r.axes = append(r.axes, v)
		}
	}
	return simple
}

// ratio returns the one scale of all axes where the aspect is kept.
func (r *resize) ratio(policy string, sizes, axes, s []int) float64 {
	if policy == "stretch" {
		return 1
	}
	if policy != "not_larger" && policy != "not_smaller" || len(sizes) == 0 {
		r.fail("keep_aspect_ratio_policy %.40q: want stretch, or with sizes not_larger or not_smaller", policy)
		return 1
	}
	var of []float64
	for i, a := range axes {
		if a >= -len(s) && a < len(s) {
			of = append(of, float64(sizes[i])/float64(max(s[(a+len(s))%len(s)], 1)))
		}
	}
	if len(of) == 0 {
		return 1
	}
	if policy == "not_larger" {
		return slices.Min(of)
	}
	return slices.Max(of)
}

// whole is the operation as one function of the axes that change.
func (r *resize) whole(x int) int {
	o := graph.Interpolate{Mode: r.mode, Coordinates: r.coordinates, Coefficient: r.coefficient}
	if r.mode == "nearest" {
		o.Rounding = r.rounding
	}
	sort.Slice(r.axes, func(i, k int) bool { return r.axes[i].axis < r.axes[k].axis })
	var order []int
	for a := range r.shape(x) {
		if !slices.ContainsFunc(r.axes, func(v resizedAxis) bool { return v.axis == a }) {
			order = append(order, a)
		}
	}
	for _, v := range r.axes {
		order = append(order, v.axis)
		if v.given {
			o.Scale = append(o.Scale, v.scale)
		} else {
			o.Size = append(o.Size, v.out)
		}
	}
	return r.lastAxes(x, order, len(r.axes), o)
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
