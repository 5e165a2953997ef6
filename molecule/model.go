package molecule

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Model is a network for molecules with its weights. It is safe for concurrent use.
type Model struct {
	Config Config
	Sizes  Sizes

	weights map[string]*tensor.Tensor
	kept    graph.Kept
}

// New returns the network of a configuration with the weights of a PyTorch state dict, whose names
// are in the package's doc. A weight that is missing, of another shape, or that the network does not
// have is an error, and so are sizes that are given and differ.
func New(c Config, given Sizes, f *safetensors.File) (*Model, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m := &Model{Config: c, weights: map[string]*tensor.Tensor{}}
	shapes := map[string][]int{}
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		shapes[name] = t.Shape
	}
	want, err := m.layout(shapes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	for _, name := range f.Names() {
		if _, ok := want[name]; !ok && !m.ignored(name) {
			return nil, fmt.Errorf("%s: %.80q: not a weight of %s: want names such as %s",
				f.Path, name, c.Kind, layouts[c.Kind].example)
		}
	}
	for name, shape := range want {
		have, ok := shapes[name]
		if !ok {
			return nil, fmt.Errorf("%s: %s: missing: want it of shape %v", f.Path, name, shape)
		}
		if !slices.Equal(have, shape) {
			return nil, fmt.Errorf("%s: %s: shape %v: want %v", f.Path, name, have, shape)
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		data, err := t.Float64s()
		if err != nil {
			return nil, err
		}
		format, _ := t.DType.Format()
		if format == fp16.Float64 { // for all modes: PyTorch's float32 module has them rounded
			format = fp16.Float32
			for i, v := range data {
				if !format.Holds(v) {
					return nil, fmt.Errorf("%s: %s: number %d, %v, is not of float32: want weights of float32", f.Path, name, i, v)
				}
			}
		}
		m.weights[name] = tensor.Of(format, data, t.Shape...)
	}
	if err := m.Sizes.agree(given); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if c.Kind == PaiNN {
		m.parts()
	}
	return m, nil
}

// layout is the names of an architecture.
type layout struct {
	embedding, layer, radial string // whose sizes are those of the network; %d is the layer
	radialAxis               int
	example                  string
}

var layouts = map[Kind]layout{
	PaiNN: {"embedding.weight", "filters.%d.weight", "filters.0.weight", 1,
		"embedding.weight, filters.0.weight, message.0.0.weight, mix.0.weight, update.0.0.weight, readout.0.weight"},
	PaiNNFilter: {"embedding.weight", "interactions.%d.message.rbf_to_scalar.0.weight",
		"rbf.centers", 0, "embedding.weight, rbf.centers, interactions.0.message.rbf_to_scalar.0.weight, " +
			"interactions.0.update.mixing_matrix, energy_head.0.weight"},
	SchNet: {
		"embedding.weight", "interactions.%d.mlp.0.weight", "distance_expansion.offset", 0, "embedding.weight, " +
			"distance_expansion.offset, interactions.0.mlp.0.weight, interactions.0.conv.lin1.weight, lin1.weight",
	},
}

// layout finds the sizes and returns the shapes of all weights.
func (m *Model) layout(shapes map[string][]int) (map[string][]int, error) {
	l := layouts[m.Config.Kind]
	e, r := shapes[l.embedding], shapes[l.radial]
	if len(e) != 2 || e[0] < 1 || e[1] < 1 {
		return nil, fmt.Errorf("%s: shape %v: want [elements,hidden]", l.embedding, e)
	}
	if len(r) <= l.radialAxis || r[l.radialAxis] < 1 {
		return nil, fmt.Errorf("%s: shape %v: want radial functions along axis %d", l.radial, r, l.radialAxis)
	}
	s := Sizes{Elements: e[0], Hidden: e[1], Radial: r[l.radialAxis]}
	for len(shapes[fmt.Sprintf(l.layer, s.Layers)]) > 0 {
		s.Layers++
	}
	if s.Layers == 0 {
		return nil, fmt.Errorf(l.layer+": missing: want one layer or more", 0)
	}
	m.Sizes = s
	switch m.Config.Kind {
	case PaiNN:
		return s.painn(), nil
	case PaiNNFilter:
		return s.painnFilter(shapes)
	}
	return s.schnet(shapes)
}

// ignored reports whether a name of a state dict is a second one of another weight.
func (m *Model) ignored(name string) bool { return m.Config.Kind == SchNet && schnetTwice(name) }

// linear adds the shapes of a linear layer.
func linear(of map[string][]int, name string, out, in int) {
	of[name+".weight"], of[name+".bias"] = []int{out, in}, []int{out}
}

// Inclusive reports whether atoms exactly at the cutoff are neighbours.
func (m *Model) Inclusive() bool { return m.Config.Kind != PaiNN }

// Graph returns the network for so many atoms, pairs and molecules, with the inputs
// atomic_numbers [N], positions [N,3], pairs [2,P] (first who receives, then who sends) and molecule
// [N], to which each atom belongs. Its outputs are energies [M] and atom_energies [N]. Constants such
// as pi/cutoff are rounded to the widest format of the mode.
func (m *Model) Graph(mode graph.Mode, atoms, pairs, molecules int) *graph.Graph {
	return m.build(mode, atoms, pairs, molecules, "")
}

func (m *Model) build(mode graph.Mode, atoms, pairs, molecules int, fault string) *graph.Graph {
	b := &builder{Graph: graph.New(&m.kept), m: m, wide: mode.Wide(), half: mode.Autocast != graph.NoAutocast,
		atoms: atoms, pairs: pairs, fault: fault}
	b.z, b.positions = b.Input("atomic_numbers"), b.Input("positions")
	both, of := b.Input("pairs"), b.Input("molecule")
	b.i = b.Add(graph.Select{Index: 0}, "pairs.i", both)
	b.j = b.Add(graph.Select{Index: 1}, "pairs.j", both)
	b.distances()
	var e int
	switch m.Config.Kind {
	case PaiNN:
		e = b.painn()
	case PaiNNFilter:
		e = b.painnFilter()
	default:
		e = b.schnet()
	}
	e = b.Add(graph.Squeeze{Axes: graph.Ints{1}}, "atom_energies", e)
	none := b.Constant("energies.zero", tensor.New(b.wide, molecules))
	b.Outputs = []int{b.Add(graph.IndexAdd{}, "energies", none, of, b.widened("energies.cast", e)), e}
	return b.Graph
}

// Positions is the input of the positions in the graphs of a model.
const positionsInput = 1

// types returns the types of the inputs.
func types(mode graph.Mode, atoms, pairs int) []graph.Type {
	return []graph.Type{{Shape: []int{atoms}, Format: fp16.Int64}, {Shape: []int{atoms, 3}, Format: mode.Wide()},
		{Shape: []int{2, pairs}, Format: fp16.Int64}, {Shape: []int{atoms}, Format: fp16.Int64}}
}
