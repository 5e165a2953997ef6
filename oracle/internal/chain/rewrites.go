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
)

// rewrites are steps with a fault of the library, which is looked for to say why a step is wrong: first in all
// operations that can have it, then in each alone. Slow faults come last.
func (c *checker) rewrites(k lower.Contract) ([][]judge.Other, error) {
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
	g := trial.NewGraph(c.step.g, c.claim.Mode, func(v int) graph.Type { return p.Type(v) })
	groups := [][]judge.Other{slices.Concat(c.otherModes(k), c.narrowStates(k))}
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
		g := *c.step.g
		g.Values, g.Nodes, g.Kept = slices.Clone(g.Values), slices.Clone(g.Nodes), new(graph.Kept)
		g.Outputs = []int{g.Add(graph.Cast{Dtype: f.String()}, "state", g.Outputs[0])}
		to := *c.step
		to.g = &g
		all = append(all, judge.Other{Fault: named(table.Named("rollout.state-kept-in", f)),
			At: func(i int) (judge.Question, error) { return c.ask(&to, k, c.places[i], nil) }})
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
