package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/internal/ground/par"
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

// scratcher is an operation that sets memory aside while it works, beside its inputs and outputs,
// other than products do.
type scratcher interface {
	scratch(in, out []Type) int64
}

// Peak returns the most memory that [Program.Run] holds at once, in bytes: inputs and constants,
// each value from the node that makes it to the last one that reads it, and what operations set
// aside.
func (p *Program) Peak() int64 { return p.peak }

// Between is Peak without what operations set aside.
func (p *Program) Between() int64 { return p.between }

// Within returns an error if so many bytes, which the program takes in all, are more than there
// is. It names the node that makes most of them.
func (p *Program) Within(bytes int64) error {
	err := memory.Fits(bytes)
	if err == nil {
		return nil
	}
	most := -1
	for i := range p.graph.Nodes {
		if most < 0 || p.makes(i) > p.makes(most) {
			most = i
		}
	}
	if most < 0 {
		return fmt.Errorf("graph: with its inputs and constants alone it %w", err)
	}
	n := &p.graph.Nodes[most]
	return fmt.Errorf("%s: with output %s the graph %w", p.graph.Name(n), shown(p.types[n.Out[0]].Shape), err)
}

func (p *Program) makes(i int) int64 { return all(p.typesOf(p.graph.Nodes[i].Out)) }

// setPeak adds up what is held at each node.
func (p *Program) setPeak() {
	g := p.graph
	last := p.last(make([]*tensor.Tensor, len(g.Values)))
	of, until := p.memory(make([]*tensor.Tensor, len(g.Values)), last)
	stays, held := p.given()
	p.peak, p.between = held, held
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
		p.between = max(p.between, held)
		p.peak = max(p.peak, memory.Sum(held, p.Aside(i)))
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
	if _, can := n.Op.(inPlacer); !can || len(n.In) == 0 {
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
	switch op := n.Op.(type) {
	case scratcher:
		bytes = memory.Sum(bytes, op.scratch(in, out))
	case interface{ products(in, out []Type) int64 }: // operands rounded and packed, and sums, as kernels have them
		bytes = memory.Sum(bytes, all(in), all(in), all(out))
	}
	return bytes
}

func all(of []Type) (bytes int64) {
	for _, t := range of {
		bytes = memory.Sum(bytes, t.Bytes())
	}
	return bytes
}

// lineSpace is the memory of a reduction along axes: where its lines begin, where the numbers of one stand, written
// once more while an axis is added, and, if these are no neighbours, four lines of each thread.
func lineSpace(axes Ints, in, out []Type) int64 {
	lines, rank := out[0].elements(), len(in[0].Shape)
	line := all(in[:1]) / max(1, lines)
	n := int64(2)
	if slices.ContainsFunc(axes, func(a int) bool { return (a+rank)%max(1, rank) < rank-len(axes) }) {
		n += 4 * min(lines, int64(par.Workers()))
	}
	return memory.Sum(all(out), memory.Product(n, line))
}

func (o Reduction) scratch(in, out []Type) int64  { return lineSpace(o.Axes, in, out) }
func (o Var) scratch(in, out []Type) int64        { return lineSpace(o.Axes, in, out) }
func (o VectorNorm) scratch(in, out []Type) int64 { return lineSpace(o.Axes, in, out) }

// scratch is two complex numbers for each of a line, of all lines.
func (FFT) scratch(in, out []Type) int64 { return memory.Product(2, memory.Sum(all(in), all(out))) }
