package onnx

import (
	"maps"

	"github.com/refrun/refrun/internal/fault"
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
	return c.within(g, &scope{names: map[string]int{}, outer: c.scope, opsets: c.scope.opsets, attributes: maps.Clone(c.scope.attributes), place: c.inside()})
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

// opIf is If with a condition that is known.
func opIf(c *call) []int {
	then, other := c.attribute("then_branch"), c.attribute("else_branch")
	t := c.value(c.arg(0), "condition")
	if then == nil || other == nil || then.graph == nil || other.graph == nil {
		c.fail("then_branch, else_branch: want both")
	}
	if c.err != nil {
		return nil
	}
	if len(t.Data) != 1 {
		c.fail("condition of shape %v: want one number", t.Shape)
		return nil
	}
	if t.Data[0] != 0 {
		return c.branch(then.graph)
	}
	return c.branch(other.graph)
}
