package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// servedEnergy is a served network whose first output is the energy of one arrangement of atoms, with its inputs.
type servedEnergy struct {
	*servedNetwork
	message   *safetensors.File
	positions int // the input
}

// Problem implements molecule.Network. The molecule is that of the inputs.
func (e *servedEnergy) Problem(mode graph.Mode, all ...*molecule.Molecule) (*molecule.Problem, error) {
	if len(all) != 1 {
		return nil, molecule.ErrOneAtATime
	}
	types := typesIn(e.net, mode)
	in, err := e.given(e.message, types)
	if err != nil {
		return nil, err
	}
	g := e.net.Graph
	own := len(g.Nodes)
	if g, err = molecule.WithForces(g, mode, g.Outputs[0], g.Inputs[e.positions], types...); err != nil {
		return nil, err
	}
	return &molecule.Problem{Graph: g, Mode: mode, Inputs: in, Energies: 0, Forces: len(g.Outputs) - 1, Own: own}, nil
}

// checkForces holds "energy" and "forces" of a device, either of which may be absent, to the network's.
func (s *session) checkForces(m *safetensors.File) (map[string]string, error) {
	if s.net == nil {
		return nil, errors.New("do: check: of a network that was opened: want its graph")
	}
	claim, err := graph.ParseMode(m.Metadata["claim"], m.Metadata["autocast"])
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	at, err := s.net.inputNamed(m.Metadata["positions"])
	if err != nil {
		return nil, fmt.Errorf("positions: %w", err)
	}
	of := new(molecule.Molecule)
	shape := s.net.net.Inputs[at].Type.Shape
	if of.Forces, err = returned(m, "forces", tensor.Size(shape)); err != nil {
		return nil, err
	}
	energy, err := returned(m, "energy", 1)
	if err != nil {
		return nil, err
	}
	if energy != nil {
		of.Energy = &energy[0]
	}
	of.Numbers = make([]int, tensor.Size(shape)/3)
	r, err := molecule.Check(&servedEnergy{s.net, m, at}, claim, []*molecule.Molecule{of})
	if err != nil {
		return nil, err
	}
	report, err := json.Marshal(r)
	return map[string]string{"report": string(report)}, err
}

// returned reads what a device returned, nil if the message has it not.
func returned(m *safetensors.File, name string, size int) ([]float64, error) {
	if !slices.Contains(m.Names(), name) {
		return nil, nil
	}
	t, err := m.Tensor(name)
	if err != nil {
		return nil, err
	}
	if t.Len() != size {
		return nil, fmt.Errorf("%s: shape %v: want %d numbers", name, t.Shape, size)
	}
	return t.Float64s()
}
