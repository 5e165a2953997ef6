package evidence

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// Part returns the draws of samples from to to-1 of n.
func Part(d *emulate.Draws, from, to, n int) *emulate.Draws {
	if d == nil || from == 0 && to == n {
		return d
	}
	p := &emulate.Draws{Kinds: d.Kinds}
	for _, data := range d.Data {
		per := len(data) / n
		p.Data = append(p.Data, data[from*per:to*per])
	}
	return p
}

// OnFormat reports whether all numbers are of a format.
func OnFormat(f fp16.Format, v []float64) bool {
	for _, x := range v {
		if !f.Holds(x) {
			return false
		}
	}
	return true
}

// Raw returns the states that follow before post-processing.
func (e *Evidence) Raw(d *emulate.Device, x, out *tensor.Tensor) *tensor.Tensor {
	c := e.Case.Rollout
	c.Normalization, c.Clamp = "", nil
	if d.Store == nil {
		return c.Advance(x, out, fp16.Float64, d.Mode)
	}
	return c.Advance(x, tensor.Of(d.Store[len(d.Store)-1], out.Data, out.Shape...), d.State, d.Mode)
}

// OutputShare returns the weight with which the operator's output enters a
// state.
func (e *Evidence) OutputShare() float64 {
	switch c := e.Case.Rollout; c.Policy {
	case rollout.Convex:
		return e.Mode.Scalar(1-c.Alpha, fp16.Float32)
	case rollout.Residual:
		return e.Mode.Scalar(c.Dt, fp16.Float32)
	}
	return 1
}

// StateShare returns the weight with which a state enters the next one.
func (e *Evidence) StateShare() float64 {
	switch c := e.Case.Rollout; c.Policy {
	case rollout.Convex:
		return e.Mode.Scalar(c.Alpha, fp16.Float32)
	case rollout.Residual:
		return 1
	}
	return 0
}

// ClaimAt returns the device that computes step t as the claim says.
func (e *Evidence) ClaimAt(t int) (*emulate.Device, error) {
	mode, c := e.Mode, e.Case.Rollout
	from := c.StartFormat(mode)
	if !mode.Precision.Half() { // whatever states are kept in
		from = mode.Wide()
	}
	store, err := e.Machine.Formats(mode, from)
	if err == nil && t > 1 && mode.Precision.Half() {
		store, err = e.Machine.Formats(mode, c.StateFormat(store[len(store)-1]))
	}
	if err != nil {
		return nil, err
	}
	return &emulate.Device{Mode: mode, Store: store, State: c.StateFormat(store[len(store)-1])}, nil
}

// Emulated returns the states after b as the claim computes them. Where the
// noise is unknown it takes some noise of the right distribution: what it
// returns then has the right size and kind.
func (e *Evidence) Emulated(b *BatchStep) (*tensor.Tensor, error) {
	d, err := e.ClaimAt(b.Step)
	if err != nil {
		return nil, err
	}
	draws := b.Draws.Rewind()
	if e.Stream == nil {
		if draws, err = SomeNoise(0, b.Lo, b.Hi, b.Step); err != nil {
			return nil, err
		}
	}
	return e.Machine.Step(d, b.X, draws)
}

// Predict returns the step into state t of m's engine batch, and what the
// claim makes of it.
func (e *Evidence) Predict(m, t int) (*BatchStep, *tensor.Tensor, error) {
	b, err := e.StepWith(m, t)
	if err != nil {
		return nil, nil, err
	}
	y, err := e.Emulated(b)
	return b, y, err
}

// SomeNoise returns draws of a stream that no device has, for simulations.
func SomeNoise(run, lo, hi, t int) (noise.Draws, error) {
	return noise.Counter{Seed: 0x5eed0f0ac1e, Operator: uint32(run)}.At(t, lo, hi)
}

// Tensor returns numbers of the states after the step as a tensor, which shares them.
func (b *BatchStep) Tensor(data []float64) *tensor.Tensor {
	return tensor.Of(fp16.Float64, data, b.X.Shape...)
}

// Sample returns the states of realization m in a tensor or slice of its
// engine batch.
func (b *BatchStep) Sample(data []float64, m int) []float64 {
	n := len(data) / (b.Hi - b.Lo)
	return data[(m-b.Lo)*n : (m-b.Lo+1)*n]
}

// Fits reports whether a state lies as near to the step of the claim as the
// claim's own roundings allow, up to the errors of sums that it leaves open: 16
// times the distance of the emulation from the exact step, or of one that sums disturb. Of a
// state that is constant in space the emulation may have no error at all, where the mean of a
// norm is as far off as it is.
func (e *Evidence) Fits(m, t int) (bool, error) {
	b, y, err := e.Predict(m, t)
	if err != nil {
		return false, err
	}
	truth, err := e.Machine.Step(&emulate.Device{Mode: e.Mode}, b.X, b.Draws.Rewind())
	if err != nil {
		return false, err
	}
	l := &emulate.Legal{Machine: e.Machine, U: emulate.Accumulator(e.Mode), Lambda: 1, Member: 1<<35 + uint64(t)}
	disturbed, err := e.Machine.Step(&emulate.Device{Mode: e.Mode, Perturb: l.Disturb, Sum: l.Sum}, b.X, b.Draws.Rewind())
	if err != nil {
		return false, err
	}
	want, exact := b.Sample(y.Data, m), b.Sample(truth.Data, m)
	off := max(measure.RMSDiff(exact, want), measure.RMSDiff(exact, b.Sample(disturbed.Data, m)))
	return measure.RMSDiff(e.States.At(m, t), want) <= 16*off+0x1p-20*measure.RMS(exact), nil
}

// FirstPoison returns the index of the first NaN or infinity, -1 if there is none.
func FirstPoison(x []float64) int {
	for i, v := range x {
		if !measure.Finite(v) {
			return i
		}
	}
	return -1
}

// AllPoison reports whether every number is NaN.
func AllPoison(x []float64) bool {
	for _, v := range x {
		if v == v {
			return false
		}
	}
	return true
}

// Place names an element of a state.
func Place(i, h, w int) string {
	return fmt.Sprintf("[%d,%d,%d]", i/(h*w), i/w%h, i%w)
}

// StoredLate reports whether the step after t, at which state t-1 was stored again,
// is one with the noise of step t.
func (e *Evidence) StoredLate(m, t int) (bool, error) {
	if e.Stream == nil || e.Stream.Name == "none" || t+1 >= e.States.T {
		return false, nil
	}
	b, err := e.StepWith(m, t+1)
	if err != nil {
		return false, err
	}
	right, err := e.Emulated(b)
	if err != nil {
		return false, err
	}
	before, err := e.StepWith(m, t)
	if err != nil {
		return false, err
	}
	b.Draws = before.Draws
	late, err := e.Emulated(b)
	return err == nil && measure.RMSDiff(b.Got, late.Data) < measure.RMSDiff(b.Got, right.Data)/4, err
}

// StartState returns the states at t = 0 for initial conditions x.
func StartState(c rollout.Config, x *tensor.Tensor) *tensor.Tensor {
	c.Policy = rollout.Autoregressive // the states after are the output
	return c.Advance(x, x, x.Format, graph.Mode{Precision: x.Format})
}
