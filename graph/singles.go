package graph

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// What fast arithmetic has on float32 numbers as they are, for a plan that keeps them so between
// nodes: products, norms and shares of lines, and what is done number by number.

// Singles is the float32 numbers of a tensor in order. Where they lie is read at each use.
type Singles struct{ Data []float32 }

// FastKernel returns what node i multiplies rows of its input by, which the second result
// names, where that is a constant in fast arithmetic and the node does nothing else; or nil.
func (p *Program) FastKernel(i int) (*matmul.Kernel, int) {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(interface{ operands(c *Call) multiplication })
	if !ok || !p.mode.Fast || !p.single(i) {
		return nil, 0
	}
	c := &Call{Mode: p.mode, program: p, node: i}
	for _, v := range n.In {
		c.in = append(c.in, p.graph.Values[v].Const)
	}
	of := op.operands(c)
	if c.in[of.b] == nil || of.added >= 0 && c.in[of.added] == nil || c.in[of.a] != nil {
		return nil, 0
	}
	if k := packed(c, of.b, of.added, of.Params); k != nil && k.IsFast() {
		return k, of.a
	}
	return nil, 0
}

// FastProduct reports whether node i is a product of matrices in fast arithmetic.
func (p *Program) FastProduct(i int) bool {
	n := &p.graph.Nodes[i]
	_, ok := n.Op.(MatMul)
	return ok && p.mode.Fast && p.single(i) && fastProduct(p.types[n.Out[0]], p.types[n.In[0]], p.types[n.In[1]])
}

// PlainProduct reports whether node i is a product of float32 matrices, none of them a constant and none
// rounded before.
func (p *Program) PlainProduct(i int) bool {
	n := &p.graph.Nodes[i]
	if _, ok := n.Op.(MatMul); !ok || !p.single(i) {
		return false
	}
	for k, v := range n.In {
		if p.graph.Values[v].Const != nil || p.Operand(i, k) != fp16.Float32 || len(p.types[v].Shape) < 2 {
			return false
		}
	}
	return true
}

// FastLayer returns the layer normalisation in fast arithmetic that node i is, or nil.
func (p *Program) FastLayer(i int) *norm.FastLayer {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(LayerNorm)
	if !ok || !p.mode.Fast || !p.single(i) {
		return nil
	}
	var params [2][]float64
	for k, v := range n.In[1:] {
		c := p.graph.Values[v].Const
		if c == nil {
			return nil
		}
		params[k] = c.Data
	}
	return norm.NewFastLayer(rowLength(op.Shape, p.types[n.In[0]].Shape), params[0], params[1], op.Eps)
}

// FastSoftmax reports whether node i is the softmax along the last axis in fast arithmetic.
func (p *Program) FastSoftmax(i int) bool {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(Softmax)
	return ok && p.mode.Fast && p.single(i) && op.fast(len(p.types[n.In[0]].Shape))
}

// single reports whether all inputs and the only output of a node are float32 numbers.
func (p *Program) single(i int) bool {
	n := &p.graph.Nodes[i]
	for _, v := range slices.Concat(n.In, n.Out) {
		if p.types[v].Format != fp16.Float32 {
			return false
		}
	}
	return len(n.Out) == 1 && len(n.In) > 0
}

// Seen returns where a node that moves no number sees those of its first input, which lie steps
// apart from the first on: the first number of its output and the steps of that. It is for
// nodes that see axes in another order, or one place of an axis.
func (p *Program) Seen(i int, steps []int) (first int, out []int, ok bool) {
	n := &p.graph.Nodes[i]
	switch op := n.Op.(type) {
	case Permute:
		order, err := op.order(len(steps))
		return 0, picked(steps, order), err == nil
	case Transpose:
		order, err := op.order(len(steps))
		return 0, picked(steps, order), err == nil
	case IndexSelect:
		index := p.graph.Values[n.In[1]].Const
		shape := p.types[n.In[0]].Shape
		a, err := axis("dim", op.Axis, len(shape))
		if err != nil || index == nil || len(index.Shape) > 0 || len(index.Data) != 1 {
			return 0, nil, false
		}
		at := int(index.Data[0])
		if at < 0 {
			at += shape[a]
		}
		if at < 0 || at >= shape[a] {
			return 0, nil, false
		}
		return at * steps[a], slices.Concat(steps[:a], steps[a+1:]), true
	}
	return 0, nil, false
}

// Cuts reports whether the outputs of a node are the numbers of its input, as they are, one output after the other.
func (p *Program) Cuts(i int) bool {
	n := &p.graph.Nodes[i]
	var along int
	switch op := n.Op.(type) {
	case Split:
		along = op.Axis
	case Chunk:
		along = op.Axis
	case Unbind:
		along = op.Axis
	default:
		return false
	}
	t := p.types[n.In[0]]
	a, err := axis("dim", along, len(t.Shape))
	return err == nil && tensor.Size(t.Shape[:a]) == 1 && p.Operand(i, 0) == t.Format &&
		p.types[n.Out[0]].Format == t.Format
}

// Joins reports whether the numbers of a node's inputs, as they are and one input after the other, are its output.
func (p *Program) Joins(i int) bool {
	n := &p.graph.Nodes[i]
	to := p.types[n.Out[0]]
	var along int
	switch op := n.Op.(type) {
	case Cat:
		along = op.Axis
	case Stack:
		along = op.Axis
	default:
		return false
	}
	for k, v := range n.In {
		if p.types[v].Format != to.Format || p.Operand(i, k) != to.Format {
			return false
		}
	}
	a, err := axis("dim", along, len(to.Shape))
	return err == nil && tensor.Size(to.Shape[:a]) == 1
}

func picked(of, places []int) []int {
	out := make([]int, len(places))
	for i, k := range places {
		out[i] = of[k]
	}
	return out
}

// SinglePieces is Pieces on float32 numbers; of in, input k and constants may be nil.
func (p *Program) SinglePieces(i, k int, in []*Singles) func(d []float32, at int) {
	n := &p.graph.Nodes[i]
	if !p.single(i) || !slices.Equal(p.types[n.In[k]].Shape, p.types[n.Out[0]].Shape) {
		return nil
	}
	switch op := n.Op.(type) {
	case Act:
		return act.FastSingles(op.Func)
	case Binary:
		return op.singlePieces(p, n, k, in)
	}
	return nil
}

func (o Binary) singlePieces(p *Program, n *Node, k int, in []*Singles) func(d []float32, at int) {
	if o.Alpha != nil || o.truths() {
		return nil
	}
	out, other, shape := p.types[n.Out[0]], (*Singles)(nil), []int(nil)
	switch {
	case o.Self != nil:
		other, k = narrowed(o.number(p.mode, *o.Self, fp16.Float32).Data), 1
	case o.Other != nil:
		other = narrowed(o.number(p.mode, *o.Other, fp16.Float32).Data)
	default:
		v := n.In[1-k]
		other, shape = in[1-k], p.types[v].Shape
		if c := p.graph.Values[v].Const; c != nil {
			other = narrowed(c.Data)
		}
	}
	// The other operand has one number, or the numbers of the last axes, over and over.
	size := elementsOf(shape)
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	do, last := pointwise.Singles(o.Of), len(out.Shape)-len(shape)
	if do == nil || size == 0 || last < 0 || !slices.Equal(shape, out.Shape[last:]) {
		return nil
	}
	return func(d []float32, at int) {
		for len(d) > 0 {
			n, x := len(d), other.Data[:1]
			if size > 1 {
				x = other.Data[at%size : size]
				n = min(n, len(x))
				x = x[:n]
			}
			if k == 0 {
				do(d[:n], d[:n], x)
			} else {
				do(d[:n], x, d[:n])
			}
			d, at = d[n:], at+n
		}
	}
}

func narrowed(data []float64) *Singles {
	s := &Singles{make([]float32, len(data))}
	for i, v := range data {
		s.Data[i] = float32(v)
	}
	return s
}
