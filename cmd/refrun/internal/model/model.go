package model

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/onnx"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// Flags are the flags of verbs that take a network: an ONNX file, or one of package
// network.
type Flags struct {
	Onnx, Graph string
	Inputs      cli.List
}

// Given reports whether a network is.
func (m *Flags) Given() bool { return m.Onnx != "" || m.Graph != "" }

// Path returns the file.
func (m *Flags) Path() string { return cmp.Or(m.Onnx, m.Graph) }

func Declare(c *cli.Command) *Flags {
	m := new(Flags)
	c.Flags.StringVar(&m.Onnx, "onnx", "", "ONNX `file`: evaluate this network once")
	c.Flags.StringVar(&m.Graph, "graph", "",
		"`file` of a network as docs/FORMATS.md describes it, NAME.json with its weights beside it: evaluate it once")
	c.Flags.Var(&m.Inputs, "input", "`NAME=FILE` of an input of the network, .npy, .npz or .safetensors (the latter "+
		"two with :TENSOR if they hold several), or a FILE of all inputs by their names; may be repeated")
	return m
}

// Alone returns an error if flags are given that say nothing of a network.
func (m *Flags) Alone(flags *flag.FlagSet, names ...string) (err error) {
	names = append(names, "onnx", "graph", "input", "json", "quiet", "isa", "threads", "memory")
	flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(names, f.Name) {
			err = fmt.Errorf("--%s: says nothing of a network: want it without --onnx and --graph", f.Name)
		}
	})
	return err
}

// Network is a network of a file, with the inputs that were given.
type Network struct {
	Path     string
	Producer string
	Opset    int // of ONNX; 0 of another file
	Inputs   []onnx.Input
	Outputs  []string
	Given    map[string]*tensor.Tensor
	graph    func(map[string]onnx.Given) (*graph.Graph, []string, error)
	Close    func() error
	Onnx     *onnx.Model // nil of another file
}

// Read opens the file and reads the inputs.
func (m *Flags) Read() (*Network, error) {
	open, kind := openONNX, "an ONNX file"
	if m.Graph != "" {
		open, kind = openNetwork, "a network of docs/FORMATS.md"
	}
	if m.Onnx != "" && m.Graph != "" {
		return nil, errors.New("--graph: want it, or --onnx, one of them")
	}
	r, err := open(m.Path())
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want %s", m.Path(), c, kind)
		}
		return nil, err
	}
	for _, arg := range m.Inputs {
		if err := r.input(arg); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

func openONNX(path string) (*Network, error) {
	of, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	return &Network{
		path, of.Producer, of.Opset, of.Inputs, of.Outputs, map[string]*tensor.Tensor{}, of.Graph, of.Close, of,
	}, nil
}

func openNetwork(path string) (*Network, error) {
	of, err := network.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Network{Path: path, Producer: of.ProducedBy, Outputs: of.Outputs, Given: map[string]*tensor.Tensor{},
		Close: func() error { return nil }}
	for _, in := range of.Inputs {
		x := onnx.Input{Name: in.Name, Rank: true, Type: typeNamed(in.Dtype)}
		for _, d := range in.Type.Shape {
			x.Shape = append(x.Shape, onnx.Dim{Size: d})
		}
		r.Inputs = append(r.Inputs, x)
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

// Wanted lists the inputs.
func (m *Network) Wanted() string {
	var all []string
	for _, in := range m.Inputs {
		all = append(all, InputText(in))
	}
	return strings.Join(all, ", ")
}

// InputText is an input's name, type and sizes.
func InputText(in onnx.Input) string {
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

// built is a network for its inputs.
type built struct {
	Graph *graph.Graph
	Fixed []string
	mode  graph.Mode
	Types []graph.Type
	In    []*tensor.Tensor // nil where only the shape is known
}

// Build makes the graph of the network for the given inputs and infers its types.
func (m *Network) Build(mode graph.Mode) (*built, *graph.Program, error) {
	given := map[string]onnx.Given{}
	for name, x := range m.Given {
		given[name] = onnx.Given{Value: x}
	}
	g, fixed, err := m.graph(given)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	b := &built{Graph: g, Fixed: fixed, mode: mode}
	for _, in := range m.Inputs {
		f, _ := in.Type.Format()
		x := m.Given[in.Name]
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
		b.Types, b.In = append(b.Types, t), append(b.In, x)
	}
	p, err := g.Infer(mode, b.Types...)
	if err == nil {
		err = memory.Fits(p.Given())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return b, p, nil
}

// Complete makes the graph, of which all inputs must be given.
func (m *Network) Complete(mode graph.Mode) (*built, *graph.Program, error) {
	for _, in := range m.Inputs {
		if m.Given[in.Name] == nil {
			return nil, nil, fmt.Errorf("--input: %s: missing: want %s", in.Name, InputText(in))
		}
	}
	return m.Build(mode)
}

// Open reports whether an input has sizes that the file leaves open.
func (m *Network) Open() bool {
	return slices.ContainsFunc(m.Inputs, func(in onnx.Input) bool {
		return !in.Rank || slices.ContainsFunc(in.Shape, func(d onnx.Dim) bool { return d.Size < 0 })
	})
}

// Fill sets the inputs that are not given to a number.
func (b *built) Fill(v float64) {
	for i, t := range b.Types {
		if b.In[i] == nil {
			b.In[i] = tensor.New(t.Format, t.Shape...)
			for k := range b.In[i].Data {
				b.In[i].Data[k] = v
			}
		}
	}
}

// Run evaluates the network: by a plan where the mode has one, which has the same bits.
func (b *built) Run(p *graph.Program) ([]*tensor.Tensor, error) {
	if b.mode.Precision == fp16.Float64 {
		return p.Run(new(graph.Run), b.In...)
	}
	fast, err := graphplan.New(b.Graph, b.mode, b.Types...)
	if err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	for _, v := range b.Graph.Outputs {
		t := p.Type(v)
		out = append(out, tensor.New(t.Format, t.Shape...))
	}
	return out, fast.Run(nil, noise.Time{}, out, b.In)
}
