package judge

import (
	"errors"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Units of coarse operands compute products of float32 numbers if each number is split into parts, x = x1 + x2 + ...,
// each the nearest number to what the parts before it leave, and the products of parts are added up: of all pairs, or
// without those that are small. Such a product is one of longer rows, in which each pair has its terms.

// emulation is such a way: the format of parts, and the pairs whose products are added.
type emulation struct {
	to    rounding
	pairs [][2]int
}

// emulations are those that have names.
var emulations = map[string]emulation{
	"3xtf32": {operands["tf32"], [][2]int{{0, 0}, {0, 1}, {1, 0}}},
	"bf16x3": {operands["bfloat16"], [][2]int{{0, 0}, {0, 1}, {1, 0}}},
	"bf16x6": {operands["bfloat16"], [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}}},
	"bf16x9": {operands["bfloat16"],
		[][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}, {2, 2}}},
}

// Emulations are the names of ways to compute products of float32 numbers by units of coarser operands.
func Emulations() []string { return []string{"3xtf32", "bf16x3", "bf16x6", "bf16x9"} }

// operandsSplit is a product by one of those that are coarser than float32 arithmetic.
const operandsSplit = "kernel.operands-split"

// coarser are these.
var coarser = []string{"bf16x3", "3xtf32"}

// coarserWays are the figures of operandsSplit.
func coarserWays(q *Question, _ *trial) (all [][]float64) {
	if q.Narrow.Half() || q.Operands != "" {
		return nil
	}
	for k := range coarser {
		all = append(all, []float64{float64(k)})
	}
	return all
}

func coarserWords(_ *Question, _ string, figures []float64) string {
	return "products are those of " + coarser[int(figures[0])] + ", of operands in parts"
}

// emulation is that of a form, if its products are emulated.
func (f Form) emulation() (e emulation, is bool) {
	name, _, _ := strings.Cut(f.Operands, butOf)
	e, is = emulations[name]
	return e, is
}

// emulates reports whether a contract's products are emulated.
func (c Contract) emulates() bool {
	_, is := c.emulation()
	return is
}

// emulated is what operands of a product become if it is emulated, and false if it is not.
func (b *builder) emulated(op graph.Op, x, y int) (int, int, bool) {
	e, is := b.form.emulation()
	is = is && !b.form.leaves(b.op.Name())
	axisX, axisY, can := summedAxes(op)
	if !is && can && b.is(operandsSplit) {
		e, is = emulations[coarser[int(b.figure(0))]], true
	}
	if !is || !can {
		return x, y, false
	}
	parts := func(side int) (all []int) {
		for _, p := range e.pairs {
			all = append(all, p[side])
		}
		return all
	}
	return b.step("operand", split{e.to, parts(0), axisX}, x), b.step("operand", split{e.to, parts(1), axisY}, y), true
}

// summedAxes are the axes of operands along which a product is summed, from the end where they are below 0.
func summedAxes(op graph.Op) (x, y int, can bool) {
	if c, is := op.(graph.Conv); is {
		return 1, 1, c.Groups <= 1
	}
	return matrixAxes(op)
}

// matrixAxes are those of a product of matrices.
func matrixAxes(op graph.Op) (x, y int, can bool) {
	switch op.(type) {
	case graph.MatMul:
		return -1, -2, true
	case graph.Linear:
		return -1, -1, true
	}
	switch op.Name() {
	case "mm", "bmm", "addmm":
		return -1, -2, true
	}
	return 0, 0, false
}

// split is a tensor with one part of each number after the other along an axis.
type split struct {
	to    rounding
	parts []int
	axis  int
}

// Name implements [graph.Op].
func (split) Name() string { return "split_operand" }

// Infer implements [graph.Op].
func (o split) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 1 || len(in[0].Shape) == 0 {
		return graph.Inference{}, errors.New("want one input with an axis or more")
	}
	out := graph.Type{Shape: slices.Clone(in[0].Shape), Format: in[0].Format}
	out.Shape[o.at(in[0].Shape)] *= len(o.parts)
	return graph.Inference{Out: []graph.Type{out}}, nil
}

// at is the axis: the only one of a vector.
func (o split) at(shape []int) int {
	if o.axis < 0 {
		return max(len(shape)+o.axis, 0)
	}
	return min(o.axis, len(shape)-1)
}

// Eval implements [graph.Op].
func (o split) Eval(c *graph.Call) error {
	x, out := c.In(0), c.Out[0]
	inner := tensor.Size(x.Shape[o.at(x.Shape):])
	if inner == 0 {
		return nil
	}
	for i, v := range x.Data {
		for k, part := range o.parts {
			rest := v
			p := o.to.Round(rest)
			for range part {
				rest -= p
				p = o.to.Round(rest)
			}
			out.Data[i/inner*inner*len(o.parts)+k*inner+i%inner] = p
		}
	}
	return nil
}

// bound: the parts of a number that is not exact may each be off by as much.
func (o split) bound(in ball, out *tensor.Tensor) ([]ball, error) {
	all := ball{v: out, exact: in.r == nil}
	if in.r == nil {
		return []ball{all}, nil
	}
	o.to = rounding{Format: fp16.Float64}
	for k := range o.parts {
		o.parts = slices.Clone(o.parts)
		o.parts[k] = 0
	}
	r, err := one(o, in.r)
	all.r = r
	return []ball{all}, err
}
