package operator

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/strict"
)

// NodeConfig is one operation of an operator that is given as a list of them:
// any arrangement of the layers that Spinlock's operator is made of. Images
// keep their size.
type NodeConfig struct {
	Op   string   // conv, norm, act, add or noise
	Name string   // PyTorch's name of the module, and of its parameters; each once
	In   []string // names of earlier nodes, or "input"; nil for the node before

	OutChannels int    // conv
	KernelSize  int    // conv: odd; the image is padded by half of it
	PaddingMode string // conv: zeros (the default), circular, reflect or replicate
	Bias        bool   // conv: default true, as PyTorch's

	Normalization string  // norm: instance, batch, group or layer (a group norm of one group)
	Groups        int     // norm: of a group norm
	Eps           float64 // norm: default 1e-5
	Affine        bool    // norm: with weight and bias; default true

	Activation string // act: act.Parse's names

	NoiseType  string  // noise: noise.ParseType's names
	NoiseScale float64 // noise
}

// readNodes is ReadConfig for an operator that is a list of operations.
func readNodes(o *strict.Object) (Config, error) {
	c := Config{InputChannels: int(o.Int("input_channels", 3, 1, mostSize)), GridSize: int(o.Int("grid_size", 0, 1, mostSize)), Nodes: []NodeConfig{}}
	outputs := int(o.Int("output_channels", 0, 1, mostSize))
	for _, n := range o.Children("nodes") {
		n.Need("op", "name")
		node := NodeConfig{Op: n.String("op", ""), Name: n.String("name", ""), In: n.Strings("in")}
		switch node.Op {
		case "conv":
			n.Need("out_channels", "kernel_size")
			node.OutChannels = int(n.Int("out_channels", 1, 1, mostSize))
			node.KernelSize = int(n.Int("kernel_size", 3, 1, 255))
			node.PaddingMode = n.String("padding_mode", "zeros")
			node.Bias = n.Bool("bias", true)
		case "norm":
			n.Need("normalization")
			node.Normalization = n.String("normalization", "")
			node.Groups = int(n.Int("groups", 0, 1, mostSize))
			node.Eps = n.Float("eps", epsilon)
			node.Affine = n.Bool("affine", true)
		case "act":
			n.Need("activation")
			node.Activation = n.String("activation", "")
		case "add":
		case "noise":
			n.Need("noise_type", "noise_scale")
			node.NoiseType = n.String("noise_type", "")
			node.NoiseScale = n.Float("noise_scale", 0)
		case "":
		default:
			n.Fail("op", "%.60q: want conv, norm, act, add or noise", node.Op)
		}
		if err := n.Close(); err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if err := o.Close(); err != nil {
		return c, err
	}
	op, err := buildNodes(c)
	if err != nil { // which begins with the field
		field, text, _ := strings.Cut(err.Error(), ": ")
		return c, o.Errorf(field, "%s", text)
	}
	c.OutputChannels = op.Config.OutputChannels
	if outputs != 0 && outputs != c.OutputChannels {
		return c, o.Errorf("output_channels", "%d: want %d, as many as the last node has", outputs, c.OutputChannels)
	}
	return c, nil
}

// program is a list of operations, each on the outputs of earlier ones.
type program struct {
	steps []programStep
}

type programStep struct {
	name   string
	module layer // nil for a sum
	in     []int // Input for the operator's own
}

// buildNodes returns the operator of a list of operations with zero parameters.
func buildNodes(c Config) (*Operator, error) {
	op := &Operator{Config: c}
	p := &program{}
	at := map[string]int{"input": Input}
	var widths []int
	channels := func(i int) int {
		if i == Input {
			return c.InputChannels
		}
		return widths[i]
	}
	weights := 0.0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		fail := func(field, format string, args ...any) error {
			if field != "" {
				field += ": "
			}
			return fmt.Errorf("nodes[%d].%s"+format, append([]any{i, field}, args...)...)
		}
		if _, twice := at[n.Name]; twice || n.Name == "" {
			return nil, fail("name", "%.60q: want a name that no other node has", n.Name)
		}
		s := programStep{name: n.Name, in: []int{i - 1}} // Input is -1
		if n.In != nil {
			s.in = nil
			for _, name := range n.In {
				j, ok := at[name]
				if !ok {
					return nil, fail("in", "%.60q: want \"input\" or the name of an earlier node", name)
				}
				s.in = append(s.in, j)
			}
		}
		inputs := 1
		if n.Op == "add" {
			inputs = 2
		}
		if len(s.in) != inputs {
			return nil, fail("in", "%d names: want %d for op %.60q", len(s.in), inputs, n.Op)
		}
		in := channels(s.in[0])
		width := in
		switch n.Op {
		case "conv":
			width = n.OutChannels
			if width < 1 {
				return nil, fail("out_channels", "%d: want 1 or more", width)
			}
			if n.KernelSize < 1 || n.KernelSize%2 == 0 {
				return nil, fail("kernel_size", "%d: want an odd number, so that padding by half of it keeps the image size", n.KernelSize)
			}
			mode := n.PaddingMode
			if mode == "" {
				mode = "zeros"
			}
			padding, err := conv.ParsePadding(mode)
			if err != nil {
				return nil, fail("padding_mode", "%w", err)
			}
			weights += float64(float64(in) * float64(width) * float64(n.KernelSize*n.KernelSize))
			if weights > mostWeights {
				return nil, fail("out_channels", "%d: want fewer: the operator would have %.3g weights, and %.3g are the most", width, weights, float64(mostWeights))
			}
			s.module = newConv(n.Name, in, width, n.KernelSize, n.Bias, 1, padding)
		case "norm":
			m, field, err := n.norm(in)
			if err != nil {
				return nil, fail(field, "%w", err)
			}
			s.module = m
		case "act":
			m, err := newActivation(n.Name, n.Activation)
			if err != nil {
				return nil, fail("", "%w", err)
			}
			s.module = m
		case "add":
			if other := channels(s.in[1]); other != in {
				return nil, fail("in", "%.60q has %d channels and %.60q has %d: want as many", n.In[0], in, n.In[1], other)
			}
		case "noise":
			if op.noise != nil {
				return nil, fail("op", "noise for the second time: want one noise at most")
			}
			block, field, err := noiseBlock(n.NoiseType, n.NoiseScale)
			if err != nil {
				return nil, fail(field, "%w", err)
			}
			op.noise, op.noisy = NewStochasticBlock(n.Name, block), in
			s.module = op.noise
		default:
			return nil, fail("op", "%.60q: want conv, norm, act, add or noise", n.Op)
		}
		at[n.Name] = i
		widths = append(widths, width)
		p.steps = append(p.steps, s)
	}
	if len(p.steps) == 0 {
		return nil, fmt.Errorf("nodes: none: want one or more")
	}
	op.Config.OutputChannels = widths[len(widths)-1]
	op.modules = []Module{p}
	return op, nil
}

// norm returns the norm of a node over c channels, or the field that makes none.
func (n *NodeConfig) norm(c int) (m *normalization, field string, err error) {
	switch n.Normalization {
	case "instance", "batch", "group", "layer":
	default:
		return nil, "normalization", fmt.Errorf("%.60q: want instance, batch, group or layer", n.Normalization)
	}
	if !(n.Eps >= 0) || !strict.Finite(n.Eps) {
		return nil, "eps", fmt.Errorf("%v: want a finite number, 0 or more", n.Eps)
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
	m.eps, m.fixed = n.Eps, !n.Affine
	if m.fixed {
		m.weight.fill(1)
	}
	return m, "", nil
}

func (p *program) layers(visit func(layer)) {
	for _, s := range p.steps {
		if s.module != nil {
			visit(s.module)
		}
	}
}

func (p *program) build(b *builder, x int) int {
	of := make([]int, len(p.steps))
	for i, s := range p.steps {
		in := make([]int, len(s.in))
		for k, j := range s.in {
			in[k] = x
			if j != Input {
				in[k] = of[j]
			}
		}
		if s.module == nil {
			of[i] = b.Add(graph.Add{}, s.name, in...)
		} else {
			of[i] = s.module.build(b, in[0])
		}
	}
	return of[len(of)-1]
}
