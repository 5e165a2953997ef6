package chain

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// noOperator is a step whose operator returns zeros: data that would not show it shows nothing of the operator.
const noOperator = "operator_missing"

// allZeros is the fault of states that are zeros, as the table has it.
const allZeros = "kernel.zeros"

// inTF32 is the fault of products in TF32.
const inTF32 = "precision.operands-in-tf32"

// adding notes a fault with the questions that it answers.
type adding func(id string, any bool, at func(i int) (judge.Question, error))

// others are what a device may have computed in place of a step: of another state, with other noise, of what another
// step is given, or by another blend.
func (c *checker) others(k lower.Contract) (all []judge.Other) {
	if c.layer {
		return nil
	}
	add := func(id string, any bool, at func(i int) (judge.Question, error)) {
		f := judge.Fault{ID: id}
		if id != noOperator {
			row := table.ByID(id)
			f.Title, f.Advice = row.Name, row.Advice
		}
		all = append(all, judge.Other{Fault: f, Any: any, Still: id == noOperator, At: at})
	}
	add("rollout.step-from-an-old-state", false, c.moved(k, -1, kindState))
	if c.Case.Step == nil {
		all = append(all, c.leaking(k))
		c.otherBlends(k, add)
	} else {
		c.otherGraphs(k, add)
	}
	if c.step.block == nil || c.step.block.Type != noise.Dropout {
		c.otherNoise(k, add)
	}
	return all
}

// asked asks a step of a question with other inputs, which are nil where there is none.
func (c *checker) asked(
	k lower.Contract, inputs func(p place) ([]*tensor.Tensor, error),
) func(i int) (judge.Question, error) {
	return func(i int) (judge.Question, error) {
		in, err := inputs(c.places[i])
		if in == nil || err != nil {
			return judge.Question{}, err
		}
		return c.ask(c.step, k, c.places[i], in)
	}
}

// moved asks of a step whose inputs of a kind are those of another step.
func (c *checker) moved(k lower.Contract, by int, kind string) func(i int) (judge.Question, error) {
	return c.asked(k, func(p place) ([]*tensor.Tensor, error) {
		other := p
		if other.t += by; !slices.Contains(c.places, other) {
			return nil, nil
		}
		return c.elsewhere(p, func(k int) place {
			if c.step.kinds[k] == kind {
				return other
			}
			return p
		})
	})
}

// otherBlends adds other policies.
func (c *checker) otherBlends(k lower.Contract, add adding) {
	blend := func(change func(*rollout.Config)) func(i int) (judge.Question, error) {
		r := c.Case.Rollout
		change(&r)
		s := stepOf(c.Op, r, c.Mode, c.States.H, c.States.W)
		return func(i int) (judge.Question, error) { return c.ask(s, k, c.places[i], nil) }
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
}

// leaking is a step whose state is multiplied by a number near 1.
func (c *checker) leaking(k lower.Contract) judge.Other {
	by := 1 + wrongBy
	to := c.step.followed(func(g *graph.Graph, y int) int {
		return g.Add(graph.Binary{Of: pointwise.Mul, Other: &by}, "state", y)
	})
	return judge.Other{Fault: named(table.ByID("rollout.state-leaks")), Any: true,
		Called: func(amount float64) string { return fmt.Sprintf("state times %.5g", 1+float64(amount*wrongBy)) },
		At:     func(i int) (judge.Question, error) { return c.ask(to, k, c.places[i], nil) }}
}

// otherGraphs adds what a step graph may have read: a state that stands still, past states in another order, and what
// is given for another step.
func (c *checker) otherGraphs(k lower.Contract, add adding) {
	g, inputs := *c.step.g, c.Case.Step.Inputs
	g.Values, g.Nodes, g.Kept = slices.Clone(g.Values), slices.Clone(g.Nodes), new(graph.Kept)
	for at, in := range inputs {
		if in.Kind == kindState && in.State == c.index && in.Age == 0 {
			g.Outputs = []int{rollout.Config{Policy: rollout.Residual}.Step(&g, g.Inputs[at], g.Outputs[0])}
		}
	}
	still := *c.step
	still.g = &g
	add(noOperator, false, func(i int) (judge.Question, error) { return c.ask(&still, k, c.places[i], nil) })
	if slices.Contains(c.step.kinds, kindForcing) {
		add("rollout.forcing-of-the-step-before", false, c.moved(k, -1, kindForcing))
		add("rollout.forcing-of-the-next-step", false, c.moved(k, +1, kindForcing))
	}
	if slices.ContainsFunc(inputs, func(in rollout.StepInput) bool { return in.Age > 0 }) {
		add("rollout.past-states-in-reverse-order", false, c.asked(k, func(p place) ([]*tensor.Tensor, error) {
			in, err := c.inputs(p)
			if err != nil {
				return nil, err
			}
			turned := slices.Clone(in)
			for a := range inputs {
				for b, of := range inputs {
					past := c.Case.Step.States[of.State].Past
					if of.Kind == kindState && inputs[a].Kind == kindState && of.State == inputs[a].State &&
						of.Age == past-inputs[a].Age {
						turned[a] = in[b]
					}
				}
			}
			return turned, nil
		}))
	}
}

// otherNoise adds steps with other noise.
func (c *checker) otherNoise(k lower.Contract, add adding) {
	if !slices.Contains(c.step.kinds, kindNoise) {
		return
	}
	with := func(change func(draws *tensor.Tensor) bool) func(i int) (judge.Question, error) {
		return c.asked(k, func(p place) ([]*tensor.Tensor, error) {
			in, err := c.inputs(p)
			changed := false
			for k := range in {
				if c.step.kinds[k] == kindNoise {
					in[k] = in[k].Clone()
					changed = change(in[k]) || changed
				}
			}
			if !changed {
				return nil, err
			}
			return in, err
		})
	}
	scaled := func(by float64) func(draws *tensor.Tensor) bool {
		return func(draws *tensor.Tensor) bool {
			for i := range draws.Data {
				draws.Data[i] = draws.Format.Round(by * draws.Data[i])
			}
			return true
		}
	}
	add("noise.no-noise", false, with(scaled(0)))
	add("noise.noise-scale", true, with(scaled(1+wrongBy)))
	add("noise.noise-of-the-step-before", false, c.moved(k, -1, kindNoise))
	add("noise.noise-of-the-next-step", false, c.moved(k, +1, kindNoise))
	add("noise.the-same-noise-for-all-samples", false, with(func(draws *tensor.Tensor) bool {
		if len(draws.Shape) < 3 || draws.Shape[0] < 2 {
			return false
		}
		n := len(draws.Data) / draws.Shape[0]
		for i := range draws.Data {
			draws.Data[i] = draws.Data[i%n]
		}
		return true
	}))
}
