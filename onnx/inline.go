package onnx

import (
	"maps"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
)

// mostNesting is how deep functions and branches may be within each other.
const mostNesting = 32

// inline adds the body of a function in place of its call.
func (c *call) inline(f *graphProto) []int {
	s := &scope{names: map[string]int{}, opsets: f.opsets, attributes: map[string]*attribute{}, place: c.inside()}
	if len(f.opsets) == 0 {
		s.opsets = c.scope.opsets
	}
	for _, a := range f.attributes {
		s.attributes[a.name] = a
	}
	for _, a := range c.node.attributes {
		s.attributes[a.name] = c.attribute(a.name)
	}
	for k, in := range f.inputs {
		if s.names[in.name] = absent; k < len(c.in) {
			s.names[in.name] = c.in[k]
		}
	}
	return c.within(f, s)
}

// branch adds the branch of a condition that is known.
func (c *call) branch(g *graphProto) []int {
	return c.within(g, &scope{names: map[string]int{}, outer: c.scope, opsets: c.scope.opsets,
		attributes: maps.Clone(c.scope.attributes), place: c.inside()})
}

// inside returns what comes before the names of what is within the node.
func (c *call) inside() string {
	name := c.node.name
	if name == "" {
		name = c.node.out[0]
	}
	return c.scope.place + fault.Clip(name) + "/"
}

func (c *call) within(g *graphProto, s *scope) []int {
	if c.depth++; c.depth > mostNesting {
		c.fail("functions and branches within each other: want at most %d", mostNesting)
	} else {
		c.body(g, s)
	}
	c.depth--
	var out []int
	for _, o := range g.outputs {
		v, ok := s.value(o.name)
		if !ok {
			c.fail("output %.60q: made by no node in it", o.name)
		}
		c.poisoned = c.poisoned || v == poison
		out = append(out, v)
	}
	return out
}

// opIf is the branch that a condition chooses. Where it is not known, both branches are in the graph, and each
// output is chosen from theirs, which must have one type.
func opIf(c *call) []int {
	then, other := c.attribute("then_branch"), c.attribute("else_branch")
	condition := c.arg(0)
	if then == nil || other == nil || then.graph == nil || other.graph == nil {
		c.fail("then_branch, else_branch: want both")
	}
	if c.err != nil {
		return nil
	}
	if elements(c.shape(condition)) != 1 {
		c.fail("condition of shape %v: want one number", c.shape(condition))
		return nil
	}
	if t, err := c.evaluate(condition, true); err == nil {
		if t.Data[0] != 0 {
			return c.branch(then.graph)
		}
		return c.branch(other.graph)
	}
	a, b := c.branch(then.graph), c.branch(other.graph)
	if len(a) != len(b) {
		c.fail("branches of %d and %d outputs: want as many", len(a), len(b))
	}
	return c.choose(c.reshape(condition, nil, true), a, b)
}

// choose returns the values of the first list if a condition is not 0, else those of the second.
func (c *call) choose(condition int, a, b []int) (out []int) {
	for k := range a {
		if c.err != nil || c.poisoned {
			return nil
		}
		if s, t := c.shape(a[k]), c.shape(b[k]); !equal(s, t) || c.dtype(a[k]) != c.dtype(b[k]) {
			c.fail("output %d: %v%v or %v%v, by a condition that is not known: want one type", k, c.dtype(a[k]), s,
				c.dtype(b[k]), t)
			return nil
		}
		out = append(out, c.as(c.add(graph.Where{}, condition, a[k], b[k]), c.dtype(a[k])))
	}
	return out
}
