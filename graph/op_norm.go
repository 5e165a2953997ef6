package graph

import (
	"fmt"

	"github.com/refrun/refrun/norm"
)

// Norm is instance, group or layer norm: of an input [N,C,H,W], a weight [C] and a
// bias [C]. See [norm.Group].
type Norm struct {
	Kind   string  // instance, group or layer
	Groups int     // sets of channels with common statistics: C of an instance norm, 1 of a layer norm
	Eps    float64 // as a double
}

// BatchNorm is batch norm in evaluation: of an input [N,C,H,W], a weight, a bias, a
// running mean and a running variance [C]. See [norm.Batch].
type BatchNorm struct{ Eps float64 }

// Name implements [Op].
func (n Norm) Name() string { return n.Kind + " norm" }

// Name implements [Op].
func (BatchNorm) Name() string { return "batch norm" }

// channelwise returns the types of an operation on images with parameters for each
// channel.
func channelwise(m Mode, op string, params int, in []Type) (Inference, error) {
	if len(in) != 1+params {
		return Inference{}, fmt.Errorf("%d inputs: want %d", len(in), 1+params)
	}
	x := in[0].Shape
	if len(x) != 4 {
		return Inference{}, fmt.Errorf("input of shape %v: want [N,C,H,W]", x)
	}
	for _, p := range in[1:] {
		if len(p.Shape) != 1 || p.Shape[0] != x[1] {
			return Inference{}, fmt.Errorf("parameter of shape %v: want [%d], one for each channel", p.Shape, x[1])
		}
	}
	f, err := m.Result(op, in[0].Format)
	return Inference{Out: []Type{{x, f}}}, err
}

// Infer implements [Op].
func (n Norm) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := channelwise(m, n.Name(), 2, in)
	if err == nil && (n.Groups < 1 || in[0].Shape[1]%n.Groups != 0) {
		err = fmt.Errorf("%d groups: want a divisor of the %d channels", n.Groups, in[0].Shape[1])
	}
	return inf, err
}

// Infer implements [Op].
func (n BatchNorm) Infer(m Mode, in []Type) (Inference, error) {
	return channelwise(m, n.Name(), 4, in)
}

// Eval implements [Op].
func (n Norm) Eval(c *Call) error {
	norm.Group(c.Out[0], c.In(0), n.Groups, c.In(1).Data, c.In(2).Data, n.Eps)
	return nil
}

// Eval implements [Op].
func (n BatchNorm) Eval(c *Call) error {
	norm.Batch(c.Out[0], c.In(0), c.In(3).Data, c.In(4).Data, c.In(1).Data, c.In(2).Data, n.Eps)
	return nil
}

func (Norm) inPlace()      {}
func (BatchNorm) inPlace() {}

func init() {
	for kind, c := range map[string]casts{
		"instance": {same, same, same, same},
		"group":    {wide, wide, fail, same},
		"layer":    {wide, wide, fail, same}, // a group norm of one group
	} {
		register(Norm{Kind: kind, Eps: 1e-5}, c)
	}
	register(BatchNorm{Eps: 1e-5}, casts{same, same, same, same})
}
