// Package rig is for tests of the gates: small operators, and devices that run them as
// claimed or with some mischief.
package rig

import (
	"context"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// FewChannels is a rig whose noise is of few channels.
func FewChannels(t *testing.T, precision, kind string, scale float64, channels int, act string) *Rig {
	r := NewRig(t, precision, kind, scale)
	config := r.Op.Config
	config.NumLayers, config.BaseChannels, config.Activation = 1, channels, act
	var err error
	if r.Op, err = operator.Init(config, 5); err != nil {
		t.Fatal(err)
	}
	return r
}

// Rig is a small operator and rollout, and a device that runs it: the emulation
// of the claim with noise of the "counter" stream, and any changes a test makes.
type Rig struct {
	T      *testing.T
	Op     *operator.Operator
	Config rollout.Config
	Mode   graph.Mode
	Size   int

	Start func(x *tensor.Tensor)        // if not nil, changes the initial conditions
	After func(t int, x *tensor.Tensor) // if not nil, changes the states of a step before they are recorded
}

// Mischief is what a device does in step t: it may change the device and the
// draws, and see the states before (of step t-1, t-2, ...).
type Mischief func(r *Rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor)

// NewRig returns a rig with noise of that type ("" for none) and scale.
func NewRig(t *testing.T, precision, noiseType string, scale float64) *Rig {
	t.Helper()
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: noiseType, NoiseScale: scale}, 5)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Rig{T: t, Op: op, Config: rollout.Config{
		Policy: rollout.Convex, Alpha: 0.3, Timesteps: 9, Realizations: 3, BaseSeed: 7,
	}, Mode: mode, Size: 16}
}

func (r *Rig) stream() *rollout.Stream {
	s, err := (&rollout.Case{Rollout: r.Config}).OpenStream("counter", r.Op, r.Mode)
	if err != nil {
		r.T.Fatal(err)
	}
	return s
}

// Draws of step t for all realizations, already drawn; none without noise.
func (r *Rig) Draws(t int) *emulate.Draws {
	from, err := r.stream().Draws(0, 0, r.Config.Realizations, t)
	if err != nil {
		r.T.Fatal(err)
	}
	if from == nil {
		return &emulate.Draws{}
	}
	d := emulate.Keep(from)
	kinds, channels := r.Op.Draws()
	for _, k := range kinds {
		shape := []int{r.Config.Realizations, channels, r.Size, r.Size}
		if k == noise.Bernoulli {
			shape[2], shape[3] = 1, 1
		}
		n := shape[0] * shape[1] * shape[2] * shape[3]
		if err := d.Draw(k, 1-r.Op.Config.NoiseScale, shape, make([]float64, n)); err != nil {
			r.T.Fatal(err)
		}
	}
	return d
}

// Run returns the states of a device; f may be nil.
func (r *Rig) Run(f Mischief) *rollout.States {
	c := r.Config
	s := &rollout.States{M: c.Realizations, T: c.Timesteps, C: 3, H: r.Size, W: r.Size, Format: r.Mode.Wide()}
	s.Data = make([]float64, s.M*s.T*s.CHW())
	x := tensor.New(c.StartFormat(r.Mode), s.M, 3, r.Size, r.Size)
	for m := range s.M {
		if err := rollout.White(uint64(m), rollout.Shape{C: 3, H: r.Size, W: r.Size}, x.Samples(m, m+1).Data); err != nil {
			r.T.Fatal(err)
		}
	}
	if r.Start != nil {
		r.Start(x)
	}
	x = evidence.StartState(c, x)
	e := r.Exam(s, true)
	before := []*tensor.Tensor{x}
	for t := 0; t < s.T; t++ {
		if t > 0 {
			d, err := e.ClaimAt(t)
			if err != nil {
				r.T.Fatal(err)
			}
			draws := r.Draws(t)
			if f != nil {
				f(r, t, d, draws, before)
			}
			var with noise.Draws = draws.Rewind()
			if len(draws.Kinds) == 0 {
				with = nil
			}
			if x, err = e.Machine.Step(d, x, with); err != nil {
				r.T.Fatal(err)
			}
			if r.After != nil {
				r.After(t, x)
				c.StartFormat(r.Mode).RoundSlice(x.Data, x.Data)
			}
			before = append([]*tensor.Tensor{x}, before...)
		}
		for m := range s.M {
			copy(s.At(m, t), x.Samples(m, m+1).Data)
		}
	}
	return s
}

// Exam returns a check of states; the noise is known or not.
func (r *Rig) Exam(s *rollout.States, known bool) *facts.Gate {
	e := &evidence.Evidence{Ctx: context.Background(), Case: &rollout.Case{
		File: "rig", Operator: r.Op.Config, Rollout: r.Config,
	}, Op: r.Op, States: s, Machine: emulate.New(r.Op, r.Config), Mode: r.Mode}
	if known {
		e.Stream = r.stream()
	}
	return facts.Begin(e, &facts.Facts{Report: facts.Open(e)})
}

// Looking makes a gate of a part of one.
func Looking(part func(g *facts.Gate) error) facts.Check {
	return func(e *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
		g := facts.Begin(e, f)
		err := part(g)
		return g.Found, err
	}
}

// Do runs gates and returns the first finding that is a fault; nil if none is.
func Do(t *testing.T, e *facts.Gate, gates ...facts.Check) *report.Finding {
	t.Helper()
	for _, g := range gates {
		found, err := g(e.Evidence, e.Facts)
		if err != nil {
			t.Fatal(err)
		}
		e.Report.Findings = append(e.Report.Findings, found...)
	}
	for i := range e.Report.Findings {
		if f := &e.Report.Findings[i]; f.Verdict != report.NoPower && (f.Gate != "test") {
			return f
		}
	}
	return nil
}

// Want compares a finding with what it should be; verdict "" wants none.
func Want(t *testing.T, name string, f *report.Finding, verdict report.Verdict, diagnosis string, step int) {
	t.Helper()
	switch {
	case verdict == "" && f != nil:
		t.Errorf("%s: %s, %q at step %d (%s): want no finding", name, f.Verdict, f.Diagnosis, f.Step, f.Text)
	case verdict != "" && f == nil:
		t.Errorf("%s: no finding: want %s, %q at step %d", name, verdict, diagnosis, step)
	case verdict != "" && (f.Verdict != verdict || f.Diagnosis != diagnosis || f.Step != step):
		t.Errorf("%s: %s, %q at step %d (%s): want %s, %q at step %d",
			name, f.Verdict, f.Diagnosis, f.Step, f.Text, verdict, diagnosis, step)
	}
}

// Faulty is a gate that has found a step to be wrong.
func Faulty(step int) facts.Check {
	return Looking(func(g *facts.Gate) error {
		g.Find(report.Finding{Verdict: report.FailLogic, ID: "unnamed.accuracy", Gate: "test", Step: step})
		return nil
	})
}

// From begins mischief at a step.
func From(step int, f Mischief) Mischief {
	return func(r *Rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
		if t >= step {
			f(r, t, d, draws, before)
		}
	}
}

// At has mischief at one step only.
func At(step int, f Mischief) Mischief {
	return func(r *Rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
		if t == step {
			f(r, t, d, draws, before)
		}
	}
}

// PolicyFault is mischief in the policy.
func PolicyFault(
	f func(r *Rig, d *emulate.Device, x, right *tensor.Tensor, out *tensor.Tensor) *tensor.Tensor,
) Mischief {
	return func(r *Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		plain := *d
		m := emulate.New(r.Op, r.Config)
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor { return f(r, &plain, x, m.Advance(&plain, x, out), out) }
	}
}

// Redraw changes the first draw, which is that of the noise's size.
func Redraw(f func(v []float64, per int) []float64) Mischief {
	return func(r *Rig, _ int, _ *emulate.Device, draws *emulate.Draws, _ []*tensor.Tensor) {
		draws.Data[0] = f(draws.Data[0], len(draws.Data[0])/r.Config.Realizations)
	}
}

func Times(c float64) Mischief {
	return Redraw(func(v []float64, _ int) []float64 { return measure.Scaled(v, c) })
}

// Uniform is noise of the draws' quantiles, variance 1 and no tails.
func Uniform(v []float64, _ int) []float64 {
	u := make([]float64, len(v))
	for i, x := range v {
		u[i] = fp16.Float32.Round(math.Sqrt(3) * math.Erf(x/math.Sqrt2))
	}
	return u
}
