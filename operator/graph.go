package operator

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
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
	OpOther           // any other operation of package graph
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
	// operator's own input. An OpAdd has two, an OpOther any number, others one.
	In []int

	Weight, Bias   *Param      // of OpConv [OC,IC,K,K] and [OC], of OpNorm [C] each; Bias may be nil
	Geometry       conv.Params // of OpConv
	Norm           string      // of OpNorm: instance, batch, group or layer, which is a group norm of one group
	Groups         int         // of OpNorm: sets of channels with common statistics, 0 for batch
	Eps            float64     // of OpNorm, as a double
	Mean, Variance *Param      // of a batch norm
	Act            act.Func    // of OpAct
	Noise          noise.Block // of OpNoise
	Other          graph.Op    // of OpOther

	// Params are the parameters of an OpOther by the places of its inputs: nil where a
	// node's output is read.
	Params []*Param
	types  []graph.Type // of an OpOther's inputs, for one sample
}

// Input stands for the operator's input among the nodes that a [Node] reads.
const Input = -1

// Nodes returns the operations of the operator in the order of [Operator.Forward];
// the output of the last one is the operator's. Nothing may be changed through it.
func (op *Operator) Nodes() []Node {
	b, p, err := op.formats(reference)
	if err != nil { // which Forward has, too
		p = nil
	}
	at := make([]int, len(b.Values)) // the node that makes a value
	for i := range at {
		at[i] = Input
	}
	nodes := make([]Node, len(b.Nodes))
	for i := range b.Nodes {
		of := &b.Nodes[i]
		out := of.Out[0]
		for _, v := range of.Out {
			at[v] = i
		}
		n := Node{Name: b.Values[out].Name, Also: slices.Clone(b.Values[out].Also)}
		param := func(k int) *Param {
			if k < len(of.In) {
				return b.params[of.In[k]]
			}
			return nil
		}
		for _, v := range of.In {
			if b.params[v] == nil {
				n.In = append(n.In, at[v])
			}
		}
		n.set(of.Op, param)
		if n.Op == OpOther {
			n.inputs(b, p, of)
		}
		nodes[i] = n
	}
	if last := len(nodes) - 1; last >= 0 { // the last name, "output", is the operator's, and no module's
		nodes[last].Also = nodes[last].Also[:len(nodes[last].Also)-1]
	}
	return nodes
}

// set makes n the operation, for the parameters that it reads.
func (n *Node) set(op graph.Op, param func(k int) *Param) {
	n.Op, n.Other = OpOther, op
	switch o := op.(type) {
	case graph.Conv:
		if w := param(1); len(n.In) == 1 && w != nil && o.Groups <= 1 && o.Params == conv.Square(max(1, o.Stride[0]),
			w.Shape[2]/2, o.Padding) && w.Shape[2] == w.Shape[3] && w.Shape[2]%2 == 1 {
			n.Op, n.Geometry, n.Weight, n.Bias = OpConv, o.Params, w, param(2)
		}
	case graph.InstanceNorm:
		if len(n.In) == 1 && param(1) != nil && param(2) != nil {
			n.Op, n.Norm, n.Groups, n.Eps, n.Weight, n.Bias = OpNorm, "instance", param(1).Shape[0], o.Eps, param(1), param(2)
		}
	case graph.GroupNorm:
		if len(n.In) == 1 && param(1) != nil && param(2) != nil {
			n.Op, n.Norm, n.Groups, n.Eps, n.Weight, n.Bias = OpNorm, "group", o.Groups, o.Eps, param(1), param(2)
			if n.Groups == 1 {
				n.Norm = "layer"
			}
		}
	case graph.BatchNorm:
		if len(n.In) == 1 && param(1) != nil && param(2) != nil && param(3) != nil && param(4) != nil {
			n.Op, n.Norm, n.Eps, n.Weight, n.Bias, n.Mean, n.Variance = OpNorm, "batch", o.Eps, param(1), param(2),
				param(3), param(4)
		}
	case graph.Act:
		if len(n.In) == 1 {
			n.Op, n.Act = OpAct, o.Func
		}
	case graph.Binary:
		if o == graph.Addition && len(n.In) == 2 {
			n.Op = OpAdd
		}
	case graph.Noise:
		n.Op, n.Noise = OpNoise, o.Block
	}
	if n.Op != OpOther {
		n.Other = nil
	}
}

// inputs notes what an operation of a program reads; p is nil where its types are not known.
func (n *Node) inputs(b *builder, p *graph.Program, of *graph.Node) {
	for _, v := range of.In {
		n.Params = append(n.Params, b.params[v])
		if p != nil {
			n.types = append(n.types, p.Type(v))
		}
	}
}

// Operands returns the formats to which a mode rounds the inputs of an OpOther, the
// parameters among them, and that of its output, for node outputs of those formats, as
// [Node.Formats] does.
func (n *Node) Operands(m graph.Mode, in ...fp16.Format) (operands []fp16.Format, out fp16.Format, err error) {
	if n.types == nil {
		return nil, 0, fmt.Errorf("types of op %s are not known", n.Other.Name())
	}
	types := slices.Clone(n.types)
	for k, next := 0, 0; k < len(types); k++ {
		switch {
		case n.Params[k] == nil:
			types[k].Format = in[min(next, len(in)-1)]
			next++
		case m.Precision == fp16.Float64 && types[k].Format != fp16.Int64:
			types[k].Format = fp16.Float64
		}
		operands = append(operands, types[k].Format)
	}
	inferred, err := n.Other.Infer(m, types)
	if err != nil {
		return nil, 0, err
	}
	copy(operands, inferred.Operands)
	return operands, inferred.Out[0].Format, nil
}

// Formats returns the format to which a mode rounds the operands of a node
// whose inputs have those formats (that of the input for an operation that
// casts nothing), and that of its output; or the error with which PyTorch
// refuses them. The bias of an OpConv whose operands are of a half type is
// rounded to it too, and added apart, with a rounding of its own, if the mode's
// BiasApart.
func (n *Node) Formats(m graph.Mode, in ...fp16.Format) (operands, out fp16.Format, err error) {
	operands = in[0]
	switch n.Op {
	case OpConv:
		operands, out = m.Product("conv2d", in[0])
	case OpNorm:
		name := n.Norm + "_norm"
		if n.Norm == "layer" {
			name = graph.GroupNorm{}.Name()
		}
		out, err = m.Result(name, in[0])
	case OpAct:
		out, err = m.Result("relu", in[0])
	case OpAdd:
		out, err = m.Result("add", in...)
		operands = out
	case OpNoise:
		out, err = m.Result("noise", in[0])
		out = n.Noise.Format(out)
	case OpOther:
		var all []fp16.Format
		if all, out, err = n.Operands(m, in...); err == nil {
			operands = all[0]
		}
	}
	return operands, out, err
}

// formats infers the operator's graph for an image of its own in a mode's widest format.
func (op *Operator) formats(m graph.Mode) (*builder, *graph.Program, error) {
	side := op.side()
	return op.inferred(m, graph.Type{Shape: []int{1, op.Config.InputChannels, side, side}, Format: m.Wide()})
}

// side returns the side of an image for which all can be inferred but sizes: GridSize where
// shapes may depend on it and it is said, or else a small one.
func (op *Operator) side() int {
	switch {
	case op.Config.GridSize > 0 && !op.Config.CNN():
		return op.Config.GridSize
	case op.Config.UAFNO != nil: // whose images at the bottleneck have 2x2 pixels then
		return 2 << op.Config.UAFNO.EncoderLevels
	}
	return 1 + op.reach()
}

// inferred infers the operator's graph, with its noise, for an input of that type.
func (op *Operator) inferred(m graph.Mode, input graph.Type) (*builder, *graph.Program, error) {
	b := op.graph(false, input.Shape[2], input.Shape[3])
	if b.err != nil {
		return b, nil, b.err
	}
	p, err := b.Infer(m, input)
	return b, p, err
}

// reach returns the largest padding of a convolution: a larger image has room for all.
func (op *Operator) reach() int {
	most := 0
	visitAll(func(l layer) {
		if c, ok := l.(*conv2d); ok {
			most = max(most, c.geometry.Pad[0])
		}
	}, op.modules...)
	return most
}

// Output returns the format of the operator's output in a mode, for an input of the
// mode's wide format: that of a convolution, [graph.Mode.Output], unless the operations behind
// the last one make float32 numbers of it, as the sum with a float32 input is. An operator
// that PyTorch refuses in the mode has the wide format.
func (op *Operator) Output(m graph.Mode) fp16.Format {
	if op.Config.CNN() { // which ends with a convolution
		return m.Output()
	}
	b, p, err := op.formats(m)
	if err != nil {
		return m.Wide()
	}
	return p.Type(b.Outputs[0]).Format
}

// NoiseFormat returns the format of the tensor to which the stochastic block
// adds its noise in a mode, for a state of the mode's widest format; that
// format itself if the operator has no noise.
func (op *Operator) NoiseFormat(m graph.Mode) fp16.Format {
	b, p, err := op.formats(m)
	if err != nil {
		return m.Wide()
	}
	for i := range b.Nodes {
		if _, ok := b.Nodes[i].Op.(graph.Noise); ok {
			return p.Type(b.Nodes[i].In[0]).Format
		}
	}
	return m.Wide()
}
