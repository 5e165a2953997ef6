package molecule

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Network is what makes energies and forces of molecules: a [Model], or any other graph.
type Network interface {
	// Problem returns the graph for molecules side by side, in a mode. A network that takes one
	// molecule at a time returns [ErrOneAtATime] for more.
	Problem(mode graph.Mode, all ...*Molecule) (*Problem, error)
}

// Problem is a graph with forces and its inputs.
type Problem struct {
	Graph    *graph.Graph
	Mode     graph.Mode
	Inputs   []*tensor.Tensor
	Energies int // the output that has one number for each molecule
	Forces   int // the output [N,3]
	Own      int // how many nodes are the network's: the first ones, before those of forces
}

// Problem implements [Network], with own neighbours.
func (m *Model) Problem(mode graph.Mode, all ...*Molecule) (*Problem, error) {
	return m.problem(mode, m.Batch(all...), "")
}

// With returns the network with neighbours of another's choice, such as recorded ones.
func (m *Model) With(pairs func(m *Molecule) Pairs) Network { return listed{m, pairs} }

type listed struct {
	model *Model
	pairs func(m *Molecule) Pairs
}

func (l listed) Problem(mode graph.Mode, all ...*Molecule) (*Problem, error) {
	return l.model.problem(mode, join(all, l.pairs), "")
}

func (m *Model) problem(mode graph.Mode, b *Batch, fault string) (*Problem, error) {
	if err := m.known(b); err != nil {
		return nil, err
	}
	if fault == faultHalf {
		b.Pairs = b.Pairs.half()
	}
	g := m.build(mode, len(b.Numbers), len(b.Pairs.I), len(b.First), fault)
	own := len(g.Nodes)
	g, err := WithForces(g, mode, g.Outputs[0], g.Inputs[positionsInput], types(mode, len(b.Numbers), len(b.Pairs.I))...)
	if err != nil {
		return nil, err
	}
	return &Problem{Graph: g, Mode: mode, Inputs: b.inputs(mode), Energies: 0, Forces: 2, Own: own}, nil
}

// Answer is energies of molecules, and x, y and z of the force on each atom.
type Answer struct{ Energies, Forces []float64 }

// Run evaluates the graph.
func (p *Problem) Run() (*Answer, error) { return p.run(new(graph.Run)) }

func (p *Problem) run(r *graph.Run) (*Answer, error) {
	program, err := p.infer()
	if err != nil {
		return nil, err
	}
	y, err := program.Run(r, p.Inputs...)
	if err != nil {
		return nil, err
	}
	return &Answer{y[p.Energies].Data, y[p.Forces].Data}, nil
}

func (p *Problem) infer() (*graph.Program, error) {
	var types []graph.Type
	for _, x := range p.Inputs {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	return p.Graph.Infer(p.Mode, types...)
}

// Overwritten returns the nodes of the network that put several numbers to one place, of which the last one stays:
// energies then depend on the order of atoms. A scatter that was meant to add, exported without its
// reduction, does so.
func (p *Problem) Overwritten() ([]string, error) {
	program, err := p.infer()
	if err != nil {
		return nil, err
	}
	var names []string
	seen := func(node int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		n := &p.Graph.Nodes[node]
		if node < p.Own && twice(n.Op, in) && !slices.Contains(names, p.Graph.Name(n)) {
			names = append(names, p.Graph.Name(n))
		}
		return nil, nil
	}
	_, err = program.Run(&graph.Run{Make: seen}, p.Inputs...)
	return names, err
}

// twice reports whether an operation puts numbers to one place that others are put to.
func twice(op graph.Op, in []*tensor.Tensor) bool {
	count := tensor.New(fp16.Int64, in[0].Shape...)
	one := func(like *tensor.Tensor) *tensor.Tensor {
		t := tensor.New(fp16.Int64, like.Shape...)
		for i := range t.Data {
			t.Data[i] = 1
		}
		return t
	}
	added := op
	switch o := op.(type) {
	case graph.Scatter:
		added = graph.ScatterAdd(o)
	case graph.ScatterND:
		if o.Reduce != "none" {
			return false
		}
		added = graph.ScatterND{Reduce: "sum"}
	case graph.IndexPut:
		if o.Accumulate {
			return false
		}
		added = graph.IndexPut{Accumulate: true}
	default:
		return false
	}
	g, inputs := graph.New(nil), slices.Clone(in)
	inputs[0], inputs[len(in)-1] = count, one(in[len(in)-1])
	var values []int
	var of []graph.Type
	for _, x := range inputs {
		values, of = append(values, g.Input("")), append(of, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	g.Outputs = []int{g.Add(added, "count", values...)}
	program, err := g.Infer(graph.Mode{}, of...)
	if err != nil {
		return false
	}
	y, err := program.Run(new(graph.Run), inputs...)
	return err == nil && slices.Max(append(y[0].Data, 0)) > 1
}

// Added returns the graph in which numbers that are put to one place are added up there, as whoever
// wrote a message passing network has meant it, and without forces.
func (p *Problem) Added() *Problem {
	q := *p
	q.Graph = &graph.Graph{Values: p.Graph.Values, Nodes: slices.Clone(p.Graph.Nodes), Inputs: p.Graph.Inputs,
		Outputs: []int{p.Graph.Outputs[p.Energies]}, Kept: p.Graph.Kept}
	q.Energies, q.Forces = 0, 0
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		switch o := n.Op.(type) {
		case graph.Scatter:
			n.Op = graph.ScatterAdd(o)
		case graph.ScatterND:
			if o.Reduce == "none" {
				n.Op = graph.ScatterND{Reduce: "sum"}
			}
		case graph.IndexPut:
			n.Op = graph.IndexPut{Accumulate: true}
		}
	}
	return &q
}
