package emulate

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Kind says how a device computes an operation that is none of the five of Spinlock's CNN.
// Such are evaluated by their definition in float64, and of how a device may err nothing
// more is known than the kind.
type Kind int

const (
	Unknown   Kind = iota
	Moves          // numbers stay what they are
	Products       // sums of products, linear in each input
	Mixes          // weighted means of a few inputs
	Transform      // Fourier transforms: errors are those of the whole transform
	Pointwise      // one operation on each number, or on two
)

// KindOf returns the kind of an operation, Unknown if right devices are not known to be
// judged by any of the others.
func KindOf(op graph.Op) Kind {
	switch op := op.(type) {
	case graph.Cat, graph.Slice, graph.Select, graph.Stack, graph.Permute, graph.Roll, graph.Cast:
		return Moves
	case graph.Pad:
		if op.Mode == "constant" && op.Value == 0 {
			return Moves
		}
	case graph.Linear, graph.Einsum, graph.Conv:
		return Products
	case graph.Interpolate:
		if op.Mode == "bilinear" || op.Mode == "nearest" {
			return Mixes
		}
	case graph.FFT:
		return Transform
	case graph.Binary:
		if n := op.Name(); n == "add" || n == "sub" || n == "mul" {
			return Pointwise
		}
	}
	return Unknown
}

// Images makes the machine one for images of h x w pixels, on which the graph of an
// operator with a spectrum depends, and returns it.
func (m *Machine) Images(h, w int) *Machine {
	m.graph = m.op.GraphOf(true, h, w)
	return m
}

// Shapes returns the shapes of all nodes' outputs for an input of that shape.
func (m *Machine) Shapes(input []int) ([][]int, error) {
	p, err := m.graph.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: input, Format: fp16.Float32})
	if err != nil {
		return nil, err
	}
	of := make([][]int, len(m.Nodes))
	for i := range m.graph.Nodes {
		of[i] = p.Type(m.graph.Nodes[i].Out[0]).Shape
	}
	return of, nil
}

// Each returns node i, an OpOther, of f of its inputs and of its parameters: of their
// magnitudes or squares, for instance, by which errors of sums are estimated.
func (m *Machine) Each(i int, in []*tensor.Tensor, f func(v float64) float64) (*tensor.Tensor, error) {
	of := func(x *tensor.Tensor) *tensor.Tensor {
		y := tensor.New(fp16.Float64, x.Shape...)
		for k, v := range x.Data {
			y.Data[k] = f(v)
		}
		return y
	}
	return m.evaluate(i, in, func(_ int, x *tensor.Tensor) *tensor.Tensor { return of(x) }, m.inputs(i))
}

// Spread returns node i, an OpOther, of other inputs, with f of its parameters: what
// errors of its inputs, or their variances, make of its output where it is linear.
func (m *Machine) Spread(i int, in []*tensor.Tensor, f func(v float64) float64) (*tensor.Tensor, error) {
	reads := 0
	for _, p := range m.Nodes[i].Params {
		if p == nil {
			reads++
		}
	}
	return m.evaluate(i, in, func(k int, x *tensor.Tensor) *tensor.Tensor {
		if k < reads {
			return x
		}
		y := tensor.New(fp16.Float64, x.Shape...)
		for k, v := range x.Data {
			y.Data[k] = f(v)
		}
		return y
	}, m.inputs(i))
}

// Terms returns how many products make a number of node i, an OpOther of Products.
func (m *Machine) Terms(i int, in []*tensor.Tensor) (int, error) {
	g, _, types := m.alone(i, in, func(_ int, x *tensor.Tensor) *tensor.Tensor { return x }, m.inputs(i))
	p, err := g.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		return 0, err
	}
	out := max(1, tensor.Size(p.Type(g.Outputs[0]).Shape))
	return max(1, int(p.Products())/out), nil
}

// inputs returns how many inputs node i has, its parameters among them.
func (m *Machine) inputs(i int) int { return len(m.graph.Nodes[i].In) }

// other returns node i, an OpOther, with operands as the device rounds them.
func (m *Machine) other(d *Device, i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
	n, mode := &m.Nodes[i], d.ModeOf(i)
	formats, _, err := n.Operands(mode, fp16.Float32)
	if err != nil {
		return nil, err
	}
	reads := slices.Index(n.Params, (*operator.Param)(nil)) // 0: parameters come behind
	round := func(k int, x *tensor.Tensor) *tensor.Tensor {
		if d.Wide.Takes(n) && k == reads || !rounds(formats[k]) {
			return x
		}
		y := tensor.New(fp16.Float64, x.Shape...)
		operand(mode, y, x, formats[k])
		return y
	}
	if c, ok := n.Other.(graph.Conv); ok && len(n.Params) == 3 && d.Apart(i, formats[1]) && d.Store != nil {
		y, err := m.evaluate(i, in, round, 2)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name(), err)
		}
		f := formats[1]
		d.round(i, y.Data, f)
		for k := range y.N() * y.C() {
			plane, b := y.Plane(k/y.C(), k%y.C()), f.Round(n.Params[2].Data[k%y.C()])
			for j := range plane {
				plane[j] += b
			}
		}
		return y, nil
	}
	return m.evaluate(i, in, round, len(n.Params))
}

// evaluate returns node i, an OpOther, of its first inputs, so many, after prepare has
// made them what they are to be, in float64.
func (m *Machine) evaluate(
	i int, in []*tensor.Tensor, prepare func(k int, x *tensor.Tensor) *tensor.Tensor, inputs int,
) (*tensor.Tensor, error) {
	g, given, types := m.alone(i, in, prepare, inputs)
	p, err := g.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(new(graph.Run), given...)
	if err != nil {
		return nil, err
	}
	y := out[0]
	for _, x := range in { // the caller changes it
		if len(x.Data) > 0 && len(y.Data) > 0 && &x.Data[0] == &y.Data[0] {
			return tensor.Of(y.Format, slices.Clone(y.Data), y.Shape...), nil
		}
	}
	return y, nil
}

// alone returns a graph of node i alone, what it is to be given, and the types of that.
func (m *Machine) alone(
	i int, in []*tensor.Tensor, prepare func(k int, x *tensor.Tensor) *tensor.Tensor, inputs int,
) (g *graph.Graph, given []*tensor.Tensor, types []graph.Type) {
	node := &m.graph.Nodes[i]
	g = graph.New(new(graph.Kept))
	var of []int
	next := 0
	for k, v := range node.In[:inputs] {
		x := m.graph.Values[v].Const
		if x == nil {
			x = in[next]
			next++
		} else if x.Format == fp16.Int64 {
			of = append(of, g.Constant("", x))
			continue
		}
		x = prepare(k, x)
		x = tensor.Of(fp16.Float64, x.Data, x.Shape...)
		given, types = append(given, x), append(types, graph.Type{Shape: x.Shape, Format: fp16.Float64})
		of = append(of, g.Input(""))
	}
	g.Outputs = []int{g.Add(node.Op, m.Nodes[i].Name, of...)}
	return g, given, types
}

// Square is for [Machine.Each] and [Machine.Spread].
func Square(v float64) float64 { return v * v }
