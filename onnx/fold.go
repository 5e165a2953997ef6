package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

const int64Format = fp16.Int64

// fold puts constants in the place of outputs that are whole numbers, or numbers that were
// only moved, and depend on constants alone. The others stay nodes: their results depend on
// the mode.
func (c *call) fold(out []int) {
	for _, v := range c.in {
		if v >= 0 && c.g.Values[v].Const == nil {
			return
		}
	}
	for k, v := range out {
		if v < c.first || c.g.Values[v].Const != nil {
			continue
		}
		if c.types[v].Format != fp16.Int64 && !c.moved(v) {
			continue
		}
		if t, err := c.evaluate(v, false); err == nil {
			out[k] = c.constant("", t, c.dtypes[v])
		}
	}
}

// moves are the operations that only move numbers, and make no more of them.
var moves = map[string]bool{"reshape": true, "permute": true, "squeeze": true, "unsqueeze": true, "flatten": true,
	"slice": true, "split": true, "cat": true, "index_select": true, "transpose": true, "select": true}

// moved reports whether a value is numbers of constants that the call has only moved.
func (c *call) moved(v int) bool {
	if v < c.first || c.makers[v] < 0 {
		return c.g.Values[v].Const != nil
	}
	n := &c.g.Nodes[c.makers[v]]
	return moves[n.Op.Name()] && !slices.ContainsFunc(n.In, func(in int) bool { return !c.moved(in) })
}

// settled returns a constant in the place of weights that were only moved, so that what is made of it, as
// packed weights are, is kept.
func (c *call) settled(v int) int {
	if c.err != nil || !c.moved(v) {
		return v
	}
	if t, err := c.evaluateUpTo(v, false, mostSettled); err == nil {
		return c.constant("", t, c.dtypes[v])
	}
	return v
}

// value returns the numbers of a value that must be known while the graph is made.
func (c *call) value(v int, what string) *tensor.Tensor {
	if c.err != nil || v < 0 {
		c.fail("%s: missing", what)
		return nil
	}
	t, err := c.evaluate(v, true)
	if err != nil {
		c.fail("%s: %w", what, err)
		return nil
	}
	return t
}

// known returns the whole numbers of an input that must be known, nil if it is not given.
func (c *call) known(i int, what string) []int {
	if !c.has(i) {
		return nil
	}
	t := c.value(c.in[i], what)
	if t == nil {
		return nil
	}
	all := []int{}
	for _, x := range t.Data {
		all = append(all, whole(x))
	}
	return all
}

// whole returns a number as a whole one, the nearest there is if it is beyond all.
func whole(x float64) int {
	switch {
	case x >= 1<<63:
		return math.MaxInt
	case x < -1<<63, x != x:
		return math.MinInt
	}
	return int(x)
}

// cheap reports whether an operation takes little time for each number that it makes or
// reads: others are not evaluated while a graph is made.
func cheap(op graph.Op) bool {
	switch op := op.(type) {
	case graph.Unary, graph.Binary, graph.Act, graph.Where, graph.Reduction, graph.ArgMax, graph.CumSum, graph.TopK,
		graph.Gather, graph.GatherND, graph.IndexSelect, graph.Scatter, graph.ScatterAdd, graph.ScatterND,
		graph.ScatterReduce,
		graph.Cat, graph.Stack, graph.Split, graph.Slice, graph.Pad, graph.Expand, graph.Repeat, graph.RepeatInterleave,
		graph.Triangle, graph.VectorNorm, graph.Cast, graph.QuantizeLinear, graph.DequantizeLinear, narrow:
		return true
	default:
		return moves[op.Name()]
	}
}

// mostKnown is how many numbers one value may have that is computed while a graph is made.
const mostKnown = 1 << 22

// mostSettled is how many numbers weights may have that are only brought into another order, or centered.
const mostSettled = 1 << 28

// evaluate computes a value from constants, and from inputs whose values are given if
// these may be used.
func (b *builder) evaluate(v int, feeds bool) (*tensor.Tensor, error) {
	return b.evaluateUpTo(v, feeds, mostKnown)
}

// evaluateUpTo is evaluate of values of so many numbers at most.
func (b *builder) evaluateUpTo(v int, feeds bool, most int) (*tensor.Tensor, error) {
	if t := b.g.Values[v].Const; t != nil {
		return t, nil
	}
	part := graph.New(new(graph.Kept))
	to := map[int]int{} // values of the part
	var used []*feed
	nodes, seen := []int{}, map[int]bool{}
	for left := []int{v}; len(left) > 0; {
		i := b.makers[left[len(left)-1]]
		left = left[:len(left)-1]
		if i >= 0 && !seen[i] {
			seen[i] = true
			nodes = append(nodes, i)
			left = append(left, b.g.Nodes[i].In...)
		}
	}
	slices.Sort(nodes)
	made := 0 // numbers
	need := func(in int) error {
		if _, ok := to[in]; ok {
			return nil
		}
		t := b.g.Values[in].Const
		if f := b.feeds[in]; t == nil && f != nil && feeds {
			used = append(used, f)
			t = f.value
		}
		if t == nil {
			return fmt.Errorf("it depends on input %.60q: want a constant, or the input's value given", b.g.Values[in].Name)
		}
		to[in] = part.Constant("", t)
		return nil
	}
	if len(nodes) == 0 {
		if err := need(v); err != nil {
			return nil, err
		}
	}
	for _, i := range nodes {
		n := &b.g.Nodes[i]
		if !cheap(n.Op) {
			return nil, fmt.Errorf("it is made by %s: want what is computed quickly", n.Op.Name())
		}
		m := graph.Node{Op: n.Op}
		for _, in := range n.In {
			if err := need(in); err != nil {
				return nil, err
			}
			m.In = append(m.In, to[in])
		}
		for _, o := range n.Out {
			if n := elements(b.types[o].Shape); n > most || !b.spend(8*n) {
				return nil, fmt.Errorf("shape %v: %w", b.types[o].Shape, errMemory)
			}
			made += elements(b.types[o].Shape)
			part.Values = append(part.Values, graph.Value{})
			to[o] = len(part.Values) - 1
			m.Out = append(m.Out, to[o])
		}
		part.Nodes = append(part.Nodes, m)
	}
	part.Outputs = []int{to[v]}
	p, err := part.Infer(mode)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(new(graph.Run))
	if err != nil {
		return nil, err
	}
	if made > 0 { // what was on the way is gone
		b.memory += int64(8 * (made - len(out[0].Data)))
	}
	for _, f := range used {
		f.used = true
	}
	return out[0], nil
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// prune drops what no output needs. Inputs stay.
func (b *builder) prune() {
	g := b.g
	needed := make([]bool, len(g.Values))
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		needed[v] = true
	}
	var nodes []graph.Node
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v int) bool { return needed[v] }) {
			continue
		}
		for _, v := range slices.Concat(n.In, n.Out) {
			needed[v] = true
		}
		nodes = append(nodes, n)
	}
	slices.Reverse(nodes)
	to := make([]int, len(g.Values))
	var values []graph.Value
	feeds := map[int]*feed{}
	for v := range g.Values {
		if !needed[v] {
			continue
		}
		to[v] = len(values)
		values = append(values, g.Values[v])
	}
	move := func(of []int) {
		for k := range of {
			of[k] = to[of[k]]
		}
	}
	for v, f := range b.feeds {
		feeds[v] = f // inputs keep their places, as they come first
	}
	for i := range nodes {
		nodes[i].In, nodes[i].Out = slices.Clone(nodes[i].In), slices.Clone(nodes[i].Out)
		move(nodes[i].In)
		move(nodes[i].Out)
	}
	move(g.Inputs)
	move(g.Outputs)
	g.Values, g.Nodes, b.feeds = values, nodes, feeds
	b.names()
}

// names gives values within a node of the file their names: that of the node's output, which
// of its steps they are, and the operation.
func (b *builder) names() {
	for i := range b.g.Values {
		if x := &b.g.Values[i]; x.Name != "" && x.Name[0] == hidden {
			x.Name = x.Name[1:]
		}
	}
}

// precise returns an error for constants of whole numbers that float64 does not hold.
func (b *builder) precise() error {
	for _, n := range b.g.Nodes {
		for _, v := range n.In {
			if t := b.g.Values[v].Const; t != nil && t.Format == fp16.Int64 {
				for i, x := range t.Data {
					if math.Abs(x) > 1<<53 {
						return fmt.Errorf("constant %.60q: number %d is %.0f: want whole numbers within 2^53", b.g.Values[v].Name, i, x)
					}
				}
			}
		}
	}
	return nil
}
