package graph

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// piecewise is an operation of which each number of the output is made of those at its place.
type piecewise interface {
	// pieces is Program.Pieces of a node that rounds no input, for an output of the type.
	pieces(m Mode, k int, out Type, in []*tensor.Tensor) func(d []float64, at int)
}

// Pieces returns what makes numbers of the output of node i of as many of its input k, in
// their place: d are those from the one numbered at on. It may be called by several goroutines
// at once. Of in, input k is not looked at, and those that are constants of the graph may be
// nil; the others must hold their numbers when it is called. It is nil where the node cannot be
// done so: where input and output differ in type, or an input is rounded before.
func (p *Program) Pieces(i, k int, in []*tensor.Tensor) func(d []float64, at int) {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(piecewise)
	if !ok || len(n.Out) != 1 {
		return nil
	}
	from, out := p.types[n.In[k]], p.types[n.Out[0]]
	if from.Format != out.Format || !slices.Equal(from.Shape, out.Shape) {
		return nil
	}
	in = slices.Clone(in)
	for j, v := range n.In {
		if p.Operand(i, j) != p.types[v].Format {
			return nil
		}
		if j != k && in[j] == nil {
			in[j] = p.constant(p.graph.Values[v].Const)
		}
	}
	return op.pieces(p.mode, k, out, in)
}

func (a Act) pieces(m Mode, _ int, out Type, _ []*tensor.Tensor) func(d []float64, at int) {
	if out.Format == fp16.Float64 || out.Format == fp16.Int64 {
		return nil
	}
	line := act.Lines(a.Func, out.Format)
	if m.Fast {
		line = act.FastLines(a.Func, out.Format)
	}
	return func(d []float64, _ int) { line(d, d) }
}

func (o Unary) pieces(_ Mode, _ int, out Type, _ []*tensor.Tensor) func(d []float64, at int) {
	if out.Format == fp16.Int64 {
		return nil
	}
	line := o.Lines(out.Format)
	return func(d []float64, _ int) { line(d, d) }
}

func (o Binary) pieces(m Mode, k int, out Type, in []*tensor.Tensor) func(d []float64, at int) {
	if o.Alpha != nil || o.truths() || out.Format == fp16.Int64 {
		return nil
	}
	var other *tensor.Tensor
	switch {
	case o.Self != nil:
		other, k = o.number(m, *o.Self, out.Format), 1
	case o.Other != nil:
		other = o.number(m, *o.Other, out.Format)
	default:
		other = in[1-k]
	}
	formats := []fp16.Format{out.Format, other.Format}
	if k == 1 {
		slices.Reverse(formats)
	}
	line := pointwise.Lines(o.Of, out.Format, formats[0], formats[1])
	// The other operand has as many numbers, or one, or a line of them for each line.
	lines := len(out.Shape) > 0 && len(other.Data) == out.Shape[len(out.Shape)-1] && len(other.Shape) > 0 &&
		other.Shape[len(other.Shape)-1] == len(other.Data)
	if line == nil || !lines && len(other.Data) != 1 && !slices.Equal(other.Shape, out.Shape) ||
		other.Format == fp16.Int64 {
		return nil
	}
	return func(d []float64, at int) {
		for len(d) > 0 {
			n, x := len(d), other.Data
			switch {
			case len(x) == 1:
			case lines:
				x = x[at%len(x):]
				n = min(n, len(x))
				x = x[:n]
			default:
				x = x[at:][:n]
			}
			if k == 0 {
				line(d[:n], d[:n], x)
			} else {
				line(d[:n], x, d[:n])
			}
			d, at = d[n:], at+n
		}
	}
}

// pieceSize is how many numbers a piece has where an operation makes none of its own.
const pieceSize = 4096

// EvalThen is Eval of a node of one output, and calls then for the numbers of that in pieces
// that do not overlap, n of them from the one numbered at on, when they are made: soon, where
// the operation can, and from several goroutines at once.
func (p *Program) EvalThen(r *Run, i int, out, in []*tensor.Tensor, then func(at, n int)) error {
	r.then = then
	defer func() { r.then = nil }()
	err := p.Eval(r, i, out, in)
	if size := len(out[0].Data); err == nil && r.then != nil { // the operation has not done it
		par.For((size+pieceSize-1)/pieceSize, func(k int) { then(k*pieceSize, min(pieceSize, size-k*pieceSize)) })
	}
	return err
}

// then returns what is to be called with pieces of the output, which is done herewith; nil for
// nothing.
func (c *Call) then() func(at, n int) {
	if c.run == nil {
		return nil
	}
	then := c.run.then
	c.run.then = nil
	return then
}
