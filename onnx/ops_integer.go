package onnx

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// Products of numbers of 8 bits are sums of whole numbers below 2^53, which float64 has exactly in any order. What
// scales them is in float64 too: a product of an integer and two float32 scales is rounded to float64 at most twice
// before it is rounded to what the node returns.

// centered returns a value less its zero point, if there is one, as float64 numbers. Constants stay constants.
func (c *call) centered(v, zero int) int {
	constant := c.err == nil && c.moved(v) && (zero < 0 || c.moved(zero))
	if zero >= 0 {
		v = c.as(c.add(graph.Binary{Of: pointwise.Sub}, v, zero), Int64)
	}
	v = c.cast(v, Float64)
	if constant { // the same in every mode
		if t, err := c.evaluateUpTo(v, false, mostSettled); err == nil {
			v = c.constant("", t, Float64)
		}
	}
	return v
}

// lengthwise returns numbers of one axis, or of none, as those of the axis that is so many before the last.
func (c *call) lengthwise(v, before int) int {
	if v < 0 || elements(c.shape(v)) == 1 && c.rank(v) <= 1 {
		return v
	}
	if s := c.shape(v); len(s) == 1 && before > 0 {
		v = c.reshape(v, append(s[:1:1], slices.Repeat([]int{1}, before)...), true)
	}
	return v
}

// optional returns an input, or absent.
func (c *call) optional(i int) int {
	if !c.has(i) {
		return absent
	}
	return c.in[i]
}

// whole notes inputs that are no whole numbers.
func (c *call) whole(inputs ...int) {
	for _, i := range inputs {
		if v := c.optional(i); c.err == nil && v >= 0 && !c.dtype(v).whole() {
			c.fail("input %d: %v numbers: want whole ones", i, c.dtype(v))
		}
	}
}

// wholeProduct is a product of matrices of whole numbers, with a zero point for each row of the first, or one,
// and one for each column of the second, in float64.
func (c *call) wholeProduct(a, zeroA, b, zeroB int) int {
	return c.add(graph.MatMul{}, c.centered(a, c.lengthwise(zeroA, 1)), c.centered(b, zeroB))
}

// most32 is how many products of numbers of 9 bits, what is left of 8 bits less zero points, are below 2^31 together.
const most32 = (1<<31 - 1) / (255 * 255)

// int32 returns sums of so many products of the first two inputs' numbers, of which 32 bits count.
func (c *call) int32(v, terms int) int {
	if c.err == nil && !(terms <= most32 && c.dtype(c.in[0]).octets() && c.dtype(c.in[1]).octets()) {
		v = c.cast(v, Int64)
	}
	return c.cast(v, Int32)
}

// octets reports whether a type has whole numbers of 8 bits.
func (t DType) octets() bool { return t == Int8 || t == Uint8 }

func opMatMulInteger(c *call) []int {
	c.whole(0, 1, 2, 3)
	terms := 0
	if s := c.shape(c.arg(0)); len(s) > 0 {
		terms = s[len(s)-1]
	}
	return one(c.int32(c.wholeProduct(c.arg(0), c.optional(2), c.arg(1), c.optional(3)), terms))
}

func opConvInteger(c *call) []int {
	c.whole(0, 1, 2, 3)
	terms := 0
	if s := c.shape(c.arg(1)); len(s) > 0 && s[0] > 0 {
		terms = elements(s) / s[0]
	}
	return one(c.int32(c.wholeConv(c.arg(0), c.optional(2), c.arg(1), c.optional(3), absent), terms))
}

// wholeConv is a convolution of whole numbers, with a bias or none. Paddings are the zero point.
func (c *call) wholeConv(x, zeroX, w, zeroW, bias int) int {
	k := c.kernelOf(w)
	if c.err == nil && c.rank(x) != len(k)+2 {
		c.fail("input of shape %v: want %d axes, as the weight has", c.shape(x), len(k)+2)
	}
	if c.err != nil {
		return poison
	}
	g := c.windows(x, k)
	attributes := map[string]any{
		"stride": g.strides, "padding": g.pads, "dilation": g.dilations, "groups": c.int("group", 1),
	}
	in := []int{c.centered(x, zeroX), c.centered(w, c.lengthwise(zeroW, len(k)+1))}
	if bias >= 0 {
		in = append(in, c.centered(bias, absent))
	}
	return c.bind(fmt.Sprintf("conv%dd", len(k)), attributes, in...)
}

// quantized returns the whole numbers next to v over a scale, of the exact quotient, plus the zero point.
func (c *call) quantized(v, scale, zero int, to DType) int {
	if zero >= 0 {
		to = c.dtype(zero)
		zero = c.reshape(zero, c.shape(scale), true)
	}
	if c.err == nil && (elements(c.shape(scale)) != 1 || !to.whole()) {
		c.fail("scale of shape %v, %v numbers: want one scale of whole numbers", c.shape(scale), to)
	}
	in := []int{v, scale}
	if zero >= 0 {
		in = append(in, zero)
	}
	return c.as(c.add(graph.QuantizeLinear{Quantization: graph.Quantization{Axis: 1}, Dtype: to.String()}, in...), to)
}

// dequantized returns whole numbers less a zero point times a scale, exact in float64.
func (c *call) dequantized(v, scale, zero int) int {
	if c.err == nil && !c.dtype(v).whole() {
		c.fail("%v numbers: want whole ones", c.dtype(v))
	}
	return c.times(c.centered(v, zero), c.cast(scale, Float64))
}

// opQLinearMatMul is the product of what its two matrices stand for, quantized.
func opQLinearMatMul(c *call) []int {
	c.whole(0, 2, 3, 5, 7)
	sum := c.wholeProduct(c.arg(0), c.optional(2), c.arg(3), c.optional(5))
	scale := c.times(c.lengthwise(c.cast(c.arg(1), Float64), 1), c.cast(c.arg(4), Float64))
	return one(c.quantized(c.times(sum, scale), c.arg(6), c.optional(7), Uint8))
}

// opQGemm is the product of what two matrices stand for, transposed or not, and a bias in units of the product of the
// scales: quantized, or in float32 if there is no scale for it.
func opQGemm(c *call) []int {
	c.whole(0, 2, 3, 5, 6, 8)
	a, b, alpha := c.arg(0), c.arg(3), c.float("alpha", 1)
	if c.flag("transA") {
		a = c.add(graph.Transpose{A: 0, B: 1}, a)
	}
	if c.flag("transB") {
		b = c.add(graph.Transpose{A: 0, B: 1}, b)
	}
	sum := c.wholeProduct(a, c.optional(2), b, c.optional(5))
	if bias := c.optional(6); bias >= 0 {
		sum = c.add(graph.Addition, sum, c.centered(bias, absent))
	}
	scale := c.times(c.cast(c.arg(1), Float64), c.cast(c.arg(4), Float64))
	v := c.times(sum, c.add(graph.Binary{Of: pointwise.Mul, Other: &alpha}, scale))
	if c.optional(7) < 0 {
		return one(c.cast(v, Float32))
	}
	return one(c.quantized(v, c.arg(7), c.optional(8), Uint8))
}

// opQLinearConv has a bias of whole numbers, in units of the product of the scales.
func opQLinearConv(c *call) []int {
	c.whole(0, 2, 3, 5, 7, 8)
	w := c.arg(3)
	sum := c.wholeConv(c.arg(0), c.optional(2), w, c.optional(5), c.optional(8))
	scale := c.times(c.cast(c.arg(1), Float64), c.lengthwise(c.cast(c.arg(4), Float64), c.rank(w)-2))
	return one(c.quantized(c.times(sum, scale), c.arg(6), c.optional(7), Uint8))
}

// quantizedPair is an operation on what two quantized inputs stand for.
func quantizedPair(of pointwise.Op) mapping {
	return func(c *call) []int {
		a, b := c.dequantized(c.arg(0), c.arg(1), c.optional(2)), c.dequantized(c.arg(3), c.arg(4), c.optional(5))
		return one(c.quantized(c.add(graph.Binary{Of: of}, a, b), c.arg(6), c.optional(7), c.dtype(c.in[0])))
	}
}

// quantizedUnary is a function of what one quantized input stands for.
func quantizedUnary(f func(c *call, v int) int) mapping {
	return func(c *call) []int {
		v := f(c, c.dequantized(c.arg(0), c.arg(1), c.optional(2)))
		return one(c.quantized(v, c.arg(3), c.optional(4), c.dtype(c.in[0])))
	}
}

func quantizedSigmoid(c *call, v int) int { return c.function("sigmoid", nil, v) }

func quantizedLeaky(c *call, v int) int {
	slope := c.float("alpha", float32Number(0.01))
	return c.function("leaky_relu", map[string]float64{"negative_slope": slope}, v)
}

func quantizedSoftmax(c *call, v int) int {
	c.int("opset", 13)
	return c.add(graph.Softmax{Axis: c.int("axis", -1)}, v)
}

// quantizedGlobal is a mean over all axes after channels, or with channels_last between samples and channels.
func quantizedGlobal(c *call, v int) int {
	last := c.int("channels_last", 0)
	var axes graph.Ints
	for a := 2; a < c.rank(v); a++ {
		axes = append(axes, a-last)
	}
	if c.err == nil && (len(axes) == 0 || last < 0 || last > 1) {
		c.fail("input of shape %v: want axes beside samples and channels", c.shape(v))
	}
	return c.add(graph.Reduction{Of: "mean", Axes: axes, Keep: true}, v)
}

func quantizedAverage(c *call, v int) int {
	if c.flag("channels_last") {
		c.fail("channels_last: not supported")
	}
	w, attributes := c.pooling(v)
	if c.err != nil {
		return poison
	}
	attributes["count_include_pad"] = c.flag("count_include_pad")
	return c.bind(fmt.Sprintf("avg_pool%dd", len(w.kernel)), attributes, v)
}

// opQLinearConcat joins what inputs of different scales stand for.
func opQLinearConcat(c *call) []int {
	if len(c.in)%3 != 2 || len(c.in) < 5 {
		c.fail("%d inputs: want a scale, a zero point, and three for each tensor", len(c.in))
		return nil
	}
	var all []int
	for i := 2; i < len(c.in); i += 3 {
		all = append(all, c.dequantized(c.arg(i), c.arg(i+1), c.optional(i+2)))
	}
	return one(c.quantized(c.add(graph.Cat{Axis: c.int("axis", 0)}, all...), c.arg(0), c.optional(1), Uint8))
}

// opMatMulIntegerToFloat is a product of what two matrices stand for, in float32.
func opMatMulIntegerToFloat(c *call) []int {
	c.whole(0, 1, 4, 5)
	sum := c.wholeProduct(c.arg(0), c.optional(4), c.arg(1), c.optional(5))
	return one(c.scaled(sum, c.lengthwise(c.arg(2), 1), c.arg(3), c.optional(6)))
}

// scaled returns a sum times two scales, plus a bias, in the type of the scales.
func (c *call) scaled(sum, a, b, bias int) int {
	v := c.times(sum, c.times(c.cast(a, Float64), c.cast(b, Float64)))
	if bias >= 0 {
		v = c.plus(v, c.cast(bias, Float64))
	}
	return c.cast(v, c.dtype(a))
}

// dynamic quantizes a value by its extremes, and returns the numbers, their scale and zero point.
func (c *call) dynamic(v int) (x, scale, zero int) {
	out := c.addAll(graph.DynamicQuantizeLinear{}, 3, v)
	if len(out) < 3 {
		return poison, poison, poison
	}
	return c.as(out[0], Uint8), out[1], c.as(out[2], Uint8)
}

// opDynamicQuantizeMatMul quantizes its first matrix by its extremes.
func opDynamicQuantizeMatMul(c *call) []int {
	c.whole(1, 3)
	x, scale, zero := c.dynamic(c.arg(0))
	return one(c.scaled(c.wholeProduct(x, zero, c.arg(1), c.optional(3)), scale, c.arg(2), c.optional(4)))
}

// quantizedOperations are those of ONNX Runtime.
func quantizedOperations() map[string]mapping {
	return map[string]mapping{
		"QLinearAdd": quantizedPair(pointwise.Add), "QLinearMul": quantizedPair(pointwise.Mul),
		"QLinearSigmoid": quantizedUnary(quantizedSigmoid), "QLinearLeakyRelu": quantizedUnary(quantizedLeaky),
		"QLinearSoftmax": quantizedUnary(quantizedSoftmax), "QLinearConcat": opQLinearConcat,
		"QLinearGlobalAveragePool": quantizedUnary(quantizedGlobal), "QLinearAveragePool": quantizedUnary(quantizedAverage),
		"MatMulIntegerToFloat": opMatMulIntegerToFloat, "DynamicQuantizeMatMul": opDynamicQuantizeMatMul,
		"DynamicQuantizeLSTM": opDynamicQuantizeLSTM, "QGemm": opQGemm,
	}
}
