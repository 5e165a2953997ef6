// Package evidence is what a check has: the recorded states, layers and draws, the
// operator and the claim, and single steps of them, as recorded and as the claim makes
// them. Gates only read it, but noisestat.ReadMasks may set Stream.
package evidence

import (
	"context"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// Evidence is what a check has of a device, and what is claimed of it. Gates only
// read it, but noisestat.ReadMasks may set Stream.
type Evidence struct {
	Ctx     context.Context
	Case    *rollout.Case
	Op      *operator.Operator
	Machine *emulate.Machine
	Mode    graph.Mode // that is claimed
	States  *rollout.States
	More    []*rollout.States // of a step graph, the states beside the first
	Stream  *rollout.Stream   // nil if the noise is unknown
	// Watch, if not nil, is told how far the check is.
	Watch func(stage string, done, total int)
}

// LargeForward is the multiplications of a step above which work is spared: hundreds of
// hypotheses are as many steps. In some places those of one sample count.
const LargeForward = 1e9

// FewestNumbers is how many numbers must vary, in all steps, to show anything: the mean
// square of n independent normal errors is known to sqrt(2/n) of itself, here 4 %.
const FewestNumbers = 1 << 10

// BatchStep is one step of one engine batch, teacher-forced: the device's own
// state before it, what the device made of it, and the noise.
type BatchStep struct {
	Batch, Lo, Hi, Step int
	X                   *tensor.Tensor // [B,C,H,W], the states before, float64 numbers
	Got                 []float64      // the states after, as the device has them
	Draws               *emulate.Draws // nil if there is none, or it is unknown
}

// StepOf returns a step of an engine batch.
func (e *Evidence) StepOf(batch, t int) (*BatchStep, error) {
	b := e.Case.Rollout.EngineBatches()[batch]
	return e.Step(batch, b[0], b[1], t)
}

// StepWith returns a step of the engine batch that holds realization m.
func (e *Evidence) StepWith(m, t int) (*BatchStep, error) {
	k, lo, hi := BatchOf(e.Case.Rollout, m)
	return e.Step(k, lo, hi, t)
}

// Each returns the states of all names.
func (e *Evidence) Each() []*rollout.States { return append([]*rollout.States{e.States}, e.More...) }

// Stored returns states t of realizations lo to hi-1, as the device has them.
func (e *Evidence) Stored(lo, hi, t int) *tensor.Tensor {
	s := e.States
	x := tensor.New(fp16.Float64, hi-lo, s.C, s.H, s.W)
	for m := lo; m < hi; m++ {
		copy(x.Samples(m-lo, m-lo+1).Data, s.At(m, t))
	}
	return x
}

// Step returns a step of realizations lo to hi-1 of an engine batch.
func (e *Evidence) Step(batch, lo, hi, t int) (*BatchStep, error) {
	b := &BatchStep{Batch: batch, Lo: lo, Hi: hi, Step: t, X: e.Stored(lo, hi, t-1), Got: e.Stored(lo, hi, t).Data}
	if e.Stream != nil {
		d, err := e.Stream.Draws(batch, lo, hi, t)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
		b.Draws = emulate.Keep(d)
	}
	return b, nil
}

// Progress tells whoever watches how far a stage of the check is.
func (e *Evidence) Progress(stage string, done, total int) {
	if e.Watch != nil {
		e.Watch(stage, done, total)
	}
}
