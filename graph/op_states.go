package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/norm"
)

// MinMax is minmax, which Spinlock's rollouts do to states: (x-min)/(max-min), where
// max-min > 1e-8. See [norm.MinMax].
type MinMax struct {
	// StartDim is the first of the axes over which it goes: 0 takes all numbers
	// together, 1 each sample by itself.
	StartDim int `json:"start_dim"`
}

// ZScore is zscore, which Spinlock's rollouts do to states: (x-mean)/(std+1e-8). See
// [norm.ZScore].
type ZScore struct {
	StartDim int `json:"start_dim"` // as MinMax has it
}

// Name implements [Op].
func (MinMax) Name() string { return "minmax" }

// Name implements [Op].
func (ZScore) Name() string { return "zscore" }

// Infer implements [Op].
func (o MinMax) Infer(m Mode, in []Type) (Inference, error) {
	return trailing(m, o.Name(), o.StartDim, in)
}

// Infer implements [Op].
func (o ZScore) Infer(m Mode, in []Type) (Inference, error) {
	return trailing(m, o.Name(), o.StartDim, in)
}

// trailing returns the types of an operation on all axes from one on.
func trailing(m Mode, name string, start int, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	if rank := len(in[0].Shape); start < 0 || start > rank {
		return Inference{}, fmt.Errorf("start_dim: %d: want 0 to %d, the input's rank", start, rank)
	}
	f, err := m.Result(name, in[0].Format)
	return Inference{Out: []Type{{in[0].Shape, f}}}, err
}

// Eval implements [Op].
func (o MinMax) Eval(c *Call) error { eachTrailing(c, o.StartDim, norm.MinMax); return nil }

// Eval implements [Op].
func (o ZScore) Eval(c *Call) error { eachTrailing(c, o.StartDim, norm.ZScore); return nil }

// eachTrailing applies f to the numbers of all axes from one on, for each place in the
// axes before it.
func eachTrailing(c *Call, start int, f func([]float64, fp16.Format)) {
	y, x := c.Out[0], c.In(0)
	if len(y.Data) == 0 {
		return
	}
	y.Format.RoundSlice(y.Data, x.Data)
	size := elementsOf(y.Shape[start:])
	par.For(len(y.Data)/size, func(i int) { f(y.Data[i*size:][:size], y.Format) })
}

func (MinMax) inPlace() {}
func (ZScore) inPlace() {}

func init() {
	register(MinMax{}, casts{same, same, same, same})
	register(ZScore{}, casts{same, same, same, same})
}
