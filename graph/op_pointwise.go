package graph

import (
	"errors"
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Unary is a function of each number of an input. See [pointwise.Unary]. Its attributes
// are the function's parameters. Of whole numbers, abs, neg, sign, square, clip and the
// roundings are whole; of other functions they become float32 numbers first, as PyTorch's
// default type is. Truths, such as isnan's, are whole numbers, 1 and 0.
type Unary struct{ pointwise.Func }

// Function is a function of one number with its parameters. [Bind] makes one by its name; its methods Name
// and Params return what that was given, and String both.
type Function = pointwise.Func

// Binary is an operation on two inputs, whose shapes are spread as numpy does. See
// [pointwise.Binary]. Comparisons and logic give whole numbers, 1 and 0.
type Binary struct {
	Of pointwise.Op
	// Self and Other are numbers in place of the first or the second input, which is
	// then the only one. They are rounded to float32, unless the result is in float64, and
	// for a comparison to the format of the input, as PyTorch does.
	Self, Other *float64
	// Alpha is what the second operand of add and sub is multiplied with, without
	// rounding; nil for 1.
	Alpha *float64
}

// Arithmetic is an operation on two numbers, such as add; its method String returns the name.
type Arithmetic = pointwise.Op

// Sum and product of two inputs, number by number.
var (
	Addition       = Binary{Of: pointwise.Add}
	Multiplication = Binary{Of: pointwise.Mul}
)

// Where chooses from its second and its third input by the first: not 0 is true.
type Where struct{}

// Name implements [Op].
func (o Unary) Name() string { return o.Func.Name() }

// Name implements [Op].
func (o Binary) Name() string {
	if o.Of == pointwise.TruncDivide {
		return "div" // with rounding_mode: trunc
	}
	return o.Of.String()
}

// Name implements [Op].
func (Where) Name() string { return "where" }

// wholeFunctions are the functions that keep whole numbers whole.
var wholeFunctions = map[string]bool{"abs": true, "neg": true, "sign": true, "square": true, "clip": true,
	"floor": true, "ceil": true, "trunc": true, "round": true}

// truths are the functions whose results are 1 and 0.
var truths = map[string]bool{"logical_not": true, "isnan": true, "isinf": true}

// Infer implements [Op].
func (o Unary) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	of := in[0].Format
	if of == fp16.Int64 && !wholeFunctions[o.Name()] && !truths[o.Name()] {
		of = m.floating()
	}
	f, err := m.Result(o.Name(), of)
	inf := Inference{Operands: []fp16.Format{of}, Out: []Type{{in[0].Shape, f}}}
	if truths[o.Name()] {
		inf.Out[0].Format = fp16.Int64
	}
	return inf, err
}

// floating returns what whole numbers become where they must not stay whole.
func (m Mode) floating() fp16.Format {
	if m.Precision == fp16.Float64 {
		return fp16.Float64
	}
	return fp16.Float32
}

// truths reports whether the results are 1 and 0.
func (o Binary) truths() bool { return o.Of >= pointwise.Equal }

// Infer implements [Op].
func (o Binary) Infer(m Mode, in []Type) (Inference, error) {
	inputs := 2
	for _, v := range []*float64{o.Self, o.Other} {
		if v != nil {
			inputs--
		}
	}
	if inputs == 0 {
		return Inference{}, errors.New("self, other: want one of them at most")
	}
	if err := arity(in, inputs, inputs); err != nil {
		return Inference{}, err
	}
	if o.Alpha != nil && o.Of != pointwise.Add && o.Of != pointwise.Sub {
		return Inference{}, fmt.Errorf("alpha: %v: want it of add and sub only", *o.Alpha)
	}
	var shapes [][]int
	var formats []fp16.Format
	for _, t := range in {
		shapes, formats = append(shapes, t.Shape), append(formats, t.Format)
	}
	shape, err := pointwise.Broadcast(shapes...)
	if err != nil {
		return Inference{}, err
	}
	f := widest(formats)
	if f == fp16.Int64 && o.leavesWhole() {
		f = m.floating()
	}
	operands := f
	switch {
	case o.truths():
		f = fp16.Int64
	case f != fp16.Int64:
		if f, err = m.Result(o.Name(), append(formats, f)...); err != nil {
			return Inference{}, err
		}
		if half := f != fp16.Float64 && f != fp16.Float32; o.Of == pointwise.PReLU || !half || operands != fp16.Float32 {
			operands = f // autocast casts the slopes of prelu
		}
	}
	inf := Inference{Out: []Type{{shape, f}}}
	for range in {
		inf.Operands = append(inf.Operands, operands)
	}
	return inf, nil
}

// leavesWhole reports whether the operation of whole numbers is in general not whole.
func (o Binary) leavesWhole() bool {
	whole := func(v *float64) bool { return v == nil || *v == math.Trunc(*v) }
	switch o.Of {
	case pointwise.Div, pointwise.Pow, pointwise.Atan2, pointwise.PReLU:
		return true
	}
	return !whole(o.Self) || !whole(o.Other) || !whole(o.Alpha)
}

// Infer implements [Op].
func (o Where) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 3, 3); err != nil {
		return Inference{}, err
	}
	shape, err := pointwise.Broadcast(in[0].Shape, in[1].Shape, in[2].Shape)
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[1].Format, in[2].Format)
	return Inference{Operands: []fp16.Format{in[0].Format, f, f}, Out: []Type{{shape, f}}}, err
}

// Eval implements [Op].
func (o Unary) Eval(c *Call) error {
	pointwise.Unary(c.Out[0], c.In(0), o.Func)
	return wholes(c.Out[0])
}

// Eval implements [Op].
func (o Binary) Eval(c *Call) error {
	var in []*tensor.Tensor
	for i := range c.Inputs() {
		in = append(in, c.In(i))
	}
	if o.Self != nil {
		in = append([]*tensor.Tensor{o.number(c.Mode, *o.Self, in[0].Format)}, in...)
	}
	if o.Other != nil {
		in = append(in, o.number(c.Mode, *o.Other, in[0].Format))
	}
	if o.Alpha != nil {
		pointwise.AddScaled(c.Out[0], in[0], in[1], o.alpha(c.Mode))
	} else {
		pointwise.Binary(c.Out[0], in[0], in[1], o.Of)
	}
	return wholes(c.Out[0])
}

// alpha returns what the second operand is multiplied with.
func (o Binary) alpha(m Mode) float64 {
	v := m.Scalar(*o.Alpha, fp16.Float32)
	if o.Of == pointwise.Sub {
		return -v
	}
	return v
}

// number returns a number beside an operand as that is.
func (o Binary) number(m Mode, v float64, of fp16.Format) *tensor.Tensor {
	switch {
	case of == fp16.Int64:
	case o.truths() && of != fp16.Float64:
		v = of.Round(v)
	default:
		v = m.Scalar(v, of)
	}
	f := of
	if of != fp16.Float64 && of != fp16.Int64 {
		f = fp16.Float32
	}
	return &tensor.Tensor{Format: f, Data: []float64{v}}
}

// wholes returns an error if a tensor of whole numbers has some that float64 does not
// hold for certain, or none.
func wholes(t *tensor.Tensor) error {
	if t.Format != fp16.Int64 {
		return nil
	}
	_, err := wholeLine(t.Data, 0)
	return err
}

// wholeLine is wholes of some numbers, from the one numbered at on. It returns the number of the one in error, too.
func wholeLine(d []float64, at int) (int, error) {
	if least, greatest := pointwise.Ends(d); -1<<53 <= least && greatest <= 1<<53 {
		return 0, nil
	}
	for i, v := range d {
		if !(math.Abs(v) <= 1<<53) {
			return at + i, fmt.Errorf("element %d: %v: want whole numbers within 2^53", at+i, v)
		}
	}
	return 0, nil
}

// Eval implements [Op].
func (o Where) Eval(c *Call) error {
	pointwise.Where(c.Out[0], c.In(0), c.In(1), c.In(2))
	return nil
}

func (Unary) inPlace() {}

// Rules of autocast that are not those of the input: see testdata/autocast for the CPU's.
var (
	asWide = map[string]bool{"exp": true, "expm1": true, "log": true, "log2": true, "log1p": true, "reciprocal": true,
		"rsqrt": true, "acos": true, "asin": true, "cosh": true, "log10": true, "sinh": true, "tan": true,
		"softplus": true, "pow": true}
	asMost = map[string]bool{"add": true, "atan2": true}
)

func rulesOf(name string) casts {
	switch {
	case name == "add":
		return casts{most, most, most, most}
	case name == "mul", name == "clip": // what a rollout does to states, in every release
		return casts{same, same, same, same}
	case asWide[name]:
		return since2(wide, same)
	case asMost[name]:
		return since2(most, same)
	case name == "prelu":
		return since2(half, half)
	}
	return since2(same, same)
}

// aliases are ATen's names of functions that have ONNX's in package pointwise.
var aliases = map[string]string{"clamp": "clip"}

// quotient returns the quotient that a rounding mode asks for, nil for none.
func quotient(of pointwise.Op, mode *string) (pointwise.Op, error) {
	switch {
	case mode == nil:
		return of, nil
	case of != pointwise.Div:
		return of, fmt.Errorf("rounding_mode: %.60q: want it of div only", *mode)
	case *mode == "floor":
		return pointwise.FloorDivide, nil
	case *mode == "trunc":
		return pointwise.TruncDivide, nil
	}
	return of, fmt.Errorf("rounding_mode: %.60q: want floor or trunc, or null for neither", *mode)
}

func init() {
	bindUnary := func(name, function string) {
		bind(name, rulesOf(name), func(attributes []byte) (Op, error) {
			var params map[string]float64
			if err := attr.Read(attributes, &params); err != nil {
				return nil, err
			}
			f, err := pointwise.Parse(function, params)
			return Unary{f}, err
		})
	}
	for _, name := range pointwise.Names() {
		bindUnary(name, name)
	}
	for name, function := range aliases {
		bindUnary(name, function)
	}
	for _, name := range pointwise.OpNames() {
		of, _ := pointwise.ParseOp(name)
		if of == pointwise.TruncDivide {
			continue
		}
		bind(name, rulesOf(name), func(attributes []byte) (Op, error) {
			var a struct {
				Self  *float64 `json:"self"`
				Other *float64 `json:"other"`
				Alpha *float64 `json:"alpha"`
				Mode  *string  `json:"rounding_mode"`
			}
			if err := attr.Read(attributes, &a); err != nil {
				return nil, err
			}
			of, err := quotient(of, a.Mode)
			return Binary{of, a.Self, a.Other, a.Alpha}, err
		})
	}
	register(Where{}, since2(same, same))
}
