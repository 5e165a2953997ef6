package operator

import (
	"strings"

	"github.com/refrun/refrun/internal/ground/strict"
)

// NodeConfig is one operation of an operator that is given as a list of them: a
// layer of Spinlock's operator, which keeps the size of images, or any operation that
// package graph has registered. A zero or empty field means its default.
type NodeConfig struct {
	Op   string   // conv, norm, act, add or noise, or a name of graph.Names
	Name string   // PyTorch's name of the module, and of its parameters; each once
	In   []string // names of earlier nodes, or "input"; nil for the node before

	Attributes []byte        // registered operation: its attributes, see graph.Bind
	Params     []ParamConfig // registered operation: its parameters

	OutChannels int    // conv
	KernelSize  int    // conv: odd, to be said; the image is padded by half of it
	PaddingMode string // conv: zeros (the default), circular, reflect or replicate
	NoBias      bool   // conv: without the bias that PyTorch's has

	Normalization string   // norm: instance, batch, group or layer (a group norm of one group)
	Groups        int      // norm: of a group norm, to be said there
	Eps           *float64 // norm: 0 or more; nil means 1e-5
	NoAffine      bool     // norm: without weight and bias

	Activation string // act: act.Parse's names

	NoiseType  string  // noise: noise.ParseType's names
	NoiseScale float64 // noise
}

// ParamConfig is a parameter of a registered operation. It is an input of the
// operation: where In names it, or else behind those that In names.
type ParamConfig struct {
	Name  string // behind the node's name and a dot in a weights file
	Shape []int
	Whole bool // int64 numbers, such as indices
}

// spinlock are the operations of a list that are not package graph's names.
var spinlock = []string{"conv", "norm", "act", "add", "noise"}

// readNodes is ReadConfig for an operator that is a list of operations.
func readNodes(o *strict.Object) (Config, error) {
	c := Config{InputChannels: int(o.Int("input_channels", 3, 1, mostSize)),
		GridSize: int(o.Int("grid_size", 0, 1, mostSize)), Nodes: []NodeConfig{}}
	outputs := int(o.Int("output_channels", 0, 1, mostSize))
	for _, n := range o.Children("nodes") {
		n.Need("op", "name")
		node, err := readNode(n)
		if err != nil {
			return c, err
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

// readNode reads the fields that a node of its op has.
func readNode(n *strict.Object) (NodeConfig, error) {
	node := NodeConfig{Op: n.String("op", ""), Name: n.String("name", ""), In: n.Strings("in")}
	switch node.Op {
	case "conv":
		n.Need("out_channels", "kernel_size")
		node.OutChannels = int(n.Int("out_channels", 1, 1, mostSize))
		node.KernelSize = int(n.Int("kernel_size", 3, 1, 255))
		node.PaddingMode = n.String("padding_mode", "zeros")
		node.NoBias = !n.Bool("bias", true)
	case "norm":
		n.Need("normalization")
		node.Normalization = n.String("normalization", "")
		node.Groups = int(n.Int("groups", 0, 1, mostSize))
		eps := n.Float("eps", epsilon)
		node.Eps, node.NoAffine = &eps, !n.Bool("affine", true)
	case "act":
		n.Need("activation")
		node.Activation = n.String("activation", "")
	case "noise":
		n.Need("noise_type", "noise_scale")
		node.NoiseType = n.String("noise_type", "")
		node.NoiseScale = n.Float("noise_scale", 0)
	case "":
	default: // an add may be a registered one
		node.Attributes = n.Raw("attributes")
		for _, p := range n.Children("params") {
			p.Need("name", "shape")
			param := ParamConfig{Name: p.String("name", ""), Shape: p.Ints("shape")}
			switch dtype := p.String("dtype", "float32"); dtype {
			case "float32":
			case "int64":
				param.Whole = true
			default:
				p.Fail("dtype", "%.60q: want float32 or int64", dtype)
			}
			if err := p.Close(); err != nil {
				return node, err
			}
			node.Params = append(node.Params, param)
		}
	}
	return node, nil
}
