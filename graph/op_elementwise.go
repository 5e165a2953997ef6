package graph

import (
	"fmt"

	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
)

// Act is an activation of an input of any shape. See [act.Forward].
type Act struct{ act.Func }

// Noise is Spinlock's stochastic block on an input [N,C,H,W]. See [noise.Block.Apply].
type Noise struct{ noise.Block }

// Name implements [Op].
func (a Act) Name() string {
	switch a.Func {
	case act.Identity:
		return "identity"
	case act.GELUTanh:
		return "gelu" // with approximate: tanh
	}
	return a.Func.String()
}

// Name implements [Op].
func (Noise) Name() string { return "noise" }

// Infer implements [Op].
func (a Act) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) != 1 {
		return Inference{}, fmt.Errorf("%d inputs: want 1", len(in))
	}
	f, err := m.Result(a.Name(), in[0].Format)
	return Inference{Out: []Type{{in[0].Shape, f}}}, err
}

// Infer implements [Op].
func (n Noise) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) != 1 || len(in[0].Shape) != 4 {
		return Inference{}, fmt.Errorf("%d inputs: want one image [N,C,H,W]", len(in))
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	f, err := m.Result("noise", in[0].Format)
	if err != nil {
		return Inference{}, err
	}
	return Inference{Out: []Type{{in[0].Shape, n.Format(f)}}}, nil
}

// Eval implements [Op].
func (a Act) Eval(c *Call) error {
	if c.Mode.Fast {
		act.ForwardFast(c.Out[0], c.In(0), a.Func)
	} else {
		act.Forward(c.Out[0], c.In(0), a.Func)
	}
	return nil
}

// Eval implements [Op]. Without draws the graph must not have the node.
func (n Noise) Eval(c *Call) error {
	if c.Draws == nil {
		panic("graph: noise without draws")
	}
	block := n.Block
	block.NarrowScale = c.Mode.Autocast == CPU113
	return block.Apply(c.Out[0], c.In(0), c.Time, c.Draws)
}

func (Act) inPlace()   {}
func (Noise) inPlace() {}

func init() {
	asInput := casts{same, same, same, same}
	for _, f := range []act.Func{act.Identity, act.ReLU, act.SiLU, act.Tanh} {
		bind(Act{f}.Name(), asInput,
			func(attributes []byte) (Op, error) { return Act{f}, attr.Read(attributes, &struct{}{}) })
	}
	bind("gelu", asInput, func(attributes []byte) (Op, error) {
		var a struct {
			Approximate string `json:"approximate"`
		}
		if err := attr.Read(attributes, &a); err != nil {
			return nil, err
		}
		switch a.Approximate {
		case "", "none":
			return Act{act.GELU}, nil
		case "tanh":
			return Act{act.GELUTanh}, nil
		}
		return nil, fmt.Errorf("approximate: %.60q: want none or tanh", a.Approximate)
	})
	// randn_like, mul, dropout2d; a correlated field promotes
	register(Noise{}, casts{same, same, same, same})
}
