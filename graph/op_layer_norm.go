package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
)

// LayerNorm is layer_norm: of an input, over its last axes, whose sizes are Shape, and, if
// they are given, a weight and a bias of that shape. See [norm.Layer].
type LayerNorm struct {
	Shape Ints    `json:"normalized_shape"` // none for the last axis
	Eps   float64 `json:"eps"`
}

// RMSNorm is rms_norm: of an input, over its last axes, whose sizes are Shape, and, if it
// is given, a weight of that shape. See [norm.RMS].
type RMSNorm struct {
	Shape Ints     `json:"normalized_shape"` // none for the last axis
	Eps   *float64 `json:"eps"`              // nil for PyTorch's 2^-23, of float64 numbers 2^-52
}

// Name implements [Op].
func (LayerNorm) Name() string { return "layer_norm" }

// Name implements [Op].
func (RMSNorm) Name() string { return "rms_norm" }

// placewise returns the types of an operation over the last axes, with up to that many
// parameters for each place in them, and the number of places.
func placewise(m Mode, op string, most int, shape Ints, in []Type) (Inference, error) {
	if err := arity(in, 1, 1+most); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	if len(x) == 0 {
		return Inference{}, fmt.Errorf("input of shape []: want one axis or more")
	}
	if len(shape) > len(x) {
		return Inference{}, fmt.Errorf("normalized_shape: %s: want the last sizes of the input of shape %v", shown(shape), x)
	}
	last := x[len(x)-max(len(shape), 1):]
	if len(shape) > 0 && !slices.Equal(last, shape) {
		return Inference{}, fmt.Errorf("normalized_shape: %s: want the last sizes of the input, %v", shown(shape), last)
	}
	if elementsOf(last) == 0 {
		return Inference{}, fmt.Errorf("input of shape %v: want numbers along the last axes", x)
	}
	for _, p := range in[1:] {
		if !slices.Equal(p.Shape, last) {
			return Inference{}, fmt.Errorf("parameter of shape %v: want %v, one for each place", p.Shape, last)
		}
	}
	f, err := m.Result(op, in[0].Format)
	return Inference{Out: []Type{{x, f}}}, err
}

// rowLength returns how many numbers the last axes have.
func rowLength(shape Ints, x []int) int { return elementsOf(x[len(x)-max(len(shape), 1):]) }

func elementsOf(shape []int) int { return int(Type{Shape: shape}.elements()) }

// Infer implements [Op].
func (o LayerNorm) Infer(m Mode, in []Type) (Inference, error) {
	if err := epsilon(o.Eps); err != nil {
		return Inference{}, err
	}
	return placewise(m, o.Name(), 2, o.Shape, in)
}

// Infer implements [Op].
func (o RMSNorm) Infer(m Mode, in []Type) (Inference, error) {
	if o.Eps != nil {
		if err := epsilon(*o.Eps); err != nil {
			return Inference{}, err
		}
	}
	return placewise(m, o.Name(), 1, o.Shape, in)
}

// Eval implements [Op].
func (o LayerNorm) Eval(c *Call) error {
	x := c.In(0)
	n := rowLength(o.Shape, x.Shape)
	if c.Mode.Fast && c.program.single(c.node) {
		norm.NewFastLayer(n, c.param(1), c.param(2), o.Eps).ForwardFast(c.Out[0], x)
		return nil
	}
	norm.Layer(c.Out[0], x, n, c.param(1), c.param(2), o.Eps)
	return nil
}

// Eval implements [Op].
func (o RMSNorm) Eval(c *Call) error {
	x := c.In(0)
	eps := 0x1p-23
	if x.Format == fp16.Float64 {
		eps = 0x1p-52
	}
	if o.Eps != nil {
		eps = *o.Eps
	}
	norm.RMS(c.Out[0], x, rowLength(o.Shape, x.Shape), c.param(1), eps)
	return nil
}

func (LayerNorm) inPlace() {}
func (RMSNorm) inPlace()   {}

func init() {
	register(LayerNorm{Eps: 1e-5}, since2(wide, same))
	register(RMSNorm{}, since2(same, same))
}
