package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Cast is ONNX's Cast and ATen's _to_copy: its input as numbers of another type, whatever
// the mode is. To a floating-point type it rounds once; in the mode float64, where all
// numbers are float64, it does nothing. To whole numbers see [pointwise.ToIntegers].
type Cast struct {
	// Dtype is float64, float32, float16 or bfloat16, or a name of
	// [pointwise.ParseInteger], such as int64 or bool.
	Dtype string `json:"dtype"`
}

// Name implements [Op].
func (Cast) Name() string { return "cast" }

// Infer implements [Op].
func (o Cast) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	f, err := fp16.ParseFormat(o.Dtype)
	switch {
	case err == nil && f != fp16.TF32:
		if m.Precision == fp16.Float64 {
			f = fp16.Float64
		}
	default:
		if _, err := pointwise.ParseInteger(o.Dtype); err != nil {
			return Inference{}, fmt.Errorf("dtype: %w, float64, float32, float16 or bfloat16", err)
		}
		f = fp16.Int64
	}
	return Inference{Out: []Type{{in[0].Shape, f}}}, nil
}

// Eval implements [Op].
func (o Cast) Eval(c *Call) error {
	y, x := c.Out[0], c.In(0)
	if y.Format != fp16.Int64 {
		y.Format.RoundSlice(y.Data, x.Data)
		return nil
	}
	to, err := pointwise.ParseInteger(o.Dtype)
	if err != nil {
		return err
	}
	return pointwise.ToIntegers(y, x, to)
}

// QuantizeLinear is ONNX's: of an input, a scale and, if it is given, a zero point. See
// [pointwise.Quantize].
type QuantizeLinear struct {
	Quantization
	Dtype string `json:"dtype"` // of the results: a name of pointwise.ParseInteger
}

// DequantizeLinear is ONNX's: of whole numbers, a scale and, if it is given, a zero point.
// The results have the scale's format. See [pointwise.Dequantize].
type DequantizeLinear struct {
	Quantization
	Dtype string `json:"output_dtype"` // "" for that of the scale
}

// DynamicQuantizeLinear is ONNX's: of an input, whose numbers in uint8, scale and zero point are
// the outputs. See [pointwise.QuantizeDynamic].
type DynamicQuantizeLinear struct{}

// Quantization says what a scale and a zero point belong to: to all of the input, if they
// are one number; to the places along an axis, if they are a list; to blocks of an axis,
// if they have as many axes as the input.
type Quantization struct {
	Axis      int `json:"axis"`
	BlockSize int `json:"block_size"` // of blocks; 0 for none
}

// Name implements [Op].
func (QuantizeLinear) Name() string { return "quantize_linear" }

// Name implements [Op].
func (DequantizeLinear) Name() string { return "dequantize_linear" }

// Name implements [Op].
func (DynamicQuantizeLinear) Name() string { return "dynamic_quantize_linear" }

// check returns an error unless scale and zero point fit the input.
func (q Quantization) check(in []Type) error {
	if err := arity(in, 2, 3); err != nil {
		return err
	}
	x, s := in[0].Shape, in[1].Shape
	switch {
	case in[1].Format == fp16.Int64:
		return fmt.Errorf("input 1: int64 numbers: want a scale of floating-point ones")
	case len(in) == 3 && in[2].Format != fp16.Int64:
		return fmt.Errorf("input 2: %v numbers: want a zero point of whole ones", in[2].Format)
	case len(in) == 3 && (len(in[2].Shape) != len(s) || elementsOf(in[2].Shape) != elementsOf(s)):
		return fmt.Errorf("input 2 of shape %v: want the scale's, %v", in[2].Shape, s)
	case q.BlockSize == 0 && (len(s) == 0 || len(s) == 1 && s[0] == 1):
		return nil
	}
	a, err := axis("axis", q.Axis, len(x))
	if err != nil {
		return err
	}
	if q.BlockSize == 0 {
		if len(s) != 1 || s[0] != x[a] {
			return fmt.Errorf("scale of shape %v: want one number, or %d, one for each place along axis %d", s, x[a], a)
		}
		return nil
	}
	fits := q.BlockSize > 0 && len(s) == len(x)
	for i := range s {
		fits = fits &&
			(i == a && (int64(x[i])+int64(q.BlockSize)-1)/int64(q.BlockSize) == int64(s[i]) || i != a && s[i] == x[i])
	}
	if !fits {
		return fmt.Errorf("block_size: %d: want the scale's shape %v to be the input's, "+
			"%v, with blocks of so many along axis %d", q.BlockSize, s, x, a)
	}
	return nil
}

// Infer implements [Op].
func (o QuantizeLinear) Infer(m Mode, in []Type) (Inference, error) {
	if err := o.check(in); err != nil {
		return Inference{}, err
	}
	if in[0].Format == fp16.Int64 {
		return Inference{}, fmt.Errorf("input 0: int64 numbers: want floating-point ones")
	}
	if _, err := pointwise.ParseInteger(o.Dtype); err != nil {
		return Inference{}, fmt.Errorf("dtype: %w", err)
	}
	return Inference{Out: []Type{{in[0].Shape, fp16.Int64}}}, nil
}

// Infer implements [Op].
func (o DequantizeLinear) Infer(m Mode, in []Type) (Inference, error) {
	if err := o.check(in); err != nil {
		return Inference{}, err
	}
	if in[0].Format != fp16.Int64 {
		return Inference{}, fmt.Errorf("input 0: %v numbers: want whole ones", in[0].Format)
	}
	f := in[1].Format
	if o.Dtype != "" && f != fp16.Float64 {
		to, err := Cast{Dtype: o.Dtype}.Infer(m, in[1:2])
		if err == nil && to.Out[0].Format == fp16.Int64 {
			err = fmt.Errorf("output_dtype: %.40q: want one of floating-point numbers", o.Dtype)
		}
		if err != nil {
			return Inference{}, err
		}
		f = to.Out[0].Format
	}
	return Inference{Out: []Type{{in[0].Shape, f}}}, nil
}

// Infer implements [Op].
func (DynamicQuantizeLinear) Infer(m Mode, in []Type) (Inference, error) {
	err := arity(in, 1, 1)
	if err == nil {
		err = real(in)
	}
	if err != nil {
		return Inference{}, err
	}
	return Inference{Out: []Type{{in[0].Shape, fp16.Int64}, {nil, in[0].Format}, {nil, fp16.Int64}}}, nil
}

// Eval implements [Op].
func (DynamicQuantizeLinear) Eval(c *Call) error {
	return pointwise.QuantizeDynamic(c.Out[0], c.Out[1], c.Out[2], c.In(0))
}

// Eval implements [Op].
func (o QuantizeLinear) Eval(c *Call) error {
	to, err := pointwise.ParseInteger(o.Dtype)
	if err != nil {
		return err
	}
	scale, zero := o.spread(c)
	return pointwise.Quantize(c.Out[0], c.In(0), scale, zero, to)
}

// Eval implements [Op].
func (o DequantizeLinear) Eval(c *Call) error {
	scale, zero := o.spread(c)
	pointwise.Dequantize(c.Out[0], c.In(0), scale, zero)
	return nil
}

// spread returns scale and zero point in shapes that are spread over the input as numpy
// does it.
func (q Quantization) spread(c *Call) (scale, zero *tensor.Tensor) {
	scale = q.over(c.In(0).Shape, c.In(1))
	if c.Inputs() == 3 {
		zero = q.over(c.In(0).Shape, c.In(2))
	}
	return scale, zero
}

func (q Quantization) over(x []int, t *tensor.Tensor) *tensor.Tensor {
	a := q.Axis
	if a < 0 {
		a += len(x)
	}
	switch {
	case len(t.Data) == 1 && q.BlockSize == 0:
		return &tensor.Tensor{Format: t.Format, Data: t.Data}
	case q.BlockSize == 0:
		shape := make([]int, len(x)-a)
		for i := range shape {
			shape[i] = 1
		}
		shape[0] = x[a]
		return &tensor.Tensor{Format: t.Format, Data: t.Data, Shape: shape}
	}
	y := tensor.New(t.Format, x...)
	inner := elementsOf(x[a+1:])
	for i := range y.Data {
		outer, at := i/inner/x[a], i/inner%x[a]
		y.Data[i] = t.Data[(outer*t.Shape[a]+at/q.BlockSize)*inner+i%inner]
	}
	return y
}

func init() {
	register(Cast{Dtype: "float32"}, since2(same, same))
	register(QuantizeLinear{Quantization{Axis: 1}, "uint8"}, since2(same, same))
	register(DynamicQuantizeLinear{}, since2(same, same))
	register(DequantizeLinear{Quantization: Quantization{Axis: 1}}, since2(same, same))
}
