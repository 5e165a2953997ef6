package chain

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/tensor"
)

// place is one step of an engine batch.
type place struct{ batch, lo, hi, t int }

// places are all steps, in the order of time.
func places(e *evidence.Evidence) (all []place) {
	for t := 1; t < e.States.T; t++ {
		for k, b := range e.Case.Rollout.EngineBatches() {
			all = append(all, place{k, b[0], b[1], t})
		}
	}
	return all
}

// state returns states t of an engine batch, in the format that the claim keeps them in, or in float32 where a
// device has not kept them so.
func (c *checker) state(p place, t int) *tensor.Tensor {
	r := c.Case.Rollout
	f := r.StartFormat(c.Mode)
	if t > 0 {
		f = r.StateFormat(c.Op.Output(c.Mode))
	}
	x := c.Stored(p.lo, p.hi, t)
	if x.Format = f; !evidence.OnFormat(f, finite(x.Data)) {
		x.Format = fp16.Float32
	}
	return x
}

func finite(v []float64) (all []float64) {
	for _, x := range v {
		if x-x == 0 {
			all = append(all, x)
		}
	}
	return all
}

// inputs are what a step is made of: the state before it and its draws.
func (c *checker) inputs(p place, state *tensor.Tensor, draws place) ([]*tensor.Tensor, error) {
	if c.step.block == nil {
		return []*tensor.Tensor{state}, nil
	}
	types, err := c.step.types(c.Mode, graph.Type{Shape: state.Shape, Format: state.Format})
	if err != nil {
		return nil, err
	}
	var d noise.Draws
	if c.Stream != nil {
		if d, err = c.Stream.Draws(draws.batch, draws.lo, draws.hi, draws.t); err != nil {
			return nil, err
		}
	}
	x, err := c.step.drawn(types[1], d)
	return []*tensor.Tensor{state, x}, err
}
