package operator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/internal/op/conv"
)

// program is a list of operations, each on the outputs of earlier ones.
type program struct {
	steps []programStep
}

type programStep struct {
	module layer     // a layer of Spinlock's
	other  *bound    // or a registered operation
	name   string    // or else a sum, of this name
	in     []operand // what it reads, but for parameters of a layer
}

// operand is what a step reads: an output of an earlier one, the operator's input, or a
// parameter of its own.
type operand struct {
	step, output int // Input for the operator's
	param        *Param
}

// programmer builds a program.
type programmer struct {
	op      *Operator
	p       *program
	at      map[string]operand
	types   [][]graph.Type // of the outputs of each step, for one sample of float32 numbers
	weights float64
	other   bool // there is a registered operation, so the size of images is said

	i    int // the node at work
	node *NodeConfig
}

// shapes are of the images of float32 numbers.
var reference = graph.Mode{Precision: fp16.Float32}

// buildNodes returns the operator of a list of operations with zero parameters.
func buildNodes(c Config) (*Operator, error) {
	op := &Operator{Config: c}
	b := &programmer{op: op, p: &program{}, at: map[string]operand{"input": {step: Input}}}
	for i := range c.Nodes {
		b.i, b.node = i, &c.Nodes[i]
		if err := b.step(); err != nil {
			return nil, err
		}
	}
	last := len(b.types) - 1
	if last < 0 {
		return nil, fmt.Errorf("nodes: none: want one or more")
	}
	out := b.types[last][0]
	if len(b.types[last]) != 1 || len(out.Shape) != 4 || out.Shape[0] != 1 ||
		b.other && (out.Shape[2] != c.GridSize || out.Shape[3] != c.GridSize) {
		return nil, fmt.Errorf("nodes[%d]: output of shape %v: want images of %dx%d, as the input's are, "+
			"from the last node", last, out.Shape, c.GridSize, c.GridSize)
	}
	op.Config.OutputChannels = out.Shape[1]
	op.modules = []module{b.p}
	return op, nil
}

func (b *programmer) fail(field, format string, args ...any) error {
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("nodes[%d].%s"+format, append([]any{b.i, field}, args...)...)
}

// typeOf returns the type of what an operand is.
func (b *programmer) typeOf(o operand) graph.Type {
	switch {
	case o.param != nil:
		return graph.Type{Shape: o.param.Shape, Format: o.param.format()}
	case o.step == Input:
		side := max(b.op.Config.GridSize, 1) // of layers only, which keep it
		return graph.Type{Shape: []int{1, b.op.Config.InputChannels, side, side}, Format: fp16.Float32}
	}
	return b.types[o.step][o.output]
}

// step adds the node at work.
func (b *programmer) step() error {
	n := b.node
	if _, twice := b.at[n.Name]; twice || n.Name == "" {
		return b.fail("name", "%.60q: want a name that no other node has", n.Name)
	}
	s := programStep{name: n.Name}
	own := map[string]operand{}
	if !slices.Contains(spinlock, n.Op) || b.sumOfOthers() {
		var err error
		if own, err = b.bind(&s); err != nil {
			return err
		}
	}
	if err := b.operands(&s, own); err != nil {
		return err
	}
	var out []graph.Type
	var err error
	if s.other != nil {
		out, err = b.infer(&s)
	} else {
		out, err = b.layer(&s)
	}
	if err != nil {
		return err
	}
	for k := range out {
		name := n.Name
		if k > 0 {
			name = fmt.Sprintf("%s:%d", n.Name, k)
		}
		if _, twice := b.at[name]; twice {
			return b.fail("name", "%.60q: want a name that no other output has", name)
		}
		b.at[name] = operand{step: b.i, output: k}
	}
	b.types = append(b.types, out)
	b.p.steps = append(b.p.steps, s)
	return nil
}

// sumOfOthers reports whether an add is not that of two images of one size, but ATen's: of a number in the graph, of a
// parameter, or of other shapes.
func (b *programmer) sumOfOthers() bool {
	n := b.node
	if n.Op != "add" || len(n.Attributes) > 0 || len(n.Params) > 0 {
		return n.Op == "add"
	}
	var shapes [][]int
	for _, name := range n.In {
		o, ok := b.at[name]
		if !ok || o.step >= 0 && o.output >= len(b.types[o.step]) {
			return false
		}
		shapes = append(shapes, b.typeOf(o).Shape)
	}
	return b.op.Config.GridSize > 0 && len(shapes) == 2 && (len(shapes[0]) != 4 || !slices.Equal(shapes[0], shapes[1]))
}

// operands sets what the step at work reads: what In names, or the node before; and its
// own parameters, unless In has named one.
func (b *programmer) operands(s *programStep, own map[string]operand) error {
	n, named := b.node, false
	if n.In == nil {
		s.in = []operand{{step: b.i - 1}} // Input is -1
	}
	for _, name := range n.In {
		o, mine := own[name]
		if !mine {
			var ok bool
			if o, ok = b.at[name]; !ok {
				return b.fail("in", "%.60q: want \"input\" or the name of an earlier node", name)
			}
		}
		named = named || mine
		s.in = append(s.in, o)
	}
	for _, p := range n.Params {
		if !named {
			s.in = append(s.in, own[p.Name])
		}
	}
	if s.other != nil {
		return nil
	}
	inputs := 1
	if n.Op == "add" {
		inputs = 2
	}
	if len(s.in) != inputs {
		return b.fail("in", "%d names: want %d for op %.60q", len(s.in), inputs, n.Op)
	}
	for k, o := range s.in {
		if t := b.typeOf(o); len(t.Shape) != 4 || t.Format == fp16.Int64 {
			return b.fail("in", "%.60q has shape %v of %v: want images [N,C,H,W] of numbers for op %s",
				n.In[k], t.Shape, t.Format, n.Op)
		}
	}
	return nil
}

// count notes so many weights more, or fails if that is too much.
func (b *programmer) count(field string, value any, more float64) error {
	if b.weights += more; b.weights > mostWeights {
		return b.fail(field, "%v: want fewer: the operator would have %.3g weights, and %.3g are the most", value,
			b.weights, float64(mostWeights))
	}
	if err := fitting(b.weights); err != nil {
		return b.fail(field, "%v: %w", value, err)
	}
	return nil
}

// layer makes a layer of Spinlock's, or a sum, and returns the type of its output.
func (b *programmer) layer(s *programStep) ([]graph.Type, error) {
	n, c := b.node, &b.op.Config
	x := b.typeOf(s.in[0])
	in := x.Shape[1]
	width := in
	switch n.Op {
	case "conv":
		m, err := b.conv(in)
		if err != nil {
			return nil, err
		}
		s.module, width = m, n.OutChannels
	case "norm":
		m, field, err := n.norm(in)
		if err != nil {
			return nil, b.fail(field, "%w", err)
		}
		s.module = m
	case "act":
		m, err := newActivation(n.Name, n.Activation)
		if err != nil {
			return nil, b.fail("", "%w", err)
		}
		s.module = m
	case "add":
		other := b.typeOf(s.in[1])
		if other.Shape[1] != in {
			return nil, b.fail("in", "%.60q has %d channels and %.60q has %d: want as many", n.In[0], in,
				n.In[1], other.Shape[1])
		}
		if !slices.Equal(other.Shape, x.Shape) {
			return nil, b.fail("in", "%.60q is %v and %.60q is %v: want one size", n.In[0], x.Shape, n.In[1], other.Shape)
		}
	case "noise":
		if b.op.noise != nil {
			return nil, b.fail("op", "noise for the second time: want one noise at most")
		}
		if b.other && (x.Shape[2] != c.GridSize || x.Shape[3] != c.GridSize) {
			return nil, b.fail("in", "images of %dx%d: want noise on images of the input's size, %dx%d",
				x.Shape[2], x.Shape[3], c.GridSize, c.GridSize)
		}
		block, field, err := noiseBlock(n.NoiseType, n.NoiseScale)
		if err != nil {
			return nil, b.fail(field, "%w", err)
		}
		b.op.noise, b.op.noisy = newStochasticBlock(n.Name, block), in
		s.module = b.op.noise
	}
	return []graph.Type{{Shape: []int{1, width, x.Shape[2], x.Shape[3]}, Format: fp16.Float32}}, nil
}

// conv builds the node's convolution, of so many channels.
func (b *programmer) conv(in int) (*conv2d, error) {
	n := b.node
	if n.OutChannels < 1 {
		return nil, b.fail("out_channels", "%d: want 1 or more", n.OutChannels)
	}
	if n.KernelSize < 1 || n.KernelSize%2 == 0 {
		return nil, b.fail("kernel_size",
			"%d: want an odd number, so that padding by half of it keeps the image size", n.KernelSize)
	}
	padding, err := conv.ParsePadding(cmp.Or(n.PaddingMode, "zeros"))
	if err != nil {
		return nil, b.fail("padding_mode", "%w", err)
	}
	weights := float64(in) * float64(n.OutChannels) * float64(n.KernelSize*n.KernelSize)
	if err := b.count("out_channels", n.OutChannels, weights); err != nil {
		return nil, err
	}
	return newConv(n.Name, in, n.OutChannels, n.KernelSize, !n.NoBias, 1, padding), nil
}

// norm returns the norm of a node over c channels, or the field that makes none.
func (n *NodeConfig) norm(c int) (m *normalization, field string, err error) {
	switch n.Normalization {
	case "instance", "batch", "group", "layer":
	default:
		return nil, "normalization", fmt.Errorf("%.60q: want instance, batch, group or layer", n.Normalization)
	}
	eps := epsilon
	if n.Eps != nil {
		eps = *n.Eps
	}
	if !(eps >= 0) || !strict.Finite(eps) {
		return nil, "eps", fmt.Errorf("%v: want a finite number, 0 or more", eps)
	}
	kind := n.Normalization
	if kind == "group" {
		if n.Groups < 1 || c%n.Groups != 0 {
			return nil, "groups", fmt.Errorf("%d: want a divisor of the %d channels", n.Groups, c)
		}
		kind = "layer" // any number of groups is built as one is
	} else if n.Groups != 0 {
		return nil, "groups", fmt.Errorf("%d: only a group norm has groups", n.Groups)
	}
	if m, err = newNorm(n.Name, kind, c); err != nil {
		return nil, "", err
	}
	if n.Normalization == "group" {
		m.kind, m.groups = "group", n.Groups
	}
	m.eps, m.fixed = eps, n.NoAffine
	if m.fixed {
		m.weight.fill(1)
	}
	return m, "", nil
}

func (p *program) layers(visit func(layer)) {
	for _, s := range p.steps {
		switch {
		case s.other != nil:
			visit(s.other)
		case s.module != nil:
			visit(s.module)
		}
	}
}

func (p *program) build(b *builder, x int) int {
	of := make([][]int, len(p.steps))
	for i, s := range p.steps {
		in := make([]int, len(s.in))
		for k, o := range s.in {
			switch {
			case o.param != nil:
				in[k] = b.param(nil, o.param)[0]
			case o.step == Input:
				in[k] = x
			default:
				in[k] = of[o.step][o.output]
			}
		}
		switch {
		case s.other != nil:
			of[i] = b.AddNode(s.other.op, s.name, s.other.outputs, in...)
		case s.module == nil:
			of[i] = []int{b.Add(graph.Addition, s.name, in...)}
		default:
			of[i] = []int{s.module.build(b, in[0])}
		}
	}
	return of[len(of)-1][0]
}
