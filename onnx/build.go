package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/tensor"
)

// Given is what is known of an input when a graph is made: its shape, or its value. Where
// the sizes of tensors depend on numbers of an input, only a value will do.
type Given struct {
	Shape []int // nil for the model's own, or the value's
	Value *tensor.Tensor
}

// Graph returns the model as a graph, for inputs of the given shapes; those whose shape the
// model states need not be given. Fixed names the inputs whose given values have decided
// what is in the graph, such as the shape to which something is brought: it is for those
// values alone.
//
// What can be computed from constants is computed, if it is whole numbers, such as shapes,
// or only moves numbers. Functions and the branches of conditions that are known are part of
// the graph. Everything that is not supported is listed by one error.
func (m *Model) Graph(given map[string]Given) (g *graph.Graph, fixed []string, err error) {
	b := &builder{m: m, g: graph.New(new(graph.Kept)), feeds: map[int]*feed{}, outputs: map[int]bool{},
		memory: leastMemory + 16*m.size}
	m.NoKernel = nil
	s := &scope{names: map[string]int{}, opsets: m.main.opsets}
	sizes := map[string]size{}
	for _, in := range m.Inputs {
		v, err := b.input(in, given, sizes)
		if err != nil {
			return nil, nil, fmt.Errorf("input %.60q: %w", in.Name, err)
		}
		s.names[in.Name] = v
	}
	for name := range given {
		if !slices.ContainsFunc(m.Inputs, func(in Input) bool { return in.Name == name }) {
			return nil, nil, fmt.Errorf("input %.60q: not one of the model's: want %s", name, m.inputNames())
		}
	}
	b.body(m.main, s)
	for _, name := range m.Outputs {
		v, ok := s.names[name]
		if !ok {
			b.refuse(fmt.Sprintf("output %.60q", name), "made by no node")
			continue
		}
		switch {
		case v >= 0:
			v = b.output(v, name)
		case isSequence(v):
			b.refuse(fmt.Sprintf("output %.60q", name), "a sequence: not supported")
		}
		b.g.Outputs = append(b.g.Outputs, v)
	}
	if err := b.fault(); err != nil {
		return nil, nil, err
	}
	b.prune()
	if err := b.precise(); err != nil {
		return nil, nil, err
	}
	for _, in := range m.Inputs {
		if f := b.feeds[s.names[in.Name]]; f != nil && f.used {
			fixed = append(fixed, in.Name)
		}
	}
	return b.g, fixed, nil
}

func (m *Model) inputNames() string {
	var names []string
	for _, in := range m.Inputs {
		if len(names) == 5 {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%.40q", in.Name))
	}
	return strings.Join(names, ", ")
}

// builder makes a graph of a model.
type builder struct {
	m       *Model
	g       *graph.Graph
	types   []graph.Type  // of the values
	dtypes  []DType       // of the values
	makers  []int         // the nodes that make them, -1 for none
	feeds   map[int]*feed // values of inputs that are known
	faults  []Fault
	memory  int64 // that may still be taken, in bytes
	outputs map[int]bool
	depth   int // of functions and branches

	sequences [][]int // of values
}

// feed is the known value of an input.
type feed struct {
	value *tensor.Tensor
	used  bool
}

// scope is what names mean in a graph, a branch or a function.
type scope struct {
	names      map[string]int // values, or poison
	outer      *scope         // of a branch
	opsets     map[string]int
	attributes map[string]*attribute // of the call of a function
	place      string                // of the node around it, before the names of nodes and values
}

// Values that are none.
const (
	absent = -1 // an optional input that is not given
	poison = -2 // what a node would make that has a fault
)

func (s *scope) value(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	return poison, false
}

// size is what an open size of an input was found to be.
type size struct {
	of   int
	from string
}

// mode is that in which types are inferred while a graph is made. No shape depends on it.
var mode = graph.Mode{Precision: fp16.Float32}

// input adds an input of the model.
func (b *builder) input(in Input, given map[string]Given, sizes map[string]size) (int, error) {
	format, ok := in.Type.Format()
	if !ok {
		return 0, fmt.Errorf("%v: want a tensor of numbers that a graph holds", in.Type)
	}
	of, is := given[in.Name]
	shape := of.Shape
	if of.Value != nil {
		if f := of.Value.Fault(-1); f != "" || of.Value.Format != format {
			return 0, fmt.Errorf("value of %v numbers: want %v ones, a tensor", of.Value.Format, format)
		}
		if shape == nil {
			shape = of.Value.Shape
		}
		if !slices.Equal(shape, of.Value.Shape) {
			return 0, fmt.Errorf("shape %v: want that of the value, %v", shape, of.Value.Shape)
		}
	}
	if shape == nil && !(is && of.Value != nil) {
		shape = []int{}
		for a, d := range in.Shape {
			if s, ok := sizes[d.Name]; ok && d.Size < 0 && d.Name != "" {
				d.Size = s.of
			}
			if d.Size < 0 {
				return 0, fmt.Errorf("shape: size %d is open (%.40q): want it to be given", a, d.Name)
			}
			shape = append(shape, d.Size)
		}
		if !in.Rank {
			return 0, fmt.Errorf("shape: not stated: want it to be given")
		}
	}
	if in.Rank {
		if len(shape) != len(in.Shape) {
			return 0, fmt.Errorf("shape %v: want %d axes", shape, len(in.Shape))
		}
		for a, d := range in.Shape {
			if d.Size >= 0 && shape[a] != d.Size {
				return 0, fmt.Errorf("shape %v: want %d at axis %d", shape, d.Size, a)
			}
			if d.Size >= 0 || d.Name == "" {
				continue
			}
			if s, ok := sizes[d.Name]; ok && s.of != shape[a] {
				return 0, fmt.Errorf("shape %v: want %d at axis %d, as %.40q is in input %.60q", shape, s.of, a, d.Name, s.from)
			}
			sizes[d.Name] = size{shape[a], in.Name}
		}
	}
	if err := bounded(shape); err != nil {
		return 0, err
	}
	v := b.g.Input(in.Name)
	b.typed(v, graph.Type{Shape: slices.Clone(shape), Format: format}, in.Type)
	if of.Value != nil {
		b.feeds[v] = &feed{value: of.Value}
	}
	return v, nil
}

func bounded(shape []int) error {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > 1<<40/d || len(shape) > mostRank {
			return fmt.Errorf("shape %.200s: want at most %d sizes from 0 on, and at most 2^40 numbers",
				fmt.Sprint(shape), mostRank)
		}
		n *= d
	}
	return nil
}

// typed notes the type of a value, which is the last one.
func (b *builder) typed(v int, t graph.Type, d DType) {
	for len(b.types) <= v {
		b.types, b.dtypes, b.makers = append(b.types, graph.Type{}), append(b.dtypes, 0), append(b.makers, -1)
	}
	b.types[v], b.dtypes[v] = t, d
}

// constant adds a constant.
func (b *builder) constant(name string, t *tensor.Tensor, d DType) int {
	v := b.g.Constant(name, t)
	b.typed(v, graph.Type{Shape: t.Shape, Format: t.Format}, d)
	return v
}

// loadedTensor is a tensor of the file once it has been read.
type loadedTensor struct {
	*tensor.Tensor
	err error
}

// initializer adds a constant of the file.
func (b *builder) initializer(t *tensorProto) (int, error) {
	l := b.m.loaded[t]
	if l == nil {
		l = &loadedTensor{}
		l.Tensor, l.err = b.m.load(t)
		b.m.loaded[t] = l
	}
	if l.err != nil {
		return poison, l.err
	}
	if t.outside { // it is not part of the file's size
		b.memory += 8 * int64(len(l.Data))
	}
	return b.constant(t.name, l.Tensor, t.dtype), nil
}

// output returns a value of a node's own for an output of that name: constants, inputs and
// what is an output already are handed on by a node.
func (b *builder) output(v int, name string) int {
	if b.makers[v] < 0 || b.outputs[v] {
		t, d := b.types[v], b.dtypes[v]
		v = b.g.Add(graph.Reshape{Shape: graph.Ints(slices.Clone(t.Shape)), AllowZero: true}, name, v)
		b.typed(v, t, d)
		b.makers[v] = len(b.g.Nodes) - 1
		return v
	}
	b.outputs[v] = true
	if x := &b.g.Values[v]; x.Name != name {
		x.Also = append(x.Also, name)
	}
	return v
}

// body adds the nodes of a graph, a branch or a function.
func (b *builder) body(g *graphProto, s *scope) {
	if g.sparse > 0 {
		b.refuse(s.place+"sparse constants", "not supported")
	}
	used := map[string]bool{}
	for _, n := range g.nodes {
		for _, name := range n.in {
			used[name] = true
		}
		for _, a := range n.attributes {
			b.uses(a.graph, used)
		}
	}
	for _, v := range g.outputs {
		used[v.name] = true
	}
	for _, t := range g.constants {
		if _, twice := s.names[t.name]; twice || !used[t.name] {
			continue
		}
		v, err := b.initializer(t)
		if err != nil {
			b.refuse(fmt.Sprintf("%sconstant %.60q", s.place, t.name), "%v", err)
		}
		s.names[t.name] = v
	}
	for _, n := range g.nodes {
		if !b.spend(nodeBytes + 2*len(s.place)) {
			b.refuse(s.place+"functions", "what comes of them %v", errMemory)
			return
		}
		b.node(n, s)
	}
}

// mostTurns is how many parts a tensor may be cut into, one for each step of a network or tensor of a sequence: the
// outputs that a node of a graph may have.
const mostTurns = 1 << 16

// nodeBytes is about what a node takes.
const nodeBytes = 1 << 10

// stepBytes is about what a node of the graph takes, of which a node of a file can be many thousands.
const stepBytes = 1 << 8

// uses marks the names that a branch takes from around it.
func (b *builder) uses(g *graphProto, used map[string]bool) {
	if g == nil {
		return
	}
	for _, n := range g.nodes {
		for _, name := range n.in {
			used[name] = true
		}
		for _, a := range n.attributes {
			b.uses(a.graph, used)
		}
	}
	for _, v := range g.outputs {
		used[v.name] = true
	}
}

// node adds a node.
func (b *builder) node(n *nodeProto, s *scope) {
	c := &call{builder: b, node: n, scope: s, first: len(b.g.Values), opset: s.opsets[n.domain]}
	values := c.values()
	for k, name := range n.out {
		if name == "" {
			continue
		}
		v := poison
		switch {
		case c.err != nil || k >= len(values):
		case values[k] >= 0:
			v = c.named(values[k], name)
		case isSequence(values[k]):
			v = values[k]
		}
		if c.err == nil && k >= len(values) && !c.poisoned {
			c.fail("output %d, %.60q: not supported", k, name)
		}
		if c.err == nil && v == poison && !c.poisoned {
			c.fail("output %d, %.60q: an input that is not given", k, name)
		}
		if _, twice := s.names[name]; twice {
			c.fail("output %.60q: made twice", name)
		}
		s.names[name] = v
	}
	if c.err != nil {
		b.faults = append(b.faults,
			Fault{fault.Printable(c.opName()), fault.Printable(c.where()), fault.Printable(c.err.Error())})
	}
}
