package oracle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// CheckOptions says what a device is claimed to have computed, and how much
// work the check may be.
type CheckOptions struct {
	Mode operator.Mode
	// Noise is one of rollout.Case.OpenStream's names, "" for what the case
	// says, or "unknown" for a stream that cannot be reproduced.
	Noise string
	// Budget is the time after which gates that need not run on every step are
	// left out (and listed); 0 for none.
	Budget time.Duration
	// Progress, if not nil, is called as the check goes.
	Progress func(stage string, done, total int)
}

// exam is a check at work: the evidence, the claim, and what was found so far.
// Each gate is a method in a file of its own; it adds to the report.
type exam struct {
	ctx     context.Context
	c       *rollout.Case
	op      *operator.Operator
	machine *emulate.Machine
	o       CheckOptions
	states  *rollout.States
	stream  *rollout.Stream // nil if the noise is unknown
	masks   *masks          // of an unknown dropout, if they were read off the states
	until   time.Time       // the end of the budget, zero if there is none
	r       *report.Report
	pool    *pool           // what filters found at the steps so far
	planned []operator.Mode // whose plans the operator may have
}

// batchStep is one step of one engine batch, teacher-forced: the device's own
// state before it, what the device made of it, and the noise.
type batchStep struct {
	Batch, Lo, Hi, Step int
	X                   *tensor.Tensor // [B,C,H,W], the states before, float64 numbers
	Got                 []float64      // the states after, as the device has them
	Draws               *emulate.Draws // nil if there is none, or it is unknown
}

// fullStep is a batchStep with all that the expensive gates want to know.
type fullStep struct {
	*batchStep
	Device   *emulate.Device // the emulation of the claim, or of the pattern that fits best
	Truth    []float64       // exact but for the operands' rounding
	Emulated []float64
	S        []float64 // expected standard deviation of Got - Truth, element by element
	Limit    float64   // rms of (Got - Emulated)/S that correct devices reach at most
	Alike    float64   // pixels of X that the first convolutions round alike, see lookAlikes
	// Noise applies noise node i as Device does, with a block and draws that may
	// be others than its own; nil if the machine does it.
	Noise func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error)
}

// step returns a step of an engine batch.
func (e *exam) step(batch, lo, hi, t int) (*batchStep, error) {
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

// find adds a finding.
func (e *exam) find(f report.Finding) { e.r.Findings = append(e.r.Findings, f) }

// late reports whether the budget is spent, and notes what is left out.
func (e *exam) late(what string) bool {
	if e.until.IsZero() || time.Now().Before(e.until) {
		return false
	}
	if !slices.Contains(e.r.Skipped, what) {
		e.r.Skipped = append(e.r.Skipped, what)
	}
	return true
}

func (e *exam) progress(stage string, done, total int) {
	if e.o.Progress != nil {
		e.o.Progress(stage, done, total)
	}
}
