package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/op/pointwise"
)

// GLU multiplies the first half of an input along an axis with the sigmoid of the second. See
// [pointwise.GLU].
type GLU struct {
	Axis int `json:"dim"`
}

// Name implements [Op].
func (GLU) Name() string { return "glu" }

// Infer implements [Op].
func (o GLU) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	a, err := axis("dim", o.Axis, len(in[0].Shape))
	if err != nil {
		return Inference{}, err
	}
	shape := slices.Clone(in[0].Shape)
	if shape[a]%2 != 0 {
		return Inference{}, fmt.Errorf("dim: %d: want an axis of even size, not %d", o.Axis, shape[a])
	}
	shape[a] /= 2
	f, err := m.Result(o.Name(), in[0].Format)
	return Inference{Out: []Type{{shape, f}}}, err
}

// Eval implements [Op].
func (o GLU) Eval(c *Call) error {
	x := c.In(0)
	a, err := axis("dim", o.Axis, len(x.Shape))
	if err == nil {
		pointwise.GLU(c.Out[0], x, a)
	}
	return err
}

func init() { register(GLU{Axis: -1}, since2(same, same)) }
