package network

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Network is a network of a file.
type Network struct {
	Graph      *graph.Graph
	Inputs     []Input
	Outputs    []string // the names of the graph's outputs
	ProducedBy string   // the program that wrote the file; "" if it does not say
}

// Input is an input of a network.
type Input struct {
	Name  string
	Dtype string     // as the file spells it, such as float32 or int32
	Type  graph.Type // its shape and the format in which a graph holds its numbers
}

// Types returns the types of the inputs in the file's order, for [graph.Graph.Infer].
func (n *Network) Types() []graph.Type {
	var of []graph.Type
	for _, in := range n.Inputs {
		of = append(of, in.Type)
	}
	return of
}

// mostText bounds the JSON file: a network of a million nodes has about 200 MB.
const mostText = 1 << 28

// Open reads the network at a path, and its weights beside it.
func Open(path string) (*Network, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > mostText {
		return nil, &fault.Error{Path: path, Field: "size", Value: fault.Count(size, "byte"), Want: "at most 2^28 bytes"}
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return Parse(path, text, func(name string) (*safetensors.File, error) {
		return safetensors.Open(filepath.Join(filepath.Dir(path), name))
	})
}

// Parse reads a network from its text. path is what messages call it; open returns the file
// of weights of that name, which has no slash, and is called if a node reads one: a network
// without weights needs none.
func Parse(path string, text []byte, open func(name string) (*safetensors.File, error)) (*Network, error) {
	o, err := strict.Parse(path, "", text)
	if err != nil {
		return nil, err
	}
	o.Need("inputs", "nodes", "outputs")
	o.Int("version", 1, 1, 1)
	r := &reader{path: path, values: map[string]int{}, open: open, left: len(text),
		n: &Network{Graph: graph.New(new(graph.Kept)), ProducedBy: o.String("produced_by", "")}}
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	r.file = o.String("weights", base+".safetensors")
	if r.file == "" || strings.ContainsAny(r.file, "/\\") || r.file == ".." || r.file == "." {
		o.Fail("weights", "%.60q: want the name of a file in the same folder", r.file)
	}
	inputs, nodes, outputs := o.Children("inputs"), o.Children("nodes"), o.Strings("outputs")
	if err := o.Close(); err != nil {
		return nil, err
	}
	for _, in := range inputs {
		if err := r.input(in); err != nil {
			return nil, err
		}
	}
	for _, node := range nodes {
		if err := r.node(node); err != nil {
			return nil, err
		}
	}
	if len(outputs) == 0 {
		return nil, o.Errorf("outputs", "none: want one or more")
	}
	for _, name := range outputs {
		v, ok := r.values[name]
		if !ok {
			return nil, o.Errorf("outputs", "%.60q: want an input or what a node makes", name)
		}
		r.n.Graph.Outputs, r.n.Outputs = append(r.n.Graph.Outputs, v), append(r.n.Outputs, name)
	}
	if _, err := r.n.Graph.Infer(graph.Mode{Precision: fp16.Float32}, r.n.Types()...); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r.n, nil
}

// reader makes a network of its text.
type reader struct {
	n       *Network
	path    string
	values  map[string]int // by name
	file    string         // of the weights
	open    func(name string) (*safetensors.File, error)
	weights *safetensors.File
	left    int // values that nodes may still make
}

// input reads one of the inputs.
func (r *reader) input(o *strict.Object) error {
	o.Need("name", "shape")
	in := Input{Name: o.String("name", ""), Dtype: o.String("dtype", "float32"), Type: graph.Type{Shape: o.Ints("shape")}}
	if err := o.Close(); err != nil {
		return err
	}
	f, err := formatOf(in.Dtype)
	if err != nil {
		return o.Errorf("dtype", "%w", err)
	}
	in.Type.Format = f
	if err := bounded(in.Type.Shape); err != nil {
		return o.Errorf("shape", "%w", err)
	}
	if err := r.fresh(in.Name); err != nil {
		return o.Errorf("name", "%w", err)
	}
	r.values[in.Name] = r.n.Graph.Input(in.Name)
	r.n.Inputs = append(r.n.Inputs, in)
	return nil
}

// formatOf returns the format in which a graph holds numbers of a type: float64, float32,
// float16, bfloat16, or one of whole numbers, such as int64 or bool.
func formatOf(dtype string) (fp16.Format, error) {
	f, err := fp16.ParseFormat(dtype)
	if err == nil && f != fp16.TF32 && f != fp16.Int64 {
		return f, nil
	}
	if _, err := pointwise.ParseInteger(dtype); err != nil {
		return 0, fmt.Errorf("%w, float64, float32, float16 or bfloat16", err)
	}
	return fp16.Int64, nil
}

func bounded(shape []int) error {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > 1<<40/d || len(shape) > 16 {
			return fmt.Errorf("%.200s: want at most 16 sizes from 0 on, and at most 2^40 numbers", fmt.Sprint(shape))
		}
		n *= max(d, 1)
	}
	return nil
}

// fresh returns an error for a name that something has.
func (r *reader) fresh(name string) error {
	if name == "" {
		return fmt.Errorf("empty: want a name")
	}
	if _, twice := r.values[name]; twice {
		return fmt.Errorf("%.60q: given twice: want a name of its own for each input and node", name)
	}
	return nil
}

// node reads one of the nodes.
func (r *reader) node(o *strict.Object) error {
	o.Need("op", "name", "in")
	name, op := o.String("name", ""), o.String("op", "")
	in, also := o.Strings("in"), o.Strings("also")
	attributes, outputs := o.Raw("attributes"), int(o.Int("outputs", 1, 1, 1<<16))
	if err := o.Close(); err != nil {
		return err
	}
	if err := r.fresh(name); err != nil {
		return o.Errorf("name", "%w", err)
	}
	if r.left -= outputs; r.left < 0 {
		return o.Errorf("outputs", "%d: want fewer values than the file has bytes, in all", outputs)
	}
	bound, err := graph.Bind(op, attributes)
	if err != nil {
		return o.Errorf("op", "%s: %w", strict.Word(name), err)
	}
	var of []int
	for _, from := range in {
		v, err := r.value(from)
		if err != nil {
			return o.Errorf("in", "%s: %w", strict.Word(name), err)
		}
		of = append(of, v)
	}
	out := r.n.Graph.AddNode(bound, name, outputs, of...)
	for _, v := range out {
		r.values[r.n.Graph.Values[v].Name] = v
	}
	for _, a := range also {
		r.n.Graph.Pass(a, out[0])
	}
	return nil
}

// value returns the value of a name: an input, what a node has made, or a tensor of the
// weights, which is read the first time that a node names it.
func (r *reader) value(name string) (int, error) {
	if v, ok := r.values[name]; ok {
		return v, nil
	}
	if r.weights == nil {
		f, err := r.open(r.file)
		if err != nil {
			return 0, fmt.Errorf("%.60q: neither an input nor an earlier node, and of weights: %w", name, err)
		}
		r.weights = f
	}
	t, err := r.weights.Tensor(name)
	if err != nil {
		return 0, fmt.Errorf("%.60q: neither an input nor an earlier node, and of weights: %w", name, err)
	}
	c, err := TensorOf(t)
	if err != nil {
		return 0, fmt.Errorf("%s: %.60q: %w", r.file, name, err)
	}
	r.values[name] = r.n.Graph.Constant(name, c)
	return r.values[name], nil
}

// TensorOf returns a tensor of a file as one of a graph, which holds whole numbers within 2^53
// and truths as 1 and 0. Complex numbers and those of 8 bits that are not whole are errors.
func TensorOf(t *safetensors.Tensor) (*tensor.Tensor, error) {
	if f, ok := t.DType.Format(); ok {
		data, err := t.Float64s()
		return &tensor.Tensor{Shape: t.Shape, Format: f, Data: data}, err
	}
	whole, err := t.Int64s()
	if err != nil {
		return nil, err
	}
	data := make([]float64, len(whole))
	for i, v := range whole {
		if v > 1<<53 || v < -1<<53 {
			return nil, fmt.Errorf("number %d is %d: want whole numbers within 2^53", i, v)
		}
		data[i] = float64(v)
	}
	return &tensor.Tensor{Shape: t.Shape, Format: fp16.Int64, Data: data}, nil
}
