package rollout

import (
	"context"
	"fmt"

	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Engine runs whole rollouts: from an initial condition, T-1 steps, every
// realization, handing each state to its sinks as it comes. It keeps the
// states of one engine batch and nothing of the past.
type Engine struct {
	Stepper
	Graph  *GraphRun // the step, in place of the operator of the Stepper and of Start; nil of an operator
	Stream *Stream   // never nil: see [Case.OpenStream], whose "none" is one too
	Shape  Shape     // of a state
	// Start returns the initial condition [C,H,W] of realization m, before
	// post-processing. The engine only reads it.
	Start func(m int) []float64
	Sinks []Sink
	// AllowNonfinite lets the rollout go on after a NaN or an infinity;
	// otherwise Run returns a *NonfiniteError, unless a float16 overflow made
	// them.
	AllowNonfinite bool
	// Overflowed is set by Run to the overflow of the least step, if there was
	// one in the steps it took.
	Overflowed *Overflow
	// Checkpoint, if not nil, is called after every step with a position from
	// which Run continues; what it holds must be copied to be kept.
	Checkpoint func(*Checkpoint) error
	// Progress, if not nil, is called after every step of an engine batch.
	Progress func(done, total int)

	// due, if not nil, says whether Checkpoint is to be called now. Sinks are waited for
	// before it is, so that one that is not due costs nothing.
	due func() bool

	// Three states take turns: sinks read the last two while the next one is made.
	spare *tensor.Tensor
	time  int                              // of the step at work
	over  bool                             // it overflowed
	watch func(layer string, elements int) // takes note of that
}

// Sink takes the states of a rollout as they come: for each engine batch in
// order, for t = 0 to T-1, for each realization m of the batch. prev is the
// state before x, nil at t = 0; both are to be copied to be kept. The calls come one after
// the other from a goroutine of the engine's, while the step after is computed; Run
// returns after the last one. A sink that is resumed sees states again that
// it has seen before the interruption, and must end as if it had not.
type Sink interface {
	State(t, m int, x, prev []float64) error
}

// Checkpoint is a position of a run: engine batch Batch stands at step Step
// with states State [B,C,H,W]; batches before it are complete. Without states it is
// the beginning of the batch.
type Checkpoint struct {
	Batch, Step int
	State       *tensor.Tensor
}

// NonfiniteError reports the first NaN or infinity of a run.
type NonfiniteError struct {
	Step, Realization int
	Layer             string // the first module whose output is not finite; "policy" or "start" if none is
}

// Error says where it is in one line.
func (e *NonfiniteError) Error() string {
	if e.Layer == "start" {
		return fmt.Sprintf("initial condition of realization %d: NaN or infinite: want finite numbers", e.Realization)
	}
	return fmt.Sprintf("step %d, realization %d: NaN or infinite, first in %s", e.Step, e.Realization, e.Layer)
}

// Run rolls out, from the start or from a checkpoint of the same run. When ctx
// ends it returns ctx's error after the step at hand, with the checkpoint of
// that step written.
func (e *Engine) Run(ctx context.Context, from *Checkpoint) (err error) {
	if err := e.Fits(1); err != nil {
		return err
	}
	e.watch, e.spare = e.overflowed, nil
	out := newEmitter(e.Sinks)
	defer func() {
		if failed := out.close(); failed != nil {
			err = failed // of an earlier step
		}
	}()
	batches := e.Config.EngineBatches()
	done, total := 0, len(batches)*(e.Config.Timesteps-1)
	for k, b := range batches {
		var x, before *tensor.Tensor
		t := 0
		switch {
		case from != nil && k < from.Batch:
			done += e.Config.Timesteps - 1
			continue
		case from != nil && k == from.Batch && from.State != nil:
			x, t = from.State.Clone(), from.Step
			done += t
		default:
			if x, err = e.start(b[0], b[1]); err != nil {
				return err
			}
			if err := out.emit(0, b[0], e.shown(x), nil); err != nil {
				return err
			}
		}
		for t++; t < e.Config.Timesteps; t++ {
			next, err := e.advance(k, b[0], b[1], t, x)
			if err != nil {
				return err
			}
			if err := out.emit(t, b[0], e.shown(next), e.shown(x)); err != nil {
				return err
			}
			e.spare, before, x = before, x, next
			if e.Checkpoint != nil && (e.due == nil || e.due()) {
				if err := out.wait(); err != nil {
					return err
				}
				if err := e.Checkpoint(&Checkpoint{k, t, x}); err != nil {
					return err
				}
			}
			if done++; e.Progress != nil {
				e.Progress(done, total)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// shown is what sinks see of the states: of a step graph not those before the last.
func (e *Engine) shown(x *tensor.Tensor) *tensor.Tensor {
	if e.Graph == nil || x == nil {
		return x
	}
	n := e.Graph.shown()
	return tensor.Of(x.Format, x.Data[:n:n], 1, 1, 1, n)
}

// stateShape is the shape of a state as sinks see it.
func (e *Engine) stateShape() []int {
	if e.Graph != nil {
		if e.Graph.States[0].Name == "" && len(e.Graph.States) == 1 {
			return e.Graph.States[0].Shape
		}
		return []int{e.Graph.shown()}
	}
	return []int{e.Shape.C, e.Shape.H, e.Shape.W}
}

// Fits returns an error if so many engines like it take more memory than there is: of an engine
// batch three states take turns, beside what the operator holds.
func (e *Engine) Fits(engines int) error {
	if e.Graph != nil {
		return memory.Fits(memory.Product(int64(engines), 3*8, int64(e.Graph.packed())))
	}
	all := e.Config.EngineBatches()[0][1]
	part := all
	if e.Batch > 0 {
		part = min(e.Batch, all)
	}
	h, w := e.Shape.H, e.Shape.W
	states := memory.Product(int64(engines), 3*8, int64(all), int64(e.Shape.C), int64(h), int64(w))
	others := memory.Product(int64(engines-1), e.Operator.Peak(e.Mode, part, h, w))
	return e.Operator.Fits(e.Mode, part, h, w, memory.Sum(states, others))
}

// start returns the post-processed initial conditions of a batch.
func (e *Engine) start(lo, hi int) (*tensor.Tensor, error) {
	if e.Graph != nil {
		return e.Graph.start(lo, e.AllowNonfinite)
	}
	x := tensor.New(e.Config.StartFormat(e.Mode), hi-lo, e.Shape.C, e.Shape.H, e.Shape.W)
	for m := lo; m < hi; m++ {
		to := x.Samples(m-lo, m-lo+1).Data
		for i, v := range e.Start(m) {
			to[i] = x.Format.Round(v)
		}
	}
	e.postProcess(x)
	if m, ok := firstNonfinite(x); ok && !e.AllowNonfinite {
		return nil, &NonfiniteError{Realization: lo + m, Layer: "start"}
	}
	return x, nil
}

// advance steps engine batch k, realizations [lo,hi), to time t.
func (e *Engine) advance(k, lo, hi, t int, x *tensor.Tensor) (*tensor.Tensor, error) {
	if e.Graph != nil {
		return e.Graph.advance(lo, t, x, e.AllowNonfinite)
	}
	draws, err := e.Stream.Draws(k, lo, hi, t)
	if err != nil {
		return nil, err
	}
	e.time, e.over = t, false
	s := e.Stepper
	s.Overflow = e.watch
	next := e.spare
	if f := e.Config.StateFormat(e.Operator.Output(e.Mode)); next == nil || next.Format != f || !next.SameShape(x) {
		next = tensor.New(f, x.N(), x.C(), x.H(), x.W())
	}
	if err := s.step(next, x, draws); err != nil {
		return nil, fmt.Errorf("step %d: %w", t, err)
	}
	if m, ok := firstNonfinite(next); ok && !e.AllowNonfinite && !e.over {
		if _, before := firstNonfinite(x); before {
			return next, nil // of an overflow in an earlier step
		}
		layer, err := e.blame(k, lo, hi, t, x)
		if err != nil {
			return nil, err
		}
		return nil, &NonfiniteError{Step: t, Realization: lo + m, Layer: layer}
	}
	return next, nil
}

func (e *Engine) overflowed(layer string, elements int) {
	e.over = true
	if e.Overflowed == nil || e.time < e.Overflowed.Step {
		e.Overflowed = &Overflow{e.time, layer, elements}
	}
}

// blame repeats a step and returns the name of the first module whose output
// is not finite, or "policy" if they all are.
func (e *Engine) blame(k, lo, hi, t int, x *tensor.Tensor) (string, error) {
	draws, err := e.Stream.Draws(k, lo, hi, t)
	if err != nil {
		return "", err
	}
	layer := "policy"
	_, err = e.Operator.Forward(&operator.Pass{Mode: e.Mode, Draws: draws, Feature: func(name string, y *tensor.Tensor) {
		if _, bad := firstNonfinite(y); bad && layer == "policy" {
			layer = name
		}
	}}, x)
	return layer, err
}

// firstNonfinite returns the first sample of x that holds a NaN or infinity.
func firstNonfinite(x *tensor.Tensor) (sample int, ok bool) {
	for i, v := range x.Data {
		if v-v != 0 {
			return i / (x.C() * x.H() * x.W()), true
		}
	}
	return 0, false
}

// Shape is the size of a state.
type Shape struct{ C, H, W int }

// Len returns the number of elements.
func (s Shape) Len() int { return s.C * s.H * s.W }
