package operator

import (
	"fmt"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
)

// Op is what a [Node] does.
type Op uint8

// The operations of Spinlock's CNN operator.
const (
	OpConv  Op = iota // convolution, with a bias or without
	OpNorm            // instance, batch, group or layer norm
	OpAct             // activation
	OpAdd             // sum of two tensors
	OpNoise           // stochastic block
)

// Node is one operation of an operator.
type Node struct {
	Op Op
	// Name is PyTorch's name of the module whose output this is; the sum of a
	// residual block has the block's.
	Name string
	// Also are the names of the modules that hand this output on: a dropout
	// behind it, and blocks that end with it.
	Also []string
	// In are the nodes whose outputs this one reads, by index; Input is the
	// operator's own input. An OpAdd has two, others one.
	In []int

	Weight, Bias   *Param      // of OpConv [OC,IC,K,K] and [OC], of OpNorm [C] each; Bias may be nil
	Geometry       conv.Params // of OpConv
	Norm           string      // of OpNorm: instance, batch, group or layer
	Groups         int         // of OpNorm: sets of channels with common statistics, 0 for batch
	Eps            float64     // of OpNorm, as a double
	Mean, Variance *Param      // of a batch norm
	Act            act.Func    // of OpAct
	Noise          noise.Block // of OpNoise
}

// Input stands for the operator's input among the nodes that a [Node] reads.
const Input = -1

// Nodes returns the operations of the operator in the order of [Operator.Forward];
// the output of the last one is the operator's. Nothing may be changed through it.
func (op *Operator) Nodes() []Node {
	g := &graph{last: Input}
	for _, m := range op.modules {
		g.module(m)
	}
	return g.nodes
}

// graph is a list of operations in the making; last is the node whose output
// the next module reads.
type graph struct {
	nodes []Node
	last  int
}

func (g *graph) add(n Node, in ...int) {
	n.In = in
	g.nodes = append(g.nodes, n)
	g.last = len(g.nodes) - 1
}

// pass says that a module hands the last output on.
func (g *graph) pass(name string) {
	if g.last != Input {
		n := &g.nodes[g.last]
		n.Also = append(n.Also, name)
	}
}

func (g *graph) module(m Module) {
	switch m := m.(type) {
	case *conv2d:
		g.add(Node{Op: OpConv, Name: m.name, Weight: m.weight, Bias: m.bias, Geometry: m.geometry}, g.last)
	case *normalization:
		groups := m.groups
		if m.kind == "instance" {
			groups = m.weight.Shape[0]
		}
		g.add(Node{Op: OpNorm, Name: m.name, Weight: m.weight, Bias: m.bias, Norm: m.kind, Groups: groups, Eps: m.eps, Mean: m.mean, Variance: m.variance}, g.last)
	case *program:
		g.program(m)
	case *activation:
		g.add(Node{Op: OpAct, Name: m.name, Act: m.f}, g.last)
	case *identity:
		g.pass(m.name)
	case *StochasticBlock:
		g.add(Node{Op: OpNoise, Name: m.name, Noise: m.block}, g.last)
	case *ConvBlock:
		for _, l := range m.seq {
			g.module(l)
		}
		g.pass(m.name)
	case *ResidualBlock:
		from := g.last
		for _, b := range m.blocks {
			g.module(b)
		}
		to := g.last
		if m.projection != nil {
			g.last = from
			g.module(m.projection)
			from = g.last
		}
		g.add(Node{Op: OpAdd, Name: m.name}, to, from)
	case *OutputLayer:
		g.module(m.conv)
		g.module(m.act)
		g.pass(m.name)
	default:
		panic(fmt.Sprintf("operator: %T is no module of an operator", m))
	}
}

// Formats returns the format to which a mode rounds the operands of a node
// whose inputs have those formats (that of the input for an operation that
// casts nothing), and that of its output; or the error with which PyTorch
// refuses them. The bias of an OpConv whose operands are of a half type is
// rounded to it too, and added apart, with a rounding of its own, if BiasApart.
func (m Mode) Formats(n *Node, in ...fp16.Format) (operands, out fp16.Format, err error) {
	switch n.Op {
	case OpConv:
		operands, out = m.conv("conv2d", in[0])
	case OpNorm:
		operands = in[0]
		out, err = m.result(n.Norm+" norm", in[0])
	case OpAct:
		operands = in[0]
		out = m.must("activation", in[0])
	case OpAdd:
		operands = m.must("add", in...)
		out = operands
	case OpNoise:
		operands = in[0]
		out = n.Noise.Format(m.must("noise", in[0]))
	}
	return operands, out, err
}

// BiasApart reports whether a convolution's bias is added by an operation of
// its own, as autocast on CUDA does.
func (m Mode) BiasApart() bool { return m.biasApart() }
