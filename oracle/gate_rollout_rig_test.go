package oracle

import (
	"context"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// rig is a small operator and rollout, and a device that runs it: the emulation
// of the claim with the counter's noise, and whatever a test makes it do else.
type rig struct {
	t    *testing.T
	op   *operator.Operator
	c    rollout.Config
	mode operator.Mode
	size int

	start func(x *tensor.Tensor) // changes the initial conditions, where it is there
}

// mischief is what a device does in step t: it may change the device and the
// draws, and see the states before (of step t-1, t-2, ...).
type mischief func(r *rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor)

// newRig returns a rig with noise of that type ("" for none) and scale.
func newRig(t *testing.T, precision, noiseType string, scale float64) *rig {
	t.Helper()
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "gelu", Normalization: "instance", NoiseType: noiseType, NoiseScale: scale}, 5)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := operator.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, op: op, c: rollout.Config{Policy: rollout.Convex, Alpha: 0.3, Timesteps: 9, Realizations: 3, BaseSeed: 7}, mode: mode, size: 16}
}

func (r *rig) stream() *rollout.Stream {
	s, err := (&rollout.Case{Rollout: r.c}).OpenStream("counter", r.op, r.mode)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// draws of step t for all realizations, already drawn; none without noise.
func (r *rig) draws(t int) *emulate.Draws {
	from, err := r.stream().Draws(0, 0, r.c.Realizations, t)
	if err != nil {
		r.t.Fatal(err)
	}
	if from == nil {
		return &emulate.Draws{}
	}
	d := emulate.Keep(from)
	kinds, channels := r.op.Draws()
	for _, k := range kinds {
		shape := []int{r.c.Realizations, channels, r.size, r.size}
		if k == noise.Bernoulli {
			shape[2], shape[3] = 1, 1
		}
		n := shape[0] * shape[1] * shape[2] * shape[3]
		if err := d.Draw(k, 1-r.op.Config.NoiseScale, shape, make([]float64, n)); err != nil {
			r.t.Fatal(err)
		}
	}
	return d
}

// run returns the states of a device; f may be nil.
func (r *rig) run(f mischief) *rollout.States {
	c := r.c
	s := &rollout.States{M: c.Realizations, T: c.Timesteps, C: 3, H: r.size, W: r.size, Format: r.mode.Wide()}
	s.Data = make([]float64, s.M*s.T*s.CHW())
	x := tensor.New(r.mode.Wide(), s.M, 3, r.size, r.size)
	for m := range s.M {
		if err := rollout.White(uint64(m), rollout.Shape{C: 3, H: r.size, W: r.size}, x.Samples(m, m+1).Data); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.start != nil {
		r.start(x)
	}
	x = startState(c, x)
	e := r.exam(s, true)
	before := []*tensor.Tensor{x}
	for t := 0; t < s.T; t++ {
		if t > 0 {
			d, err := e.claimAt(t)
			if err != nil {
				r.t.Fatal(err)
			}
			draws := r.draws(t)
			if f != nil {
				f(r, t, d, draws, before)
			}
			var with noise.Draws = draws.Rewind()
			if len(draws.Kinds) == 0 {
				with = nil
			}
			if x, err = e.machine.Step(d, x, with); err != nil {
				r.t.Fatal(err)
			}
			before = append([]*tensor.Tensor{x}, before...)
		}
		for m := range s.M {
			copy(s.At(m, t), x.Samples(m, m+1).Data)
		}
	}
	return s
}

// exam returns a check of states; the noise is known or not.
func (r *rig) exam(s *rollout.States, known bool) *gate {
	e := &evidence{ctx: context.Background(), c: &rollout.Case{File: "rig", Operator: r.op.Config, Rollout: r.c}, op: r.op, states: s,
		machine: emulate.New(r.op, r.c), mode: r.mode}
	if known {
		e.stream = r.stream()
	}
	return newGate(e, &facts{r: open(e)})
}

// looking makes a gate of a part of one.
func looking(part func(g *gate) error) check {
	return func(e *evidence, f *facts) ([]report.Finding, error) {
		g := newGate(e, f)
		err := part(g)
		return g.found, err
	}
}

// do runs gates and returns the first finding that is a fault; nil if none is.
func do(t *testing.T, e *gate, gates ...check) *report.Finding {
	t.Helper()
	for _, g := range gates {
		found, err := g(e.evidence, e.facts)
		if err != nil {
			t.Fatal(err)
		}
		e.r.Findings = append(e.r.Findings, found...)
	}
	for i := range e.r.Findings {
		if f := &e.r.Findings[i]; f.Verdict != report.NoPower && (f.Gate != "test") {
			return f
		}
	}
	return nil
}

// want compares a finding with what it should be; verdict "" wants none.
func want(t *testing.T, name string, f *report.Finding, verdict report.Verdict, diagnosis string, step int) {
	t.Helper()
	switch {
	case verdict == "" && f != nil:
		t.Errorf("%s: %s, %q at step %d (%s): want no finding", name, f.Verdict, f.Diagnosis, f.Step, f.Text)
	case verdict != "" && f == nil:
		t.Errorf("%s: no finding: want %s, %q at step %d", name, verdict, diagnosis, step)
	case verdict != "" && (f.Verdict != verdict || f.Diagnosis != diagnosis || f.Step != step):
		t.Errorf("%s: %s, %q at step %d (%s): want %s, %q at step %d", name, f.Verdict, f.Diagnosis, f.Step, f.Text, verdict, diagnosis, step)
	}
}

// from begins mischief at a step.
func from(step int, f mischief) mischief {
	return func(r *rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
		if t >= step {
			f(r, t, d, draws, before)
		}
	}
}

// at has mischief at one step only.
func at(step int, f mischief) mischief {
	return func(r *rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
		if t == step {
			f(r, t, d, draws, before)
		}
	}
}

// policyFault is mischief in the policy.
func policyFault(f func(r *rig, d *emulate.Device, x, right *tensor.Tensor, out *tensor.Tensor) *tensor.Tensor) mischief {
	return func(r *rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		plain := *d
		m := emulate.New(r.op, r.c)
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor { return f(r, &plain, x, m.Advance(&plain, x, out), out) }
	}
}

// redraw changes the first draw, which is that of the noise's size.
func redraw(f func(v []float64, per int) []float64) mischief {
	return func(r *rig, _ int, _ *emulate.Device, draws *emulate.Draws, _ []*tensor.Tensor) {
		draws.Data[0] = f(draws.Data[0], len(draws.Data[0])/r.c.Realizations)
	}
}

func times(c float64) mischief {
	return redraw(func(v []float64, _ int) []float64 { return scaled(v, c) })
}

// uniform is noise of the draws' quantiles, variance 1 and no tails.
func uniform(v []float64, _ int) []float64 {
	u := make([]float64, len(v))
	for i, x := range v {
		u[i] = fp16.Float32.Round(math.Sqrt(3) * math.Erf(x/math.Sqrt2))
	}
	return u
}
