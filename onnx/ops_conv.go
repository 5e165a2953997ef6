package onnx

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
)

// windows are the attributes that convolutions and pooling share.
type windows struct {
	kernel, strides, dilations []int
	pads                       []int // all beginnings, then all ends
}

// along returns numbers for each of so many axes.
func (c *call) along(name string, n, otherwise int) []int {
	of := c.ints(name)
	if of == nil {
		for range n {
			of = append(of, otherwise)
		}
	}
	if len(of) != n {
		c.fail("%s: %d numbers: want %d", name, len(of), n)
		return make([]int, n)
	}
	for _, v := range of {
		if v > 1<<30 || v < -1<<30 {
			c.fail("%s: %d: want at most 2^30", name, v)
		}
	}
	return of
}

// windows returns the attributes for an input, whose last axes are slid over, and a kernel.
func (c *call) windows(x int, kernel []int) windows {
	n := len(kernel)
	w := windows{kernel: kernel, strides: c.along("strides", n, 1), dilations: c.along("dilations", n, 1),
		pads: c.along("pads", 2*n, 0)}
	auto := c.text("auto_pad", "NOTSET")
	if c.err != nil {
		return w
	}
	size := c.shape(x)[c.rank(x)-n:]
	switch auto {
	case "NOTSET", "":
	case "VALID":
		w.pads = make([]int, 2*n)
	case "SAME_UPPER", "SAME_LOWER":
		w.pads = make([]int, 2*n)
		for i, s := range w.strides {
			if s < 1 {
				c.fail("strides: %d: want 1 or more", s)
				return w
			}
			all := max(((size[i]+s-1)/s-1)*s+(kernel[i]-1)*w.dilations[i]+1-size[i], 0)
			w.pads[i] = all / 2
			if auto == "SAME_LOWER" {
				w.pads[i] = all - all/2
			}
			w.pads[i+n] = all - w.pads[i]
		}
	default:
		c.fail("auto_pad %.40q: want NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto)
	}
	return w
}

// kernelOf returns the kernel of a weight, which an attribute may repeat.
func (c *call) kernelOf(w int) []int {
	s := c.shape(w)
	if len(s) < 3 || len(s) > 5 {
		c.fail("weight of shape %v: want one to three axes after channels", s)
		return nil
	}
	if k := c.ints("kernel_shape"); k != nil && !equal(k, s[2:]) {
		c.fail("kernel_shape: %.200s: want that of the weight, %v", fmt.Sprint(k), s[2:])
	}
	return s[2:]
}

func opConv(c *call) []int {
	x, w := c.arg(0), c.arg(1)
	k := c.kernelOf(w)
	if c.err == nil && c.rank(x) != len(k)+2 {
		c.fail("input of shape %v: want %d axes, as the weight has", c.shape(x), len(k)+2)
	}
	if c.err != nil {
		return nil
	}
	g := c.windows(x, k)
	attributes := map[string]any{
		"stride": g.strides, "padding": g.pads, "dilation": g.dilations, "groups": c.int("group", 1),
	}
	return one(c.bind(fmt.Sprintf("conv%dd", len(k)), attributes, c.args(2, 3)...))
}

// opConvTranspose may be told the size of its output in place of its paddings.
func opConvTranspose(c *call) []int {
	x, w := c.arg(0), c.arg(1)
	k := c.kernelOf(w)
	n := len(k)
	if c.err == nil && c.rank(x) != n+2 {
		c.fail("input of shape %v: want %d axes, as the weight has", c.shape(x), n+2)
	}
	size, auto := c.ints("output_shape"), c.text("auto_pad", "NOTSET")
	strides, dilations := c.along("strides", n, 1), c.along("dilations", n, 1)
	pads, extra := append([]int{}, c.along("pads", 2*n, 0)...), append([]int{}, c.along("output_padding", n, 0)...)
	if c.err != nil {
		return nil
	}
	in := c.shape(x)[2:]
	switch {
	case auto == "VALID":
		pads = make([]int, 2*n)
	case size == nil && (auto == "SAME_UPPER" || auto == "SAME_LOWER"):
		for i := range n {
			size = append(size, in[i]*strides[i])
		}
	case auto != "NOTSET" && auto != "" && size == nil:
		c.fail("auto_pad %.40q: want NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto)
		return nil
	}
	if size != nil {
		if len(size) == n+2 {
			size = size[2:]
		}
		if len(size) != n {
			c.fail("output_shape: %d numbers: want %d", len(size), n)
			return nil
		}
		for i := range n {
			all := strides[i]*(in[i]-1) + extra[i] + (k[i]-1)*dilations[i] + 1 - size[i]
			if all < 0 {
				extra[i] -= all
				all = 0
			}
			pads[i] = all - all/2
			if auto == "SAME_UPPER" {
				pads[i] = all / 2
			}
			pads[i+n] = all - pads[i]
		}
	}
	attributes := map[string]any{
		"stride": strides, "padding": pads, "dilation": dilations, "output_padding": extra, "groups": c.int("group", 1),
	}
	return one(c.bind(fmt.Sprintf("conv_transpose%dd", n), attributes, c.args(2, 3)...))
}

// pooling returns the attributes of a pooling of an input.
func (c *call) pooling(x int) (windows, map[string]any) {
	n := c.rank(x) - 2
	if c.err == nil && (n < 1 || n > 3) {
		c.fail("input of shape %v: want one to three axes after channels", c.shape(x))
	}
	kernel := c.ints("kernel_shape")
	if c.err == nil && len(kernel) != n {
		c.fail("kernel_shape: %d numbers: want %d", len(kernel), n)
	}
	if c.err != nil {
		return windows{}, nil
	}
	w := c.windows(x, kernel)
	return w, map[string]any{"kernel_size": w.kernel, "stride": w.strides, "padding": w.pads, "dilation": w.dilations,
		"ceil_mode": c.flag("ceil_mode")}
}

func opAveragePool(c *call) []int {
	x := c.arg(0)
	w, attributes := c.pooling(x)
	if c.err != nil {
		return nil
	}
	attributes["count_include_pad"] = c.flag("count_include_pad")
	return one(c.bind(fmt.Sprintf("avg_pool%dd", len(w.kernel)), attributes, x))
}

// opLpPool is over windows, in which paddings are zeros.
func opLpPool(c *call) []int {
	x, p := c.arg(0), c.int("p", 2)
	_, attributes := c.pooling(x)
	if c.err != nil {
		return nil
	}
	attributes["p"] = p
	return one(c.bind("lp_pool", attributes, x))
}

// opGlobalLpPool is over all axes after channels, seen as one.
func opGlobalLpPool(c *call) []int {
	x, p := c.arg(0), c.int("p", 2)
	s := c.shape(x)
	if c.err == nil && (len(s) < 3 || elements(s[2:]) == 0) {
		c.fail("input of shape %v: want numbers after channels", s)
	}
	if c.err != nil {
		return nil
	}
	n := elements(s[2:])
	shape := slices.Repeat([]int{1}, len(s))
	copy(shape, s[:2])
	y := c.add(graph.LpPool{P: p, Kernel: graph.Ints{n}}, c.reshape(x, []int{s[0], s[1], n}, true))
	return one(c.reshape(y, shape, true))
}

// opMaxPool counts places in the whole tensor, a graph in the channel.
func opMaxPool(c *call) []int {
	x := c.arg(0)
	d := c.dtype(x)
	if d.whole() {
		x = c.cast(x, Float32)
	}
	w, attributes := c.pooling(x)
	columns := c.flag("storage_order")
	if c.err != nil {
		return nil
	}
	n := len(w.kernel)
	name := fmt.Sprintf("max_pool%dd", n)
	if len(c.node.out) < 2 {
		return one(c.cast(c.bind(name, attributes, x), d))
	}
	attributes["return_indices"] = true
	out := c.addAll(c.op(name, attributes), 2, x)
	if out == nil {
		return nil
	}
	s := c.shape(x)
	places := elements(s[2:])
	at := out[1]
	if columns {
		at = c.columns(at, s[2:])
	}
	if channels := elements(s[:2]); channels > 1 && c.room(channels) {
		first := make([]int, channels)
		for i := range first {
			first[i] = i * places
		}
		shape := []int{s[0], s[1]}
		for range n {
			shape = append(shape, 1)
		}
		at = c.add(graph.Addition, at, c.wholes(shape, first...))
	}
	return []int{c.cast(out[0], d), c.as(at, Int64)}
}

// columns counts places with the first axis as the fastest.
func (c *call) columns(at int, size []int) int {
	n := elements(size)
	if !c.room(n) {
		return poison
	}
	table := make([]int, n)
	for i := range table {
		left, by := i, n
		for a := len(size) - 1; a >= 0; a-- {
			by /= size[a]
			table[i] += left % size[a] * by
			left /= size[a]
		}
	}
	return c.add(graph.IndexSelect{}, c.wholes([]int{n}, table...), at)
}

// global is a reduction over all axes after channels.
func global(of string) mapping {
	return func(c *call) []int {
		x := c.arg(0)
		var axes graph.Ints
		for a := 2; a < c.rank(x); a++ {
			axes = append(axes, a)
		}
		if c.err == nil && len(axes) == 0 {
			c.fail("input of shape %v: want axes after channels", c.shape(x))
		}
		return one(c.add(graph.Reduction{Of: of, Axes: axes, Keep: true}, x))
	}
}
