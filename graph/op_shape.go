package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/tensor"
)

// Reshape gives its input another shape: reshape. Of the sizes, -1 stands for what the
// others leave, and 0 for the input's own size at that place, as ONNX has it; with
// AllowZero, and in ATen, it is a size of 0.
type Reshape struct {
	Shape     Ints `json:"shape"`
	AllowZero bool `json:"allowzero"`
}

// Flatten makes one axis of those from Start to End: flatten.
type Flatten struct {
	Start int `json:"start_dim"`
	End   int `json:"end_dim"`
}

// Unflatten makes axes of those sizes, of which one may be -1, of an axis: unflatten.
type Unflatten struct {
	Axis  int  `json:"dim"`
	Sizes Ints `json:"sizes"`
}

// Squeeze drops those axes, all for none, that have size 1: squeeze.
type Squeeze struct {
	Axes Ints `json:"dim"`
}

// Unsqueeze adds axes of size 1; they are counted in the output: unsqueeze.
type Unsqueeze struct {
	Axes Ints `json:"dim"`
}

// reshaping is what the operations have in common that leave the numbers in their order.
type reshaping interface {
	Op
	shape(in []int) ([]int, error)
}

// reshaped implements Infer for them.
func reshaped(o reshaping, m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	shape, err := o.shape(in[0].Shape)
	return moved(m, o, in, shape, err)
}

// moved is the inference of an operation that moves the numbers of its first input.
func moved(m Mode, o Op, in []Type, shape []int, err error) (Inference, error) {
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[0].Format)
	return Inference{Out: []Type{{shape, f}}}, err
}

// as returns a tensor's numbers in another shape.
func as(t *tensor.Tensor, shape ...int) *tensor.Tensor {
	return &tensor.Tensor{Shape: shape, Format: t.Format, Data: t.Data}
}

// sized returns sizes of so many elements, with what is left for -1, or an error that
// names the attribute.
func sized(name string, sizes []int, elements int64) ([]int, error) {
	sizes = slices.Clone(sizes)
	open, n := -1, int64(1)
	for a, d := range sizes {
		switch {
		case d == -1 && open < 0:
			open = a
		case d == -1:
			return nil, fmt.Errorf("%s: %s: want -1 only once", name, shown(sizes))
		case d < 0:
			return nil, fmt.Errorf("%s: %d: want 0 or more, or -1", name, d)
		case d > 0 && n > mostElements/int64(d):
			return nil, fmt.Errorf("%s: %s: want at most 2^40 elements", name, shown(sizes))
		default:
			n *= int64(d)
		}
	}
	if open >= 0 && n > 0 && elements%n == 0 {
		sizes[open] = int(elements / n)
		return sizes, nil
	}
	if open >= 0 || n != elements {
		return nil, fmt.Errorf("%s: %s: want sizes of %d elements", name, shown(sizes), elements)
	}
	return sizes, nil
}

func (o Reshape) shape(in []int) ([]int, error) {
	sizes := slices.Clone([]int(o.Shape))
	for a, d := range sizes {
		if d != 0 || o.AllowZero {
			continue
		}
		if a >= len(in) {
			return nil, fmt.Errorf("shape: 0 at axis %d: want one that the input of shape %v has", a, in)
		}
		sizes[a] = in[a]
	}
	return sized("shape", sizes, Type{Shape: in}.elements())
}

func (o Flatten) shape(in []int) ([]int, error) {
	rank := max(len(in), 1) // a number is flattened to one axis
	start, err := axis("start_dim", o.Start, rank)
	if err != nil {
		return nil, err
	}
	end, err := axis("end_dim", o.End, rank)
	if err != nil {
		return nil, err
	}
	if end < start {
		return nil, fmt.Errorf("end_dim: %d: want no axis before start_dim, %d", o.End, o.Start)
	}
	if len(in) == 0 {
		return []int{1}, nil
	}
	n := Type{Shape: in[start : end+1]}.elements()
	return slices.Concat(in[:start], []int{int(n)}, in[end+1:]), nil
}

func (o Unflatten) shape(in []int) ([]int, error) {
	a, err := axis("dim", o.Axis, len(in))
	if err != nil {
		return nil, err
	}
	if len(o.Sizes) == 0 {
		return nil, fmt.Errorf("sizes: none: want one or more")
	}
	sizes, err := sized("sizes", o.Sizes, int64(in[a]))
	if err != nil {
		return nil, err
	}
	return slices.Concat(in[:a], sizes, in[a+1:]), nil
}

// marked returns which axes of a rank are named, or an error for one that is not there or
// is named twice.
func marked(name string, axes []int, rank int) ([]bool, error) {
	of := make([]bool, rank)
	for _, a := range axes {
		i, err := axis(name, a, rank)
		if err != nil {
			return nil, err
		}
		if of[i] {
			return nil, fmt.Errorf("%s: %d: want each axis once", name, a)
		}
		of[i] = true
	}
	return of, nil
}

func (o Squeeze) shape(in []int) ([]int, error) {
	drop, err := marked("dim", o.Axes, len(in))
	if err != nil {
		return nil, err
	}
	shape := []int{}
	for a, d := range in {
		if d != 1 || len(o.Axes) > 0 && !drop[a] {
			shape = append(shape, d)
		}
	}
	return shape, nil
}

func (o Unsqueeze) shape(in []int) ([]int, error) {
	if len(o.Axes) == 0 {
		return nil, fmt.Errorf("dim: none: want one or more")
	}
	if len(o.Axes) > mostRank {
		return nil, fmt.Errorf("dim: %d axes: want at most %d", len(o.Axes), mostRank)
	}
	added, err := marked("dim", o.Axes, len(in)+len(o.Axes))
	if err != nil {
		return nil, err
	}
	shape := []int{}
	for _, new := range added {
		if new {
			shape = append(shape, 1)
		} else {
			shape, in = append(shape, in[0]), in[1:]
		}
	}
	return shape, nil
}

// Name implements [Op].
func (Reshape) Name() string { return "reshape" }

// Name implements [Op].
func (Flatten) Name() string { return "flatten" }

// Name implements [Op].
func (Unflatten) Name() string { return "unflatten" }

// Name implements [Op].
func (Squeeze) Name() string { return "squeeze" }

// Name implements [Op].
func (Unsqueeze) Name() string { return "unsqueeze" }

// Infer implements [Op].
func (o Reshape) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Flatten) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Unflatten) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Squeeze) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Unsqueeze) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// copied implements Eval where the output cannot share its input's memory.
func copied(c *Call) error {
	copy(c.Out[0].Data, c.In(0).Data)
	return nil
}

// Eval implements [Op].
func (Reshape) Eval(c *Call) error { return copied(c) }

// Eval implements [Op].
func (Flatten) Eval(c *Call) error { return copied(c) }

// Eval implements [Op].
func (Unflatten) Eval(c *Call) error { return copied(c) }

// Eval implements [Op].
func (Squeeze) Eval(c *Call) error { return copied(c) }

// Eval implements [Op].
func (Unsqueeze) Eval(c *Call) error { return copied(c) }

func (Reshape) view()   {}
func (Flatten) view()   {}
func (Unflatten) view() {}
func (Squeeze) view()   {}
func (Unsqueeze) view() {}

func init() {
	c := since2(same, same)
	register(Reshape{}, c)
	register(Flatten{End: -1}, c)
	register(Unflatten{}, c)
	register(Squeeze{}, c)
	register(Unsqueeze{}, c)
}
