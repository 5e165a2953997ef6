package oracle

import (
	"context"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// evidence is what a check has of a device, and what is claimed of it. Gates read
// it and change nothing in it.
type evidence struct {
	ctx     context.Context
	c       *rollout.Case
	op      *operator.Operator
	machine *emulate.Machine
	mode    operator.Mode // that is claimed
	states  *rollout.States
	stream  *rollout.Stream // nil if the noise is unknown
	// watch, if not nil, is told how far the check is.
	watch   func(stage string, done, total int)
	planned []operator.Mode // whose plans the operator may have: see forward
}

// batchStep is one step of one engine batch, teacher-forced: the device's own
// state before it, what the device made of it, and the noise.
type batchStep struct {
	Batch, Lo, Hi, Step int
	X                   *tensor.Tensor // [B,C,H,W], the states before, float64 numbers
	Got                 []float64      // the states after, as the device has them
	Draws               *emulate.Draws // nil if there is none, or it is unknown
}

// step returns a step of an engine batch.
func (e *evidence) step(batch, lo, hi, t int) (*batchStep, error) {
	s := e.states
	b := &batchStep{Batch: batch, Lo: lo, Hi: hi, Step: t, X: tensor.New(fp16.Float64, hi-lo, s.C, s.H, s.W)}
	for m := lo; m < hi; m++ {
		copy(b.X.Samples(m-lo, m-lo+1).Data, s.At(m, t-1))
		b.Got = append(b.Got, s.At(m, t)...)
	}
	if e.stream != nil {
		d, err := e.stream.Draws(batch, lo, hi, t)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
		b.Draws = emulate.Keep(d)
	}
	return b, nil
}

func (e *evidence) progress(stage string, done, total int) {
	if e.watch != nil {
		e.watch(stage, done, total)
	}
}
