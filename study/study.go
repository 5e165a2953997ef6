package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// Options says what a study follows.
type Options struct {
	Operator *operator.Operator // nil for the case's own
	Noise    string             // rollout.Case.OpenStream's names; "" is "counter"
	Shape    rollout.Shape      // of a state
	Start    func(m int) []float64
	// Arithmetics are the modes that are held against float32. Their noise is
	// the reference's, number by number: where a framework draws other numbers
	// for a narrow type, a study does not.
	Arithmetics []graph.Mode
	// Progress, if not nil, is called after each step of an engine batch.
	Progress func(done, total int)
}

// The twins that are no other arithmetic.
const (
	Moved = "moved" // float32, every number of the start moved by 1e-6
	Other = "other" // float32, another noise seed; without noise, the start moved by 0.01
)

// delta is how far the start of the twin Moved lies from the reference's.
const delta = 1e-6

// farDelta takes the place of another noise where an operator has none.
const farDelta = 1e-2

// otherSeed is added to the base seed for another noise. A framework's stream
// of step t is seeded with the base seed plus t, so it must be beyond any step.
const otherSeed = 1 << 24

// LeastSteps is the fewest steps a study takes: its last quarter must hold
// some.
const LeastSteps = 8

// Study is a float32 rollout, the reference, and its twins: rollouts that
// differ from it in one thing each. Every step of every twin is measured twice:
// its path, against the reference's state of the same step, and one step from
// the reference's own state before, against the reference's state. The second
// is what the twin's arithmetic (or noise) does; the first is what the operator
// makes of it.
type Study struct {
	Mode         string `json:"mode"` // of the reference
	Noise        string `json:"noise"`
	Steps        int    `json:"steps"`
	Realizations int    `json:"realizations"`

	Twins []Twin `json:"twins"`
	// Std has one number a step: the standard deviation of the reference's
	// state over its elements, root mean square over the realizations.
	Std []diff.Number `json:"std"`
	// Growth is that of the twin Moved, nil if it does not grow.
	Growth *GrowthFit `json:"growth"`
	// Saturated is the RMS distance over the std at which paths with other noise stay,
	// nil if that is not known: they are still moving apart ([Saturated]).
	Saturated *diff.Number `json:"saturated_rms_over_std"`
	// NoiseFloor is the twin Other's one-step distance, mean over the steps:
	// what the operator's noise does to a state in one step. Nil without noise.
	NoiseFloor *Distance `json:"noise_floor"`
}

// Twin is one twin of a study.
type Twin struct {
	Name string `json:"name"` // Moved, Other, or a precision
	Mode string `json:"mode"`
	// Path and OneStep have one distance a step, from step 1 on. OneStep is nil
	// for a twin whose single steps are the reference's.
	Path    []Distance `json:"path"`
	OneStep []Distance `json:"one_step"`
	// Horizon is the first step whose path says nothing ([Lost]): its distance has
	// reached half the saturated one. Nil if it does not within the steps, or, if
	// Measured is false, if that cannot be told from so few steps.
	Horizon  *int              `json:"horizon"`
	Measured bool              `json:"horizon_measured"`
	Overflow *rollout.Overflow `json:"overflow,omitempty"` // the path's first
}

// Run takes c.Rollout's steps and realizations with all twins in lockstep,
// so that it keeps one state of each and nothing of the past. The reference is
// float32 whatever the case says. Fewer than LeastSteps steps, a noise that has
// no other seed and a reference that does not stay finite are errors.
func Run(ctx context.Context, c *rollout.Case, o Options) (*Study, error) {
	s, err := prepare(c, &o)
	if err != nil {
		return nil, err
	}
	batches, steps := c.Rollout.EngineBatches(), c.Rollout.Timesteps-1
	std := make([]float64, steps)
	for k, b := range batches {
		if err := s.begin(b[0], b[1]); err != nil {
			return nil, err
		}
		for t := 1; t <= steps; t++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := s.step(k, b[0], b[1], t); err != nil {
				return nil, fmt.Errorf("step %d: %w", t, err)
			}
			for m := range s.ref.x.N() {
				v := diff.Std(s.ref.x.Samples(m, m+1).Data)
				std[t-1] += float64(v * v)
			}
			if o.Progress != nil {
				o.Progress(k*steps+t, len(batches)*steps)
			}
		}
	}
	return s.result(c, std), nil
}

// running is a study under way.
type running struct {
	ref   *path
	twins []*path
	noise bool
}

// path is the reference or a twin on its way.
type path struct {
	name    string
	engine  *rollout.Engine
	oneStep bool           // whether its single steps differ from the reference's
	x       *tensor.Tensor // of the engine batch at hand

	along, single []distance // a step each
	overflow      *rollout.Overflow
}

func prepare(c *rollout.Case, o *Options) (*running, error) {
	switch {
	case c.Rollout.Timesteps-1 < LeastSteps:
		return nil, fmt.Errorf("%s: %d steps: want %d or more for a study", c.File, c.Rollout.Timesteps-1, LeastSteps)
	case o.Noise == "tape":
		return nil, errors.New("noise: a tape has no other seed: want counter, torch-cpu, torch-cuda:SMS or none for a study")
	case o.Noise == "":
		o.Noise = "counter"
	}
	op := o.Operator
	if op == nil {
		var err error
		if op, err = c.NewOperator(); err != nil {
			return nil, err
		}
	}
	float32s := graph.Mode{Precision: fp16.Float32}
	stream, err := c.OpenStream(o.Noise, op, float32s)
	if err != nil {
		return nil, err
	}
	reseeded := *c
	reseeded.Rollout.BaseSeed += otherSeed
	other, err := reseeded.OpenStream(o.Noise, op, float32s)
	if err != nil {
		return nil, err
	}
	follow := func(name string, mode graph.Mode, stream *rollout.Stream, delta float64, oneStep bool) *path {
		return &path{
			name: name, oneStep: oneStep,
			engine: &rollout.Engine{
				Stepper: rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode},
				Stream:  stream, Shape: o.Shape, Start: o.moved(delta), AllowNonfinite: true,
			},
			along: make([]distance, c.Rollout.Timesteps-1), single: make([]distance, c.Rollout.Timesteps-1),
		}
	}
	s := &running{ref: follow("float32", float32s, stream, 0, false), noise: stream.Name != "none"}
	s.twins = append(s.twins, follow(Moved, float32s, stream, delta, false))
	if s.noise {
		s.twins = append(s.twins, follow(Other, float32s, other, 0, true))
	} else {
		s.twins = append(s.twins, follow(Other, float32s, stream, farDelta, false))
	}
	s.twins = append(s.twins, follow("float64", graph.Mode{Precision: fp16.Float64}, stream, 0, true))
	for _, m := range o.Arithmetics {
		name, _, _ := strings.Cut(m.String(), "/")
		s.twins = append(s.twins, follow(name, m, stream, 0, true))
	}
	return s, s.ref.engine.Fits(1 + len(s.twins))
}

// moved is the start with delta added to each number.
func (o *Options) moved(delta float64) func(m int) []float64 {
	if delta == 0 {
		return o.Start
	}
	return func(m int) []float64 {
		x := append([]float64(nil), o.Start(m)...)
		for i := range x {
			x[i] += delta
		}
		return x
	}
}

// begin puts everybody on the start of realizations [lo,hi).
func (s *running) begin(lo, hi int) error {
	for _, p := range append([]*path{s.ref}, s.twins...) {
		var err error
		if p.x, err = p.start(lo, hi); err != nil {
			return err
		}
	}
	if !allFinite(s.ref.x) {
		return errors.New("initial condition: NaN or infinite: want finite numbers")
	}
	return nil
}

// start returns the post-processed initial conditions: a rollout of no steps.
func (p *path) start(lo, hi int) (*tensor.Tensor, error) {
	x := tensor.New(p.engine.Mode.Wide(), hi-lo, p.engine.Shape.C, p.engine.Shape.H, p.engine.Shape.W)
	e := *p.engine
	e.Config.Timesteps, e.Config.Realizations, e.Config.EngineBatch = 1, hi-lo, min(e.Config.EngineBatch, hi-lo)
	e.Start = func(m int) []float64 { return p.engine.Start(lo + m) }
	e.Sinks = []rollout.Sink{into{x}}
	return x, e.Run(context.Background(), nil)
}

// into is a sink that keeps the states of one step.
type into struct{ x *tensor.Tensor }

func (to into) State(_, m int, x, _ []float64) error {
	copy(to.x.Samples(m, m+1).Data, x)
	return nil
}

// step takes engine batch k, realizations [lo,hi), to time t.
func (s *running) step(k, lo, hi, t int) error {
	before := s.ref.x
	next, err := s.ref.from(before, k, lo, hi, t, nil)
	if err != nil {
		return err
	}
	if !allFinite(next) {
		return errors.New("the float32 rollout is NaN or infinite: want an operator whose states stay finite")
	}
	s.ref.x = next
	for _, p := range s.twins {
		if p.oneStep {
			x := tensor.Of(p.engine.Mode.Wide(), before.Data, before.N(), before.C(), before.H(), before.W())
			one, err := p.from(x, k, lo, hi, t, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.single[t-1].add(one.Data, next.Data)
		}
		if p.x, err = p.from(p.x, k, lo, hi, t, p.overflowed(t)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		p.along[t-1].add(p.x.Data, next.Data)
	}
	return nil
}

// from steps states x with p's arithmetic and p's noise of step t.
func (p *path) from(x *tensor.Tensor, k, lo, hi, t int, overflow func(string, int)) (*tensor.Tensor, error) {
	draws, err := p.engine.Stream.Draws(k, lo, hi, t)
	if err != nil {
		return nil, err
	}
	s := p.engine.Stepper
	s.Overflow = overflow
	return s.Step(x, draws)
}

func (p *path) overflowed(t int) func(string, int) {
	return func(layer string, elements int) {
		if p.overflow == nil || t < p.overflow.Step {
			p.overflow = &rollout.Overflow{Step: t, Layer: layer, Elements: elements}
		}
	}
}

// result is the study of what was measured; std holds sums of variances.
func (s *running) result(c *rollout.Case, std []float64) *Study {
	r := &Study{
		Mode:  c.Rollout.ModeName(s.ref.engine.Operator, s.ref.engine.Mode, s.ref.engine.Stream),
		Noise: s.ref.engine.Stream.Name,
		Steps: len(std), Realizations: c.Rollout.Realizations,
	}
	for t := range std {
		std[t] = math.Sqrt(std[t] / float64(r.Realizations))
		r.Std = append(r.Std, diff.Number(std[t]))
	}
	for _, p := range s.twins {
		w := Twin{Name: p.name, Mode: c.Rollout.ModeName(p.engine.Operator, p.engine.Mode, p.engine.Stream),
			Overflow: p.overflow}
		for t := range std {
			w.Path = append(w.Path, p.along[t].over(std[t]))
			if p.oneStep {
				w.OneStep = append(w.OneStep, p.single[t].over(std[t]))
			}
		}
		r.Twins = append(r.Twins, w)
	}
	moved, other, float64s := r.Twin(Moved), r.Twin(Other), r.Twin("float64")
	if s.noise {
		floor := Mean(other.OneStep)
		r.NoiseFloor = &floor
	}
	if g, ok := fitGrowth(relative(moved.Path), relative(float64s.OneStep)); ok {
		r.Growth = &g
	}
	level, known := Saturated(relative(other.Path))
	if known {
		n := diff.Number(level)
		r.Saturated = &n
	}
	for i := range r.Twins {
		w := &r.Twins[i]
		t, measured := Lost(relative(w.Path), level, known)
		if w.Measured = measured; t > 0 {
			w.Horizon = &t
		}
	}
	return r
}

// Twin returns the twin of that name, nil if there is none.
func (r *Study) Twin(name string) *Twin {
	for i := range r.Twins {
		if r.Twins[i].Name == name {
			return &r.Twins[i]
		}
	}
	return nil
}
