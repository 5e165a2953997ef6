package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/memory"
	"github.com/refrun/refrun/tensor"
)

// number is what a number of a tensor takes, of whatever format it is.
const number = 8

// Bytes returns the memory of a tensor of that type; that of a size beyond all numbers is the
// greatest there is.
func (t Type) Bytes() int64 {
	n := int64(number)
	for _, d := range t.Shape {
		n = memory.Product(n, int64(d))
	}
	return n
}

// scratcher is an operation that sets memory aside while it works, beside its inputs and outputs.
type scratcher interface {
	scratch(in, out []Type) int64
}

// Peak returns the most memory that [Program.Run] holds at once, in bytes, and the node at which
// it does, -1 for none: inputs and constants, each value from the node that makes it to the last
// one that reads it, and what operations set aside.
func (p *Program) Peak() (bytes int64, node int) { return p.peak, p.peakAt }

// Fits returns an error if that is more than there is, which names the node.
func (p *Program) Fits() error {
	err := memory.Fits(p.peak)
	switch {
	case err == nil:
		return nil
	case p.peakAt < 0:
		return fmt.Errorf("graph: with its inputs and constants alone it %w", err)
	}
	n := &p.graph.Nodes[p.peakAt]
	return fmt.Errorf("%s: with output %s the graph %w", p.graph.Name(n), shown(p.types[n.Out[0]].Shape), err)
}

// setPeak adds up what is held at each node.
func (p *Program) setPeak() {
	g := p.graph
	last := p.last(make([]*tensor.Tensor, len(g.Values)))
	of, until := p.memory(make([]*tensor.Tensor, len(g.Values)), last)
	stays, held := p.given()
	p.peak, p.peakAt = held, -1
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v int) bool { return last[v] >= 0 }) {
			continue
		}
		for _, v := range n.Out {
			if of[v] == v && !p.takesOver(n, v, of, until, stays, i) {
				held = memory.Sum(held, p.types[v].Bytes())
			}
		}
		if most := memory.Sum(held, p.Aside(i)); most > p.peak {
			p.peak, p.peakAt = most, i
		}
		for _, v := range slices.Concat(n.In, n.Out) {
			if m := of[v]; until[m] <= i && !stays[m] {
				stays[m] = true // it was let go
				held -= p.types[m].Bytes()
			}
		}
	}
}

// given returns which values are there before all nodes, and stay, and their bytes.
func (p *Program) given() (there []bool, bytes int64) {
	g := p.graph
	there = make([]bool, len(g.Values))
	seen := map[*tensor.Tensor]bool{}
	for _, v := range g.Inputs {
		there[v], bytes = true, memory.Sum(bytes, p.types[v].Bytes())
	}
	for v := range g.Values {
		if c := g.Values[v].Const; c != nil {
			if there[v] = true; !seen[c] {
				seen[c], bytes = true, memory.Sum(bytes, p.types[v].Bytes())
			}
		}
	}
	return there, bytes
}

// takesOver reports whether output v of node i is made in the memory of the node's first input.
func (p *Program) takesOver(n *Node, v int, of, until []int, stays []bool, i int) bool {
	if _, can := n.Op.(InPlace); !can || len(n.In) == 0 {
		return false
	}
	m := of[n.In[0]]
	if stays[m] || until[m] != i || slices.ContainsFunc(n.In[1:], func(w int) bool { return of[w] == m }) ||
		p.types[m].Format != p.types[v].Format || !slices.Equal(p.types[n.In[0]].Shape, p.types[v].Shape) {
		return false
	}
	stays[m] = true // its bytes are the output's from here on
	return true
}

// Given returns the memory of the inputs and constants.
func (p *Program) Given() int64 {
	_, bytes := p.given()
	return bytes
}

// Aside returns what node i sets aside: its operands in other formats than they are stored in,
// and what its operation says.
func (p *Program) Aside(i int) (bytes int64) {
	n := &p.graph.Nodes[i]
	in, out := p.typesOf(n.In), p.typesOf(n.Out)
	for k := range n.In {
		if p.Operand(i, k) != in[k].Format {
			bytes = memory.Sum(bytes, in[k].Bytes())
		}
	}
	if op, ok := n.Op.(scratcher); ok {
		bytes = memory.Sum(bytes, op.scratch(in, out))
	}
	return bytes
}
