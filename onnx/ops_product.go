package onnx

import (
	"strings"

	"github.com/refrun/refrun/graph"
)

func opGemm(c *call) []int {
	o := graph.Gemm{
		Alpha: c.float("alpha", 1), Beta: c.float("beta", 1), TransA: c.flag("transA"), TransB: c.flag("transB"),
	}
	return one(c.add(o, c.args(2, 3)...))
}

func opMatMul(c *call) []int { return one(c.add(graph.MatMul{}, c.arg(0), c.arg(1))) }

func opEinsum(c *call) []int {
	equation := strings.ReplaceAll(c.text("equation", ""), " ", "")
	return one(c.add(graph.Einsum{Equation: equation}, c.args(len(c.in), len(c.in))...))
}

// opDFT has the numbers of a complex number in the last axis, which may have one. The axis
// is an input since opset 20.
func opDFT(c *call) []int {
	x := c.arg(0)
	rank := c.rank(x)
	axis := -2
	if c.opset < 20 {
		axis = c.int("axis", 1)
	} else if a := c.known(2, "axis"); len(a) == 1 {
		axis = a[0]
	}
	length := c.known(1, "dft_length")
	inverse, half := c.flag("inverse"), c.flag("onesided")
	if c.err != nil {
		return nil
	}
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank-1 {
		c.fail("axis: want one before the last of %d", rank)
		return nil
	}
	return one(c.transform(x, axis, length, inverse, half))
}

// transform is the Fourier transform along an axis of numbers whose parts are in the last axis.
func (c *call) transform(x, axis int, length []int, inverse, half bool) int {
	o := graph.FFT{Kind: "fft", Axes: graph.Ints{axis}, Norm: "backward"}
	if len(length) == 1 {
		o.Sizes = graph.Ints(length)
	}
	s, last := c.shape(x), c.rank(x)-1
	if inverse {
		o.Kind = "ifft"
	}
	switch {
	case half && !inverse:
		if s[last] != 1 {
			c.fail("onesided: input of shape %v: want real numbers, a last axis of 1", s)
			return poison
		}
		o.Kind = "rfft"
		return c.add(o, c.reshape(x, s[:last], true))
	case half:
		o.Kind = "irfft"
		return c.add(graph.Unsqueeze{Axes: graph.Ints{-1}}, c.add(o, x))
	case s[last] == 1: // real numbers
		x = c.add(graph.Pad{Before: graph.Ints{0}, After: graph.Ints{1}, Mode: "constant"}, x)
	}
	return c.add(o, x)
}

// opSTFT is a Fourier transform of each frame of a signal, which a window scales first.
func opSTFT(c *call) []int {
	x, half := c.arg(0), c.int("onesided", 1) != 0
	step, length := c.known(1, "frame_step"), c.known(3, "frame_length")
	if s := c.shape(x); c.err == nil && len(s) == 2 {
		x = c.reshape(x, append(s[:2:2], 1), true)
	}
	s := c.shape(x)
	if c.err == nil && (len(s) != 3 || s[2] < 1 || s[2] > 2) {
		c.fail("signal of shape %v: want [batch,length,1], or 2 for complex numbers", s)
	}
	if c.has(2) {
		w := c.shape(c.in[2])
		if len(w) != 1 || len(length) == 1 && length[0] != w[0] {
			c.fail("window of shape %v: want one axis, as long as a frame", w)
		}
		length = w
	}
	if c.err == nil && (len(step) != 1 || step[0] < 1 || len(length) != 1 || length[0] < 1 || length[0] > s[1]) {
		c.fail("frames of %v numbers, a step of %v: want 1 or more, and at most the %d of the signal", length, step, s[1])
	}
	if c.err != nil {
		return nil
	}
	n := length[0]
	frames := 1 + (s[1]-n)/step[0]
	if !c.room(frames) || !c.room(frames*n) {
		return nil
	}
	var places []int
	for f := range frames {
		for i := range n {
			places = append(places, f*step[0]+i)
		}
	}
	x = c.add(graph.IndexSelect{Axis: 1}, x, c.wholes([]int{frames * n}, places...))
	x = c.reshape(x, []int{s[0], frames, n, s[2]}, true)
	if c.has(2) {
		x = c.times(x, c.reshape(c.in[2], []int{n, 1}, true))
	}
	return one(c.transform(x, 2, nil, false, half))
}
