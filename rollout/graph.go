package rollout

import (
	"encoding/json"

	"github.com/refrun/refrun/graph"
)

// Step adds to a graph what follows an operator in a step, and returns the value of the
// next states: the policy, which reads the states x and the operator's output out, both
// [N,C,H,W], and the post-processing. So a whole step is one graph:
//
//	g := op.Graph(true)
//	g.Outputs[0] = config.Step(g, g.Inputs[0], g.Outputs[0])
//
// It is what [Stepper.Step] computes, and what defines it: every node rounds once.
func (c Config) Step(g *graph.Graph, x, out int) int {
	scaled := func(name string, v int, by float64) int { return g.Add(operation("mul", "other", by), name, v) }
	next := out
	switch c.Policy {
	case Autoregressive:
	case Residual:
		next = g.Add(graph.Addition, "next", x, scaled("next.dt", out, c.Dt))
	case Convex, "":
		next = g.Add(graph.Addition, "next", scaled("next.alpha", x, c.Alpha), scaled("next.1-alpha", out, 1-c.Alpha))
	default:
		panic("rollout: unknown policy")
	}
	group := graph.MinMax{StartDim: 1} // each realization
	if c.EngineBatch > 0 {
		group.StartDim = 0
	}
	switch c.Normalization {
	case MinMax:
		next = g.Add(group, "next.minmax", next)
	case ZScore:
		next = g.Add(graph.ZScore(group), "next.zscore", next)
	}
	if c.Clamp != nil {
		next = g.Add(operation("clip", "min", c.Clamp[0], "max", c.Clamp[1]), "next.clamp", next)
	}
	return next
}

// operation returns a registered operation with numbers for attributes.
func operation(name string, attributes ...any) graph.Op {
	of := map[string]any{}
	for i := 0; i < len(attributes); i += 2 {
		of[attributes[i].(string)] = attributes[i+1]
	}
	text, err := json.Marshal(of)
	if err == nil {
		var op graph.Op
		if op, err = graph.Bind(name, text); err == nil {
			return op
		}
	}
	panic("rollout: " + err.Error()) // a number of the configuration is not finite
}
