package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// modelFlags are the flags of verbs that take a network: an ONNX file, or one of package
// network.
type modelFlags struct {
	onnx, graph string
	inputs      list
}

// given reports whether a network is.
func (m *modelFlags) given() bool { return m.onnx != "" || m.graph != "" }

// path returns the file.
func (m *modelFlags) path() string { return cmp.Or(m.onnx, m.graph) }

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (c *command) modelFlags() *modelFlags {
	m := new(modelFlags)
	c.flags.StringVar(&m.onnx, "onnx", "", "ONNX `file`: evaluate this network once")
	c.flags.StringVar(&m.graph, "graph", "",
		"`file` of a network as docs/FORMATS.md describes it, NAME.json with its weights beside it: evaluate it once")
	c.flags.Var(&m.inputs, "input", "`NAME=FILE` of an input of the network, .npy, .npz or .safetensors (the latter "+
		"two with :TENSOR if they hold several), or a FILE of all inputs by their names; may be repeated")
	return m
}

// alone returns an error if flags are given that say nothing of a network.
func (m *modelFlags) alone(flags *flag.FlagSet, names ...string) (err error) {
	names = append(names, "onnx", "graph", "input", "json", "quiet", "isa", "threads", "memory")
	flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(names, f.Name) {
			err = fmt.Errorf("--%s: says nothing of a network: want it without --onnx and --graph", f.Name)
		}
	})
	return err
}

// model is a network of a file, with the inputs that were given.
type model struct {
	path     string
	producer string
	opset    int // of ONNX; 0 of another file
	inputs   []onnx.Input
	outputs  []string
	given    map[string]*tensor.Tensor
	graph    func(map[string]onnx.Given) (*graph.Graph, []string, error)
	close    func() error
	onnx     *onnx.Model // nil of another file
}

// read opens the file and reads the inputs.
func (m *modelFlags) read() (*model, error) {
	open, kind := openONNX, "an ONNX file"
	if m.graph != "" {
		open, kind = openNetwork, "a network of docs/FORMATS.md"
	}
	if m.onnx != "" && m.graph != "" {
		return nil, errors.New("--graph: want it, or --onnx, one of them")
	}
	r, err := open(m.path())
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want %s", m.path(), c, kind)
		}
		return nil, err
	}
	for _, arg := range m.inputs {
		if err := r.input(arg); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func openONNX(path string) (*model, error) {
	of, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	return &model{
		path, of.Producer, of.Opset, of.Inputs, of.Outputs, map[string]*tensor.Tensor{}, of.Graph, of.Close, of,
	}, nil
}

func openNetwork(path string) (*model, error) {
	of, err := network.Open(path)
	if err != nil {
		return nil, err
	}
	r := &model{path: path, producer: of.ProducedBy, outputs: of.Outputs, given: map[string]*tensor.Tensor{},
		close: func() error { return nil }}
	for _, in := range of.Inputs {
		x := onnx.Input{Name: in.Name, Rank: true, Type: typeNamed(in.Dtype)}
		for _, d := range in.Type.Shape {
			x.Shape = append(x.Shape, onnx.Dim{Size: d})
		}
		r.inputs = append(r.inputs, x)
	}
	r.graph = func(given map[string]onnx.Given) (*graph.Graph, []string, error) {
		for _, in := range of.Inputs {
			if x := given[in.Name].Value; x != nil && !slices.Equal(x.Shape, in.Type.Shape) {
				return nil, nil, fmt.Errorf("input %.60q: shape %v: want %v, for which the file is", in.Name,
					x.Shape, in.Type.Shape)
			}
		}
		return of.Graph, nil, nil
	}
	return r, nil
}

// typeNamed returns the type of numbers of that name, which is one.
func typeNamed(name string) (d onnx.DType) {
	for d.String() != name {
		d++
	}
	return d
}

// input reads one --input.
func (m *model) input(arg string) error {
	name, file, one := strings.Cut(arg, "=")
	if !one && strings.HasSuffix(arg, ".npy") { // one array
		if len(m.inputs) != 1 {
			return fmt.Errorf("--input: %s: one array for %d inputs: want NAME=FILE, of %s", arg, len(m.inputs), m.wanted())
		}
		name, file, one = m.inputs[0].Name, arg, true
	}
	if !one {
		found := 0
		for _, in := range m.inputs {
			x, err := readInput(arg, in.Name, in.Type)
			if errors.Is(err, errNoTensor) {
				continue
			}
			if err != nil {
				return err
			}
			m.given[in.Name], found = x, found+1
		}
		if found == 0 {
			return fmt.Errorf("--input: %s: none of the network's inputs: want NAME=FILE, or a file with %s", arg, m.wanted())
		}
		return nil
	}
	i := slices.IndexFunc(m.inputs, func(in onnx.Input) bool { return in.Name == name })
	if i < 0 {
		return fmt.Errorf("--input: %q: not an input of the network: want %s", name, m.wanted())
	}
	x, err := readInput(file, "", m.inputs[i].Type)
	m.given[name] = x
	return err
}

// wanted lists the inputs.
func (m *model) wanted() string {
	var all []string
	for _, in := range m.inputs {
		all = append(all, inputText(in))
	}
	return strings.Join(all, ", ")
}

// inputText is an input's name, type and sizes.
func inputText(in onnx.Input) string {
	if !in.Rank {
		return fmt.Sprintf("%s %v", in.Name, in.Type)
	}
	var sizes []string
	for _, d := range in.Shape {
		switch {
		case d.Size >= 0:
			sizes = append(sizes, fmt.Sprint(d.Size))
		case d.Name != "":
			sizes = append(sizes, d.Name)
		default:
			sizes = append(sizes, "?")
		}
	}
	return fmt.Sprintf("%s %v [%s]", in.Name, in.Type, strings.Join(sizes, ","))
}

var errNoTensor = errors.New("no tensor of that name")

// cutTensor cuts FILE:TENSOR, of which both may have colons.
func cutTensor(arg string) (file, name string) {
	for _, ext := range []string{".npz", ".safetensors"} {
		if i := strings.LastIndex(arg, ext+":"); i > 0 {
			return arg[:i+len(ext)], arg[i+len(ext)+1:]
		}
	}
	return arg, ""
}

// readInput reads a tensor of that type from FILE or FILE:TENSOR; with a name it is that
// tensor of a file of several.
func readInput(arg, name string, d onnx.DType) (*tensor.Tensor, error) {
	file := arg
	if name == "" {
		file, name = cutTensor(arg)
	}
	read := readNpz
	switch {
	case strings.HasSuffix(file, ".npz"):
	case strings.HasSuffix(file, ".safetensors"):
		read = readSafetensors
	case strings.HasSuffix(file, ".npy") && name == "":
		read = readNpy
	default:
		return nil, fmt.Errorf("--input: %s: want a .npy, .npz or .safetensors file", arg)
	}
	data, shape, err := read(file, name)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a file of tensors", file, c)
		}
		return nil, err
	}
	f, ok := d.Format()
	if !ok {
		return nil, fmt.Errorf("%s: the network wants %v numbers, which are not supported", arg, d)
	}
	for i, v := range data {
		if !f.Holds(v) {
			return nil, fmt.Errorf("%s: number %d is %v: want %v numbers", arg, i, v, d)
		}
	}
	return tensor.Of(f, data, shape...), nil
}

func readNpy(file, _ string) ([]float64, []int, error) {
	a, err := npy.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	data, err := a.Float64s()
	return data, a.Shape, err
}

func readNpz(file, name string) ([]float64, []int, error) {
	z, err := npy.OpenArchive(file)
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	name, err = pick(file, name, z.Names())
	if err != nil {
		return nil, nil, err
	}
	a, err := z.Array(name)
	if err != nil {
		return nil, nil, err
	}
	data, err := a.Float64s()
	return data, a.Shape, err
}

func readSafetensors(file, name string) ([]float64, []int, error) {
	f, closer, err := openTensors(file)
	if err != nil {
		return nil, nil, err
	}
	defer closer.Close()
	name, err = pick(file, name, f.Names())
	if err != nil {
		return nil, nil, err
	}
	t, err := f.Tensor(name)
	if err != nil {
		return nil, nil, err
	}
	x, err := network.TensorOf(t)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", file, name, err)
	}
	return x.Data, x.Shape, nil
}

// pick returns the tensor of a name, or the only one there is.
func pick(file, name string, names []string) (string, error) {
	if name != "" && !slices.Contains(names, name) {
		return "", fmt.Errorf("%s: %.60q: %w", file, name, errNoTensor)
	}
	return choose(file, name, names)
}

// built is a network for its inputs.
type built struct {
	graph *graph.Graph
	fixed []string
	mode  graph.Mode
	types []graph.Type
	in    []*tensor.Tensor // nil where only the shape is known
}

// build makes the graph of the network for the given inputs and infers its types.
func (m *model) build(mode graph.Mode) (*built, *graph.Program, error) {
	given := map[string]onnx.Given{}
	for name, x := range m.given {
		given[name] = onnx.Given{Value: x}
	}
	g, fixed, err := m.graph(given)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.path, err)
	}
	b := &built{graph: g, fixed: fixed, mode: mode}
	for _, in := range m.inputs {
		f, _ := in.Type.Format()
		x := m.given[in.Name]
		if mode.Precision == fp16.Float64 && f != fp16.Int64 {
			f = fp16.Float64
			if x != nil {
				x = tensor.Of(f, x.Data, x.Shape...)
			}
		}
		t := graph.Type{Format: f}
		if x != nil {
			t.Shape = x.Shape
		}
		for _, d := range in.Shape {
			if x == nil {
				t.Shape = append(t.Shape, d.Size)
			}
		}
		b.types, b.in = append(b.types, t), append(b.in, x)
	}
	p, err := g.Infer(mode, b.types...)
	if err == nil {
		err = memory.Fits(p.Given())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.path, err)
	}
	return b, p, nil
}

// storedTensor returns a tensor as one of a safetensors file.
func storedTensor(name string, t *tensor.Tensor) (*safetensors.Tensor, error) {
	if t.Format != fp16.Int64 {
		return safetensors.OfFloat64s(name, safetensors.DTypeOf(t.Format), t.Shape, t.Data)
	}
	return safetensors.New(name, "I64", t.Shape, wholeBytes(t))
}
