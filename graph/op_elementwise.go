package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Act is an activation of an input of any shape. See [act.Forward].
type Act struct{ act.Func }

// Add is the sum of two inputs of one shape.
type Add struct{}

// Noise is Spinlock's stochastic block on an input [N,C,H,W]. See [noise.Block.Apply].
type Noise struct{ noise.Block }

// Name implements [Op].
func (Act) Name() string { return "activation" }

// Name implements [Op].
func (Add) Name() string { return "add" }

// Name implements [Op].
func (Noise) Name() string { return "noise" }

// Infer implements [Op].
func (Act) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) != 1 {
		return Inference{}, fmt.Errorf("%d inputs: want 1", len(in))
	}
	f, err := m.Result("activation", in[0].Format)
	return Inference{Out: []Type{{in[0].Shape, f}}}, err
}

// Infer implements [Op].
func (Add) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) != 2 {
		return Inference{}, fmt.Errorf("%d inputs: want 2", len(in))
	}
	if !slices.Equal(in[0].Shape, in[1].Shape) {
		return Inference{}, fmt.Errorf("inputs of shapes %v and %v: want one shape", in[0].Shape, in[1].Shape)
	}
	f, err := m.Result("add", in[0].Format, in[1].Format)
	return Inference{Operands: []fp16.Format{f, f}, Out: []Type{{in[0].Shape, f}}}, err
}

// Infer implements [Op].
func (n Noise) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) != 1 || len(in[0].Shape) != 4 {
		return Inference{}, fmt.Errorf("%d inputs: want one image [N,C,H,W]", len(in))
	}
	f, err := m.Result("noise", in[0].Format)
	if err != nil {
		return Inference{}, err
	}
	return Inference{Out: []Type{{in[0].Shape, n.Format(f)}}}, nil
}

// Eval implements [Op].
func (a Act) Eval(c *Call) error {
	act.Forward(c.Out[0], c.In(0), a.Func)
	return nil
}

// Eval implements [Op].
func (Add) Eval(c *Call) error {
	addTo(c.Out[0], c.In(0), c.In(1))
	return nil
}

// addTo sets dst to a + b, rounded once to dst's format. The float64 sum of two
// numbers of at most 24 bits is exact or so close that rounding it again
// gives the rounded exact sum: 53 >= 2*24+2 bits (S. Figueroa, "When is
// double rounding innocuous?", SIGNUM Newsletter 30, 1995).
func addTo(dst, a, b *tensor.Tensor) {
	const piece = 1 << 13
	par.For((len(dst.Data)+piece-1)/piece, func(i int) {
		lo, hi := i*piece, min((i+1)*piece, len(dst.Data))
		out, y := dst.Data[lo:hi], b.Data[lo:hi]
		for j, v := range a.Data[lo:hi] {
			out[j] = v + y[j]
		}
		dst.Format.RoundSlice(out, out)
	})
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
func (Add) inPlace()   {}
func (Noise) inPlace() {}

func init() {
	register(Act{}, casts{same, same, same, same})
	register(Add{}, casts{most, most, most, most})
	// randn_like, mul, dropout2d; a correlated field promotes
	register(Noise{}, casts{same, same, same, same})
}
