package molecule

import (
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/tensor"
)

// onnxNetwork is an ONNX file, or one of --graph, as a network of molecules.
type onnxNetwork struct {
	*model.Network
	numbers, positions, edges string // its inputs; edges may be absent
	pairs                     func(*molecule.Molecule) molecule.Pairs
}

// openFile opens the file and finds its inputs: whole numbers [N], floating-point ones [N,3], and whole
// ones [2,P], if there are any.
func (f *moleculeFlags) openFile(pairs func(*molecule.Molecule) molecule.Pairs) (molecule.Network, func(), error) {
	m, err := (&model.Flags{Onnx: f.onnx, Graph: f.graph}).Read()
	if err != nil {
		return nil, nil, err
	}
	n := &onnxNetwork{Network: m, pairs: pairs}
	if pairs == nil && f.cutoff > 0 {
		n.pairs = func(x *molecule.Molecule) molecule.Pairs { return molecule.Neighbours(x.Positions, f.cutoff, false) }
	}
	if err := n.find(); err != nil {
		m.Close()
		return nil, nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return n, func() { m.Close() }, nil
}

func (n *onnxNetwork) find() error {
	for _, in := range n.Inputs {
		format, ok := in.Type.Format()
		to := &n.positions
		switch {
		case ok && format == fp16.Int64 && len(in.Shape) == 1:
			to = &n.numbers
		case ok && format == fp16.Int64 && len(in.Shape) == 2:
			to = &n.edges
		case ok && format != fp16.Int64 && len(in.Shape) == 2:
		default:
			return fmt.Errorf("input %s: want atomic numbers [N], positions [N,3], and pairs [2,P] or none", model.InputText(in))
		}
		if *to != "" {
			return fmt.Errorf("input %s: a second one like %s: want one of each kind", model.InputText(in), *to)
		}
		*to = in.Name
	}
	switch {
	case n.numbers == "" || n.positions == "":
		return fmt.Errorf("inputs %s: want atomic numbers [N] and positions [N,3]", n.Wanted())
	case n.edges != "" && n.pairs == nil:
		return fmt.Errorf("input %s: pairs: want --cutoff, or --pairs", n.edges)
	case n.edges == "" && n.pairs != nil:
		return fmt.Errorf("--cutoff, --pairs: the network takes no pairs, and finds its own: want neither")
	}
	return nil
}

// Problem implements molecule.Network, for one molecule. Where the network finds its own neighbours the
// graph is for those of the positions given.
func (n *onnxNetwork) Problem(mode graph.Mode, all ...*molecule.Molecule) (*molecule.Problem, error) {
	if len(all) != 1 {
		return nil, molecule.ErrOneAtATime
	}
	x := all[0]
	var z []float64
	for _, v := range x.Numbers {
		z = append(z, float64(v))
	}
	n.Given = map[string]*tensor.Tensor{n.numbers: tensor.Of(fp16.Int64, z, len(z))}
	at := n.inputOf(n.positions)
	format, _ := n.Inputs[at].Type.Format()
	rounded := tensor.New(format, len(z), 3)
	format.RoundSlice(rounded.Data, x.Positions)
	n.Given[n.positions] = rounded
	if n.edges != "" {
		p := n.pairs(x)
		edges := tensor.New(fp16.Int64, 2, len(p.I))
		for k := range p.I {
			edges.Data[k], edges.Data[len(p.I)+k] = float64(p.I[k]), float64(p.J[k])
		}
		n.Given[n.edges] = edges
	}
	b, program, err := n.Build(mode)
	if err != nil {
		return nil, err
	}
	if b.In[at].Format == fp16.Float64 {
		b.In[at] = tensor.Of(fp16.Float64, x.Positions, len(z), 3)
	}
	energy := b.Graph.Outputs[0]
	if t := program.Type(energy); tensor.Size(t.Shape) != 1 { // one for each atom
		energy = b.Graph.Add(graph.Reduction{Of: "sum"}, "energy", energy)
		b.Graph.Outputs[0] = energy
	}
	own := len(b.Graph.Nodes)
	g, err := molecule.WithForces(b.Graph, mode, energy, b.Graph.Inputs[at], b.Types...)
	if err != nil {
		return nil, err
	}
	return &molecule.Problem{Graph: g, Mode: mode, Inputs: b.In, Energies: 0, Forces: len(g.Outputs) - 1, Own: own}, nil
}

// inputOf returns the place of an input.
func (n *onnxNetwork) inputOf(name string) int {
	for k, in := range n.Inputs {
		if in.Name == name {
			return k
		}
	}
	return 0
}
