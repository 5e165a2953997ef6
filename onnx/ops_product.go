package onnx

import (
	"strings"

	"github.com/refrun/refrun/graph"
)

func opGemm(c *call) []int {
	o := graph.Gemm{Alpha: c.float("alpha", 1), Beta: c.float("beta", 1), TransA: c.flag("transA"), TransB: c.flag("transB")}
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
	o := graph.FFT{Kind: "fft", Axes: graph.Ints{axis}, Norm: "backward"}
	if len(length) == 1 {
		o.Sizes = graph.Ints(length)
	}
	s := c.shape(x)
	if inverse {
		o.Kind = "ifft"
	}
	switch {
	case half && !inverse:
		if s[rank-1] != 1 {
			c.fail("onesided: input of shape %v: want real numbers, a last axis of 1", s)
			return nil
		}
		o.Kind = "rfft"
		return one(c.add(o, c.reshape(x, s[:rank-1], true)))
	case half:
		o.Kind = "irfft"
		return one(c.add(graph.Unsqueeze{Axes: graph.Ints{-1}}, c.add(o, x)))
	case s[rank-1] == 1: // real numbers
		x = c.add(graph.Pad{Before: graph.Ints{0}, After: graph.Ints{1}, Mode: "constant"}, x)
	}
	return one(c.add(o, x))
}
