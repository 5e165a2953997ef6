package chain

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/lower"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/judge"
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
	var groups [][]judge.Other
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

// rewrite is a step with a fault.
func (c *checker) rewrite(k lower.Contract, g *trial.Graph, h *trial.Fault, s trial.Scope) judge.Other {
	f := judge.Fault{ID: h.ID, Title: h.Row.Name, Advice: h.Advice}
	if at := g.Name(s); at != "" {
		f.Title += " in " + at
	}
	to := *c.step
	to.g = g.With(h, s)
	return judge.Other{Fault: f, Everywhere: s < 0,
		At: func(i int) (judge.Question, error) { return c.ask(&to, k, c.places[i], nil) }}
}
