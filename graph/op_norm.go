package graph

import (
	"fmt"

	"github.com/refrun/refrun/norm"
)

// GroupNorm is group_norm: of an input [N,C,H,W], a weight [C] and a bias [C]. See
// [norm.Group].
type GroupNorm struct {
	Groups int     `json:"num_groups"` // sets of channels with common statistics
	Eps    float64 `json:"eps"`        // as a double
}

// InstanceNorm is instance_norm, a group norm in which each channel is a group.
type InstanceNorm struct {
	Eps float64 `json:"eps"`
}

// BatchNorm is batch_norm in evaluation: of an input [N,C,H,W], a weight, a bias, a
// running mean and a running variance [C]. See [norm.Batch].
type BatchNorm struct {
	Eps float64 `json:"eps"`
}

// Name implements [Op].
func (GroupNorm) Name() string { return "group_norm" }

// Name implements [Op].
func (InstanceNorm) Name() string { return "instance_norm" }

// Name implements [Op].
func (BatchNorm) Name() string { return "batch_norm" }

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
func (o GroupNorm) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := channelwise(m, o.Name(), 2, in)
	if err == nil && (o.Groups < 1 || in[0].Shape[1]%o.Groups != 0) {
		err = fmt.Errorf("num_groups: %d: want a divisor of the %d channels", o.Groups, in[0].Shape[1])
	}
	return inf, err
}

// Infer implements [Op].
func (o InstanceNorm) Infer(m Mode, in []Type) (Inference, error) {
	return channelwise(m, o.Name(), 2, in)
}

// Infer implements [Op].
func (o BatchNorm) Infer(m Mode, in []Type) (Inference, error) {
	return channelwise(m, o.Name(), 4, in)
}

// Eval implements [Op].
func (o GroupNorm) Eval(c *Call) error {
	norm.Group(c.Out[0], c.In(0), o.Groups, c.In(1).Data, c.In(2).Data, o.Eps)
	return nil
}

// Eval implements [Op].
func (o InstanceNorm) Eval(c *Call) error {
	norm.Instance(c.Out[0], c.In(0), c.In(1).Data, c.In(2).Data, o.Eps)
	return nil
}

// Eval implements [Op].
func (o BatchNorm) Eval(c *Call) error {
	norm.Batch(c.Out[0], c.In(0), c.In(3).Data, c.In(4).Data, c.In(1).Data, c.In(2).Data, o.Eps)
	return nil
}

func (GroupNorm) inPlace()    {}
func (InstanceNorm) inPlace() {}
func (BatchNorm) inPlace()    {}

func init() {
	register(GroupNorm{Eps: 1e-5}, casts{wide, wide, fail, same})
	register(InstanceNorm{Eps: 1e-5}, casts{same, same, same, same})
	register(BatchNorm{Eps: 1e-5}, casts{same, same, same, same})
}
