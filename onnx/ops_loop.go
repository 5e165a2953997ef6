package onnx

import (
	"fmt"
	"maps"

	"github.com/refrun/refrun/graph"
)

// Scan and Loop are their bodies, one turn after another.

// turn adds the body of a loop once, for those inputs.
func (c *call) turn(g *graphProto, k int, in []int) []int {
	if !c.spend(nodeBytes) {
		c.fail("%d turns: %w", k, errMemory)
	}
	if len(g.inputs) != len(in) {
		c.fail("body: %d inputs: want %d", len(g.inputs), len(in))
	}
	if c.err != nil || c.poisoned {
		return nil
	}
	s := &scope{
		names: map[string]int{}, outer: c.scope, opsets: c.scope.opsets, attributes: maps.Clone(c.scope.attributes),
	}
	s.place = fmt.Sprintf("%s%d/", c.inside(), k)
	for i, of := range g.inputs {
		s.names[of.name] = in[i]
	}
	out := c.within(g, s)
	if c.poisoned {
		return nil
	}
	return out
}

// collected is what a loop has put out in its turns, and along which axis it is joined.
type collected struct {
	turns []int
	axis  int
	last  bool // the first turn is the last number
}

// join stacks what was put out.
func (c *call) join(all []collected) (out []int) {
	for _, o := range all {
		if o.last {
			for i, j := 0, len(o.turns)-1; i < j; i, j = i+1, j-1 {
				o.turns[i], o.turns[j] = o.turns[j], o.turns[i]
			}
		}
		d := c.dtype(o.turns[0])
		out = append(out, c.as(c.add(graph.Stack{Axis: o.axis}, o.turns...), d))
	}
	return out
}

// body returns the graph that a loop repeats.
func (c *call) loopBody() *graphProto {
	a := c.attribute("body")
	if a == nil || a.graph == nil {
		c.fail("body: want a graph")
		return nil
	}
	return a.graph
}

// opScan takes the parts of its last inputs along an axis, one in each turn. It has no batches, as before opset 9.
func opScan(c *call) []int {
	g, n := c.loopBody(), c.int("num_scan_inputs", 0)
	states := len(c.in) - n
	if c.opset < 9 {
		c.fail("opset %d: want 9 or later", c.opset)
	}
	if n < 1 || states < 0 {
		c.fail("num_scan_inputs: %d of %d inputs: want 1 or more", n, len(c.in))
	}
	outputs := len(c.node.out) - states
	axes, back := c.each("scan_input_axes", n), c.each("scan_input_directions", n)
	to, turned := c.each("scan_output_axes", outputs), c.each("scan_output_directions", outputs)
	for i := range c.in {
		c.arg(i)
	}
	if c.err != nil {
		return nil
	}
	state, turns := c.in[:states:states], 0
	var parts [][]int
	for k := range n {
		x := c.in[states+k]
		a, rank := axes[k], c.rank(x)
		if a < -rank || a >= rank {
			c.fail("scan_input_axes: %d: want an axis of rank %d", a, rank)
			return nil
		}
		length := c.shape(x)[(a+rank)%rank]
		if k > 0 && length != turns {
			c.fail("input %d of shape %v: want %d along axis %d, as input %d has", states+k, c.shape(x), turns, a, states)
		}
		if turns = length; turns == 0 {
			c.fail("input %d of shape %v: want a turn or more", states+k, c.shape(x))
		}
		parts = append(parts, c.addAll(graph.Unbind{Axis: a}, turns, x))
	}
	all := make([]collected, outputs)
	for t := 0; t < turns && c.err == nil; t++ {
		in := append([]int{}, state...)
		for k := range n {
			at := t
			if back[k] != 0 {
				at = turns - 1 - t
			}
			in = append(in, parts[k][at])
		}
		out := c.turn(g, t, in)
		if len(out) != states+outputs {
			c.fail("body: %d outputs: want %d", len(out), states+outputs)
			return nil
		}
		state = out[:states]
		for k := range all {
			all[k].turns = append(all[k].turns, out[states+k])
			all[k].axis, all[k].last = to[k], turned[k] != 0
		}
	}
	if c.err != nil {
		return nil
	}
	return append(append([]int{}, state...), c.join(all)...)
}

// each returns an attribute of n numbers, 0 if it is not given.
func (c *call) each(name string, n int) []int {
	of := c.ints(name)
	if of == nil {
		of = make([]int, max(n, 0))
	}
	if len(of) != n {
		c.fail("%s: %d numbers: want %d", name, len(of), n)
	}
	return of
}

// opLoop turns as often as is known.
func opLoop(c *call) []int {
	g := c.loopBody()
	most, on := -1, true
	if c.has(0) {
		if t := c.known(0, "number of turns"); len(t) == 1 {
			most = max(t[0], 0)
		}
	}
	if c.has(1) {
		if t := c.known(1, "condition"); len(t) == 1 {
			on = t[0] != 0
		}
	}
	for i := 2; i < len(c.in); i++ {
		c.arg(i)
	}
	if c.err != nil {
		return nil
	}
	var state []int
	if len(c.in) > 2 {
		state = c.in[2:]
	}
	states := len(state)
	outputs := len(g.outputs) - 1 - states
	if outputs < 0 {
		c.fail("body: %d outputs: want a condition and %d states or more", len(g.outputs), states)
		return nil
	}
	all := make([]collected, outputs)
	for t := 0; on && (most < 0 || t < most); t++ {
		out := c.turn(g, t, append([]int{c.wholes(nil, t), c.as(c.wholes(nil, 1), Bool)}, state...))
		if len(out) == 0 {
			return nil
		}
		state = out[1 : 1+states]
		for k := range all {
			all[k].turns = append(all[k].turns, out[1+states+k])
		}
		v, err := c.evaluate(out[0], true)
		if err != nil {
			c.fail("condition after turn %d: %w", t, err)
			return nil
		}
		on = len(v.Data) > 0 && v.Data[0] != 0
	}
	for _, o := range all {
		if len(o.turns) == 0 {
			c.fail("no turns: want one or more, for what they put out")
			return nil
		}
	}
	return append(append([]int{}, state...), c.join(all)...)
}
