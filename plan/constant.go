package plan

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// constantStage is an operation with a constant of each channel.
type constantStage struct {
	of       func(dst, x []float32, s *[8]float32)
	by       [][8]float32 // in blocks of channels
	channels int
}

func (s constantStage) apply(dst, src []float32, n, b, y int, w *worker) {
	s.of(dst, src, &s.by[b])
	clean(dst, 8*(b+1)-s.channels)
}

// byChannel returns numbers of channels in blocks.
func byChannel(v []float64) [][8]float32 {
	s := make([][8]float32, (len(v)+7)/8)
	for i, v := range v {
		s[i/8][i%8] = float32(v)
	}
	return s
}

// withConstants compiles an operation on an image of float32 numbers and a constant: one number, or one of each
// channel.
func (c *compiler) withConstants(i int, op graph.Binary, d *describer) bool {
	n, to := &c.g.Nodes[i], c.p.program.Type(c.g.Nodes[i].Out[0])
	k := slices.IndexFunc(n.In, func(v int) bool { return c.values[v] != nil })
	if k < 0 || to.Format != fp16.Float32 || op.Alpha != nil {
		return false
	}
	x := c.values[n.In[k]]
	if x.virtual == nil || !slices.Equal(x.of.Shape, to.Shape) || x.of.Format != to.Format ||
		slices.ContainsFunc(n.In, func(v int) bool { return c.p.program.Type(v).Format != to.Format }) {
		return false
	}
	channels, first := to.Shape[1], k == 0
	by := make([]float64, channels)
	switch {
	case op.Self != nil || op.Other != nil:
		first = op.Self == nil
		v := op.Other
		if !first {
			v = op.Self
		}
		for j := range by {
			by[j] = c.p.mode.Scalar(*v, to.Format)
		}
	case !c.ofChannels(n.In[1-k], by):
		return false
	}
	of := withConstant(op.Of, by, first)
	if of == nil {
		return false
	}
	d.Op, d.Kernel = op.Name(), kernelName("rows")
	c.append(n.Out[0], x, constantStage{of, byChannel(by), channels}, to, d)
	return true
}

// ofChannels sets by to a constant that is one number, or one of each channel.
func (c *compiler) ofChannels(v int, by []float64) bool {
	t := c.g.Values[v].Const
	if t == nil || len(t.Data) != 1 && (len(t.Data) != len(by) || len(t.Shape) < 3 || t.Shape[len(t.Shape)-3] != len(by)) {
		return false
	}
	for j := range by {
		by[j] = t.Data[j%len(t.Data)]
	}
	return true
}

// withConstant returns what rows do with numbers, the first operand or the second, and constants, which it may set
// anew; nil if there is nothing.
func withConstant(op pointwise.Op, by []float64, first bool) func(dst, x []float32, s *[8]float32) {
	r := rows.New(fp16.Float32)
	is := func(what func(v float64) bool) bool { return slices.ContainsFunc(by, what) }
	nan := is(func(v float64) bool { return v != v })
	switch {
	case op == pointwise.Add:
		return r.Shift
	case op == pointwise.Mul:
		return r.Scale
	case op == pointwise.Div && first:
		return r.Divide
	case op == pointwise.Sub && first:
		for i, v := range by {
			by[i] = -v
		}
		return r.Shift
	case op == pointwise.Maximum && !nan && is(func(v float64) bool { return v == 0 && !math.Signbit(v) }):
		return func(dst, x []float32, s *[8]float32) {
			r.Most(dst, x, s) // of zeros that of x
			r.Shift(dst, dst, new([8]float32))
		}
	case op == pointwise.Maximum && !nan:
		return r.Most
	case op == pointwise.Minimum && !nan && !is(func(v float64) bool { return v == 0 && math.Signbit(v) }):
		return r.Least
	}
	return nil
}
