package molecule

import (
	"fmt"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// Batch is one or several molecules side by side, as a network takes them.
type Batch struct {
	Numbers   []int     // atomic numbers
	Positions []float64 // x, y and z of each atom
	Pairs     Pairs
	First     []int // the first atom of each molecule
}

// join puts molecules side by side. pairs returns those of one molecule, counted from its first atom.
func join(all []*Molecule, pairs func(m *Molecule) Pairs) *Batch {
	b := new(Batch)
	for _, m := range all {
		at := len(b.Numbers)
		b.First = append(b.First, at)
		b.Numbers = append(b.Numbers, m.Numbers...)
		b.Positions = append(b.Positions, m.Positions...)
		p := pairs(m)
		for k := range p.I {
			b.Pairs.I, b.Pairs.J = append(b.Pairs.I, at+p.I[k]), append(b.Pairs.J, at+p.J[k])
		}
	}
	return b
}

// Atoms returns the first atom of a molecule and the one after its last.
func (b *Batch) Atoms(molecule int) (first, end int) {
	if molecule+1 < len(b.First) {
		return b.First[molecule], b.First[molecule+1]
	}
	return b.First[molecule], len(b.Numbers)
}

// inputs returns the tensors of a model's graph.
func (b *Batch) inputs(mode graph.Mode) []*tensor.Tensor {
	n, p := len(b.Numbers), len(b.Pairs.I)
	z, x, pairs, of := tensor.New(fp16.Int64, n), tensor.New(mode.Wide(), n, 3), tensor.New(fp16.Int64, 2, p),
		tensor.New(fp16.Int64, n)
	for i, v := range b.Numbers {
		z.Data[i] = float64(v)
	}
	mode.Wide().RoundSlice(x.Data, b.Positions)
	for k := range p {
		pairs.Data[k], pairs.Data[p+k] = float64(b.Pairs.I[k]), float64(b.Pairs.J[k])
	}
	for m := range b.First {
		first, end := b.Atoms(m)
		for i := first; i < end; i++ {
			of.Data[i] = float64(m)
		}
	}
	return []*tensor.Tensor{z, x, pairs, of}
}

// Result is what a network makes of a batch. A force is minus the derivative of the sum of all
// energies by a position, in units of energy over that of positions.
type Result struct {
	Energies     []float64 // of molecules
	AtomEnergies []float64 // of atoms
	Forces       []float64 // x, y and z of each atom
}

// Evaluator evaluates a model in a mode. It keeps the plan of the last sizes, so that what is evaluated
// again and again, as along a trajectory, is planned once. It serves one batch at a time.
type Evaluator struct {
	model *Model
	mode  graph.Mode
	fault string

	mu    sync.Mutex
	sizes [3]int
	ready *compiled
}

// compiled is a graph with forces for some sizes.
type compiled struct {
	graph   *graph.Graph
	program *graph.Program
	plan    *plan.Plan // nil in float64
	out     []*tensor.Tensor
}

// Evaluator returns one for a mode.
func (m *Model) Evaluator(mode graph.Mode) *Evaluator { return &Evaluator{model: m, mode: mode} }

// WithForces returns a graph with a further output, minus the gradient of the sum of one of its values
// by an input: forces.
func WithForces(g *graph.Graph, mode graph.Mode, energy, positions int, types ...graph.Type) (*graph.Graph, error) {
	d, err := grad.Of(g, mode, energy, []int{positions}, types...)
	if err != nil {
		return nil, err
	}
	last := len(d.Outputs) - 1
	neg, err := graph.Bind("neg", nil)
	if err != nil {
		return nil, err
	}
	d.Outputs[last] = d.Add(neg, "forces", d.Outputs[last])
	return d, nil
}

// compile makes the graph with forces.
func (e *Evaluator) compile(atoms, pairs, molecules int) (*compiled, error) {
	g := e.model.build(e.mode, atoms, pairs, molecules, e.fault)
	of := types(e.mode, atoms, pairs)
	g, err := WithForces(g, e.mode, g.Outputs[0], g.Inputs[positionsInput], of...)
	if err != nil {
		return nil, err
	}
	c := &compiled{graph: g}
	if c.program, err = g.Infer(e.mode, of...); err != nil || e.mode.Precision == fp16.Float64 {
		return c, err
	}
	if c.plan, err = plan.New(g, e.mode, of...); err != nil {
		return nil, err
	}
	for _, v := range g.Outputs {
		t := c.program.Type(v)
		c.out = append(c.out, tensor.New(t.Format, t.Shape...))
	}
	return c, nil
}

// known returns an error for an atomic number that the network does not know, and for a position that
// is not finite.
func (m *Model) known(b *Batch) error {
	for i, z := range b.Numbers {
		if z < 0 || z >= m.Sizes.Elements {
			return fmt.Errorf("atom %d: atomic number %d: want one of 0 to %d, the rows of the embedding", i, z,
				m.Sizes.Elements-1)
		}
	}
	return (&Molecule{Positions: b.Positions}).Finite()
}

// Evaluate returns energies and forces. Atomic numbers that the network does not know, and positions that are not
// finite, are errors.
func (e *Evaluator) Evaluate(b *Batch) (*Result, error) {
	if err := e.model.known(b); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if sizes := [3]int{len(b.Numbers), len(b.Pairs.I), len(b.First)}; e.ready == nil || e.sizes != sizes {
		c, err := e.compile(sizes[0], sizes[1], sizes[2])
		if err != nil {
			return nil, err
		}
		e.ready, e.sizes = c, sizes
	}
	y, err := e.ready.run(b.inputs(e.mode))
	if err != nil {
		return nil, err
	}
	return resultOf(y), nil
}

func (c *compiled) run(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if c.plan == nil {
		return c.program.Run(new(graph.Run), in...)
	}
	return c.out, c.plan.Run(nil, noise.Time{}, c.out, in)
}

// resultOf copies what a graph with forces returned.
func resultOf(y []*tensor.Tensor) *Result {
	return &Result{Energies: append([]float64{}, y[0].Data...), AtomEnergies: append([]float64{}, y[1].Data...),
		Forces: append([]float64{}, y[2].Data...)}
}

// Batch puts molecules side by side, each with its own neighbours within the model's cutoff.
func (m *Model) Batch(all ...*Molecule) *Batch {
	return join(all, func(x *Molecule) Pairs { return Neighbours(x.Positions, m.Config.Cutoff, m.Inclusive()) })
}
