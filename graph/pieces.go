package graph

import (
	"fmt"
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
	pieces(m Mode, k int, out Type, in []*tensor.Tensor, fail func(at int, err error)) func(d []float64, at int)
}

// Pieces returns what makes numbers of the output of node i of as many of its input k, in
// their place: d are those from the one numbered at on. It may be called by several goroutines
// at once. Of in, input k is not looked at, and those that are constants of the graph may be
// nil; the others must hold their numbers when it is called. Where Eval has an error of an element, fail is called with
// it, and with the numbers of node and element. It is nil where the node cannot be
// done so: where input and output differ in type, but for casts, or an input is rounded before.
func (p *Program) Pieces(
	i, k int, in []*tensor.Tensor, fail func(node, at int, err error),
) func(d []float64, at int) {
	n := &p.graph.Nodes[i]
	from, out := p.types[n.In[k]], p.types[n.Out[0]]
	if cast, is := n.Op.(Cast); is {
		return cast.piecesOf(from.Format, out.Format, p.failing(i, fail))
	}
	op, ok := n.Op.(piecewise)
	if !ok || len(n.Out) != 1 || from.Format != out.Format || !slices.Equal(from.Shape, out.Shape) {
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
	return op.pieces(p.mode, k, out, in, p.failing(i, fail))
}

// failing returns what calls fail with an error that names node i.
func (p *Program) failing(i int, fail func(node, at int, err error)) func(at int, err error) {
	return func(at int, err error) { fail(i, at, fmt.Errorf("%s: %w", p.graph.Name(&p.graph.Nodes[i]), err)) }
}

func (a Act) pieces(
	m Mode, _ int, out Type, _ []*tensor.Tensor, _ func(at int, err error),
) func(d []float64, at int) {
	if out.Format == fp16.Float64 || out.Format == fp16.Int64 {
		return nil
	}
	line := act.Lines(a.Func, out.Format)
	if m.Fast {
		line = act.FastLines(a.Func, out.Format)
	}
	return func(d []float64, _ int) { line(d, d) }
}

func (o Unary) pieces(
	_ Mode, _ int, out Type, _ []*tensor.Tensor, _ func(at int, err error),
) func(d []float64, at int) {
	if out.Format == fp16.Int64 {
		return nil
	}
	line := o.Lines(out.Format)
	return func(d []float64, _ int) { line(d, d) }
}

// piecesOf is pieces of a cast, which may be of another format than what is cast.
func (o Cast) piecesOf(from, out fp16.Format, fail func(at int, err error)) func(d []float64, at int) {
	if out != fp16.Int64 {
		return func(d []float64, _ int) { out.RoundSlice(d, d) }
	}
	to, err := pointwise.ParseInteger(o.Dtype)
	if err != nil {
		return nil
	}
	return func(d []float64, at int) {
		if i, err := pointwise.ToIntegerLine(d, at, from, to); err != nil {
			fail(i, err)
		}
	}
}

// Alike reports whether node i is a cast that changes no number of its input: one from a format to one that has all of
// its numbers.
func (p *Program) Alike(i int) bool {
	n := &p.graph.Nodes[i]
	if _, is := n.Op.(Cast); !is || len(n.In) != 1 {
		return false
	}
	from, to := p.types[n.In[0]].Format, p.types[n.Out[0]].Format
	return p.Operand(i, 0) == from && to != fp16.Int64 && (from == to || to == fp16.Float64)
}

func (o Binary) pieces(
	m Mode, k int, out Type, in []*tensor.Tensor, fail func(at int, err error),
) func(d []float64, at int) {
	if o.Alpha != nil || o.truths() {
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
	size, each := turns(other.Shape, out.Shape)
	if line == nil || size == 0 || (other.Format == fp16.Int64) != (out.Format == fp16.Int64) {
		return nil
	}
	return func(d []float64, at int) {
		for len(d) > 0 {
			n, x, first := len(d), other.Data, at/each%size
			switch {
			case size == 1:
			case each > 1:
				n, x = min(n, each-at%each), x[first:first+1]
			default:
				n = min(n, size-first)
				x = x[first:][:n]
			}
			if k == 0 {
				line(d[:n], d[:n], x)
			} else {
				line(d[:n], x, d[:n])
			}
			if out.Format == fp16.Int64 {
				if i, err := wholeLine(d[:n], at); err != nil {
					fail(i, err)
				}
			}
			d, at = d[n:], at+n
		}
	}
}

// turns says where the numbers of an operand go, if it is spread over an output of that shape so that size numbers take
// turns, each of them for as many numbers of the output. Others have no size.
func turns(operand, out []int) (size, each int) {
	size, each = elementsOf(operand), 1
	for len(operand) > 0 && operand[0] == 1 {
		operand = operand[1:]
	}
	for len(operand) > 0 && operand[len(operand)-1] == 1 {
		last := len(out) - 1
		if last < 0 {
			return 0, 1
		}
		each *= out[last]
		operand, out = operand[:len(operand)-1], out[:last]
	}
	if len(operand) > len(out) || each == 0 || !slices.Equal(operand, out[len(out)-len(operand):]) {
		return 0, 1
	}
	return size, each
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
