package chain

import (
	"slices"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/lower"
	"github.com/refrun/refrun/oracle/internal/table"
	"github.com/refrun/refrun/oracle/judge"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// noOperator is a step whose operator returns zeros: data that would not show it shows nothing of the operator.
const noOperator = "operator_missing"

// allZeros is the fault of states that are zeros, as the table has it.
const allZeros = "kernel.zeros"

// others are what a device may have computed in place of a step: of another state, with other noise, or by another
// blend.
func (c *checker) others(k lower.Contract) (all []judge.Other) {
	add := func(id string, any bool, at func(i int) (judge.Question, error)) {
		f := judge.Fault{ID: id}
		if id != noOperator {
			row := table.ByID(id)
			f.Title, f.Advice = row.Name, row.Advice
		}
		all = append(all, judge.Other{Fault: f, Any: any, At: at})
	}
	from := func(back int) func(i int) (judge.Question, error) {
		return func(i int) (judge.Question, error) {
			p := c.places[i]
			if p.t <= back {
				return judge.Question{}, nil
			}
			return c.ask(c.step, k, p, c.state(p, p.t-1-back), p)
		}
	}
	add("rollout.step-from-an-old-state", false, from(1))
	blend := func(change func(*rollout.Config)) func(i int) (judge.Question, error) {
		r := c.Case.Rollout
		change(&r)
		s := stepOf(c.Op, r, c.Mode, c.States.H, c.States.W)
		return func(i int) (judge.Question, error) {
			p := c.places[i]
			return c.ask(s, k, p, c.state(p, p.t-1), p)
		}
	}
	switch r := c.Case.Rollout; r.Policy {
	case rollout.Residual:
		add(noOperator, false, blend(func(r *rollout.Config) { r.Dt = 0 }))
		add("rollout.dt-wrong", true, blend(func(r *rollout.Config) { r.Dt *= 1 + wrongBy }))
	case rollout.Convex, "":
		add(noOperator, false, blend(func(r *rollout.Config) { r.Policy, r.Dt = rollout.Residual, 0 }))
		add("rollout.alpha-wrong", true, blend(func(r *rollout.Config) { r.Alpha += (1 - r.Alpha) * wrongBy }))
		if r.Alpha != .5 {
			add("rollout.alpha-in-place-of-1-alpha", false, blend(func(r *rollout.Config) { r.Alpha = 1 - r.Alpha }))
		}
	}
	if c.step.block != nil && c.step.block.Type != noise.Dropout {
		c.otherNoise(k, add)
	}
	return all
}

// wrongBy is by how much of itself a constant is changed to see in which direction it acts.
const wrongBy = 1. / 64

// otherNoise adds steps with other noise.
func (c *checker) otherNoise(k lower.Contract, add func(id string, any bool, at func(i int) (judge.Question, error))) {
	with := func(change func(p place, draws *tensor.Tensor) *place) func(i int) (judge.Question, error) {
		return func(i int) (judge.Question, error) {
			p := c.places[i]
			state := c.state(p, p.t-1)
			in, err := c.inputs(p, state, p)
			if err != nil {
				return judge.Question{}, err
			}
			if other := change(p, in[1]); other == nil {
				return judge.Question{}, nil
			} else if *other != p {
				return c.ask(c.step, k, p, state, *other)
			}
			return c.step.question(c.claim, k, in, c.state(p, p.t))
		}
	}
	moved := func(by int) func(p place, draws *tensor.Tensor) *place {
		return func(p place, _ *tensor.Tensor) *place {
			other := p
			if other.t += by; slices.Contains(c.places, other) {
				return &other
			}
			return nil
		}
	}
	scaled := func(by float64) func(p place, draws *tensor.Tensor) *place {
		return func(p place, draws *tensor.Tensor) *place {
			for i := range draws.Data {
				draws.Data[i] = draws.Format.Round(by * draws.Data[i])
			}
			return &p
		}
	}
	add("noise.no-noise", false, with(scaled(0)))
	add("noise.noise-scale", true, with(scaled(1+wrongBy)))
	add("noise.noise-of-the-step-before", false, with(moved(-1)))
	add("noise.noise-of-the-next-step", false, with(moved(+1)))
	add("noise.the-same-noise-for-all-samples", false, with(func(p place, draws *tensor.Tensor) *place {
		if p.hi-p.lo < 2 {
			return nil
		}
		n := len(draws.Data) / (p.hi - p.lo)
		for i := range draws.Data {
			draws.Data[i] = draws.Data[i%n]
		}
		return &p
	}))
}
