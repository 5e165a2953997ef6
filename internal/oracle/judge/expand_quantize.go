package judge

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// quantize is the whole number next to x/scale, of two the even one, plus the zero point, within what the type holds.
// The quotient of half numbers may be one: so ONNX defines it from version 23 on, and so ONNX Runtime computes it.
func (b *builder) quantize(op graph.QuantizeLinear, in []int) (int, bool) {
	to, err := pointwise.ParseInteger(op.Dtype)
	if err != nil {
		return 0, false
	}
	q := b.may(true, b.step("quotient", div, in[0], b.along(op.Quantization, in, 1)))
	v := b.step("rounded", unary("round"), q)
	if len(in) > 2 {
		v = b.step("shifted", plus, v, b.along(op.Quantization, in, 2))
	}
	v = b.step("held", graph.Unary{Func: clip(to.Range())}, v)
	// in int64, in which an interval about the ends of the type fits too
	return b.step("output", graph.Cast{Dtype: "int64"}, v), true
}

// quantizeDynamic is uint8's 255 steps from the least number or 0 to the greatest or 0: the numbers, their scale, which
// is 1 if all of them are 0, and their zero point.
func (b *builder) quantizeDynamic(x int) []int {
	rank := len(b.in[0].Shape)
	extreme := func(of string) int {
		return b.step(of, graph.Reduction{Of: of, Axes: lastAxes(b.in[0].Shape, rank)}, x)
	}
	least, greatest := b.step("least", unaryMin0(), extreme("amin")), b.step("greatest", unaryMax0(), extreme("amax"))
	span := b.step("span", sub, greatest, least)
	of, _ := pointwise.ParseInteger("uint8")
	low, high := of.Range()
	scale := b.step("scale", div, span, b.Constant("", tensor.Of(fp16.Float64, []float64{high - low})))
	some := b.step("some", graph.Binary{Of: pointwise.Greater, Other: new(float64)}, span)
	one := b.Constant("", tensor.Of(fp16.Float64, []float64{1}))
	scale = b.step("scale_output", graph.Where{}, some, b.may(true, scale), one)
	whole := graph.Cast{Dtype: "int64"}
	zero := b.step("zero_quotient", div, b.step("negated", unary("neg"), least), scale)
	zero = b.step("zero_rounded", unary("round"), zero)
	zero = b.step("zero_output", whole, b.step("zero_held", graph.Unary{Func: clip(low, high)}, zero))
	v := b.step("shifted", plus, b.step("rounded", unary("round"), b.step("quotient", div, x, scale)), zero)
	return []int{b.step("output", whole, b.step("held", graph.Unary{Func: clip(low, high)}, v)), scale, zero}
}

// dequantize is (x - zero) scale.
func (b *builder) dequantize(op graph.DequantizeLinear, in []int) int {
	v := in[0]
	if len(in) > 2 {
		v = b.step("difference", sub, v, b.along(op.Quantization, in, 2))
	}
	v = b.step("output", mul, b.step("number", graph.Cast{Dtype: "float64"}, v), b.along(op.Quantization, in, 1))
	if f, err := fp16.ParseFormat(op.Dtype); err == nil && f.Half() {
		b.round[v] = rounding{Format: f}
	}
	return v
}

// along is a scale or a zero point in a shape that broadcasts: one number, a list along an axis, or blocks of an axis.
func (b *builder) along(q graph.Quantization, in []int, k int) int {
	n, axis := len(b.in[0].Shape), q.Axis
	if axis < 0 {
		axis += n
	}
	if q.BlockSize > 0 { // of which the last may be shorter
		v := b.step("blocks", graph.RepeatInterleave{Repeats: q.BlockSize, Axis: &axis}, in[k])
		only := graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{0}, End: graph.Ints{b.in[0].Shape[axis]}}
		only.Step = graph.Ints{1}
		return b.step("parameter", only, v)
	}
	if s := b.in[k].Shape; len(s) == 0 || len(s) == 1 && s[0] == 1 {
		return in[k]
	}
	return b.step("parameter", graph.Reshape{Shape: slices.Concat(graph.Ints{-1}, slices.Repeat(graph.Ints{1}, n-axis-1))},
		in[k])
}
