package judge

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// quantize is the whole number next to x/scale, of two the even one, plus the zero point, within what the type holds.
// The quotient of half numbers may be one: so ONNX defines it from version 23 on, and so ONNX Runtime computes it.
func (b *builder) quantize(op graph.QuantizeLinear, in []int) (int, bool) {
	to, err := pointwise.ParseInteger(op.Dtype)
	if err != nil || op.BlockSize > 0 {
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

// dequantize is (x - zero) scale.
func (b *builder) dequantize(op graph.DequantizeLinear, in []int) (int, bool) {
	if op.BlockSize > 0 {
		return 0, false
	}
	v := in[0]
	if len(in) > 2 {
		v = b.step("difference", sub, v, b.along(op.Quantization, in, 2))
	}
	v = b.step("output", mul, b.step("number", graph.Cast{Dtype: "float64"}, v), b.along(op.Quantization, in, 1))
	if f, err := fp16.ParseFormat(op.Dtype); err == nil && f.Half() {
		b.round[v] = rounding{Format: f}
	}
	return v, true
}

// along is a scale or a zero point in a shape that broadcasts: one number, or a list along an axis.
func (b *builder) along(q graph.Quantization, in []int, k int) int {
	n, axis := len(b.in[0].Shape), q.Axis
	if axis < 0 {
		axis += n
	}
	if s := b.in[k].Shape; len(s) == 0 || len(s) == 1 && s[0] == 1 {
		return in[k]
	}
	return b.step("parameter", graph.Reshape{Shape: slices.Concat(graph.Ints{-1}, slices.Repeat(graph.Ints{1}, n-axis-1))},
		in[k])
}
