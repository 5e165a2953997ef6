package chain

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// rewrites are steps with a fault of the library, which is looked for to say why a step is wrong: first in all
// operations that can have it, then in each alone. Slow faults come last.
func (c *checker) rewrites(k lower.Contract) ([][]judge.Other, error) {
	g, err := c.graph()
	if err != nil {
		return nil, err
	}
	groups := [][]judge.Other{slices.Concat(c.otherModes(k), c.narrowStates(k)),
		slices.Concat(c.otherDraws(k), c.around(k))}
	for _, slow := range []bool{false, true} {
		for _, alone := range []bool{false, true} {
			var group []judge.Other
			for _, h := range fault.Library() {
				if h.Slow != slow || !h.On() {
					continue
				}
				for _, s := range g.Scopes(h, alone) {
					group = append(group, c.rewrite(k, g, h, s))
				}
			}
			groups = append(groups, group)
		}
	}
	return slices.DeleteFunc(groups, func(g []judge.Other) bool { return len(g) == 0 }), nil
}

// graph is the step's, in which operations may have faults.
func (c *checker) graph() (*trial.Graph, error) {
	in, err := c.inputs(c.places[0])
	if err != nil {
		return nil, err
	}
	types, err := c.step.typesOf(in)
	if err != nil {
		return nil, err
	}
	p, err := c.step.g.Infer(c.claim.Mode, types...)
	if err != nil {
		return nil, err
	}
	return trial.NewGraph(c.step.g, c.claim.Mode, func(v int) graph.Type { return p.Type(v) }), nil
}

// small are steps with a fault of the library that may hide below the errors of a right one. Of a half claim it is only
// asked whether one of roundings would show: what right devices round is another contract's.
func (c *checker) small(k lower.Contract) (all []judge.Other, err error) {
	g, err := c.graph()
	if err != nil || c.layer {
		return nil, err
	}
	_, half := c.claim.Narrow()
	for _, h := range fault.Library() {
		switch {
		case !h.Small || h.Slow || h.Many != "" && !half || h.TF32 && c.claim.Mode.Precision == fp16.TF32:
		case h.Draws != nil:
			all = append(all, c.redrawn(k, h)...)
		case h.On():
			for _, s := range g.Scopes(h, false) {
				o := c.rewrite(k, g, h, s)
				o.Power = h.Rounding && half
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// otherDraws are steps whose noise is that of other draws.
func (c *checker) otherDraws(k lower.Contract) (all []judge.Other) {
	for _, h := range fault.Library() {
		if h.Draws != nil {
			all = append(all, c.redrawn(k, h)...)
		}
	}
	return all
}

// redrawn is a step with such a fault of the draws, if there are draws, and the claim does not say it.
func (c *checker) redrawn(k lower.Contract, h *trial.Fault) []judge.Other {
	f, half := c.claim.Narrow()
	if c.layer || !slices.Contains(c.step.kinds, kindNoise) || c.step.block == nil ||
		half && h.ID == table.Named("noise.noise-in", f).ID {
		return nil
	}
	return []judge.Other{{Fault: named(h.Row), Given: true, At: c.asked(k, func(p place) ([]*tensor.Tensor, error) {
		x := c.state(p, p.t-1)
		draws, err := c.drawsBy(p, x, h.Draws)
		if draws == nil || err != nil {
			return nil, err
		}
		return []*tensor.Tensor{x, draws}, nil
	})}}
}

// otherModes are steps with the roundings of a half precision that is not claimed.
func (c *checker) otherModes(k lower.Contract) (all []judge.Other) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		if _, half := c.claim.Narrow(); half && f != fp16.BFloat16 {
			continue // whose errors are larger than those of float16
		}
		for _, cast := range []graph.Autocast{graph.CUDA2, graph.CPU2} {
			claim := lower.Claim{Mode: graph.Mode{Precision: f, Autocast: cast}}
			if claim.Mode == c.claim.Mode {
				continue
			}
			row := table.Named("precision.in-place-of-the-claimed-mode", claim.Mode)
			all = append(all, judge.Other{Fault: named(row), At: func(i int) (judge.Question, error) {
				in, err := c.inputs(c.places[i])
				if err != nil {
					return judge.Question{}, err
				}
				got, err := c.after(c.places[i])
				if err != nil {
					return judge.Question{}, err
				}
				q, err := c.step.question(claim, k.Whole(), in, got)
				if err != nil { // an operation that this mode does not have, so the device had none
					return q, fmt.Errorf("%w: %w", judge.ErrNotJudged, err)
				}
				return q, nil
			}})
		}
	}
	return all
}

// inSingle names the cause of steps that claim float64 if the first wrong one is one in float32.
func (c *checker) inSingle(f *found) error {
	i := f.First()
	if c.Mode.Precision != fp16.Float64 || i < 0 || f.Cause != nil {
		return nil
	}
	is, err := f.many.InSingle(f.Joint)
	if is && err == nil {
		row := table.Named("precision.in-place-of-the-claimed-mode", graph.Mode{Precision: fp16.Float32})
		f.Cause = &judge.Cause{Fault: named(row), First: i}
	}
	return err
}

// narrowStates are steps whose state is kept in a half type.
func (c *checker) narrowStates(k lower.Contract) (all []judge.Other) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		to := c.step.followed(func(g *graph.Graph, y int) int {
			return g.Add(graph.Cast{Dtype: f.String()}, "state", y)
		})
		all = append(all, judge.Other{Fault: named(table.Named("rollout.state-kept-in", f)),
			At: func(i int) (judge.Question, error) { return c.ask(to, k, c.places[i], nil) }})
	}
	return all
}

// named is a fault of the table.
func named(r *table.Row) judge.Fault { return judge.Fault{ID: r.ID, Title: r.Name, Advice: r.Advice} }

// rewrite is a step with a fault.
func (c *checker) rewrite(k lower.Contract, g *trial.Graph, h *trial.Fault, s trial.Scope) judge.Other {
	f := named(h.Row)
	if at := g.Name(s); at != "" {
		f.Title += " in " + at
	}
	to := *c.step
	to.g = g.With(h, s)
	return judge.Other{Fault: f, Everywhere: s < 0,
		At: func(i int) (judge.Question, error) { return c.ask(&to, k, c.places[i], nil) }}
}
