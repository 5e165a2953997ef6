package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
)

// Program is a graph in a mode, for inputs of given types.
type Program struct {
	graph *Graph
	mode  Mode
	types []Type // by value
	nodes []Inference

	peak, between int64 // see [Program.Peak]
}

// Infer returns the graph in a mode for inputs of those types, or an error that
// names the node, what is wrong with it, and what would be right.
func (g *Graph) Infer(m Mode, in ...Type) (*Program, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(in) != len(g.Inputs) {
		return nil, fmt.Errorf("graph: %d inputs: want %d", len(in), len(g.Inputs))
	}
	p := &Program{graph: g, mode: m, types: make([]Type, len(g.Values)), nodes: make([]Inference, len(g.Nodes))}
	known := make([]bool, len(g.Values))
	for k, v := range g.Inputs {
		p.types[v], known[v] = in[k], true
	}
	for i := range g.Values {
		if c := g.Values[i].Const; c != nil {
			f := c.Format
			if m.Precision == fp16.Float64 && f != fp16.Int64 {
				f = fp16.Float64
			}
			p.types[i], known[i] = Type{c.Shape, f}, true
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		of := make([]Type, len(n.In))
		for k, v := range n.In {
			if !known[v] {
				return nil, fmt.Errorf("%s: input %d: %q is not made yet: "+
					"want an order in which each node reads what is there before it", g.Name(n), k, g.Values[v].Name)
			}
			of[k] = p.types[v]
		}
		inferred, err := n.Op.Infer(m, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name(n), err)
		}
		if len(inferred.Out) != len(n.Out) {
			return nil, fmt.Errorf("%s: %d outputs: want %d of %s", g.Name(n), len(n.Out), len(inferred.Out), n.Op.Name())
		}
		for k, v := range n.Out {
			if known[v] {
				return nil, fmt.Errorf("%s: output %d: %q is made twice: want each value made once", g.Name(n), k, g.Values[v].Name)
			}
			if err := bounded(inferred.Out[k].Shape); err != nil {
				return nil, fmt.Errorf("%s: %w", g.Name(n), err)
			}
			p.types[v], known[v] = inferred.Out[k], true
		}
		p.nodes[i] = inferred
	}
	for _, v := range g.Outputs {
		if !known[v] {
			return nil, fmt.Errorf("graph: output %q: made by no node", g.Values[v].Name)
		}
	}
	p.setPeak()
	return p, nil
}

// What a tensor of a graph may be at most: a file must not ask for more than any
// machine has.
const (
	mostRank     = 16
	mostElements = 1 << 40
)

func bounded(shape []int) error {
	if len(shape) > mostRank {
		return fmt.Errorf("rank %d: want at most %d", len(shape), mostRank)
	}
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > mostElements/d {
			return fmt.Errorf("output %s: want at most 2^40 elements", shown(shape))
		}
		n *= d
	}
	return nil
}

// Type returns the type of a value.
func (p *Program) Type(value int) Type { return p.types[value] }

// Operand returns the format to which node i rounds its input k before it uses it.
func (p *Program) Operand(i, k int) fp16.Format {
	if of := p.nodes[i].Operands; k < len(of) {
		return of[k]
	}
	return p.types[p.graph.Nodes[i].In[k]].Format
}

// Products returns the multiplications of operations of products, such as convolutions,
// in one evaluation.
func (p *Program) Products() (n int64) {
	for i := range p.graph.Nodes {
		node := &p.graph.Nodes[i]
		if op, ok := node.Op.(interface{ products(in, out []Type) int64 }); ok {
			n += op.products(p.typesOf(node.In), p.typesOf(node.Out))
		}
	}
	return n
}

func (p *Program) typesOf(values []int) (of []Type) {
	for _, v := range values {
		of = append(of, p.types[v])
	}
	return of
}

// elements returns how many numbers a value of that type has.
func (t Type) elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}
