package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/op/index"
)

// Permute puts the axes in another order: axis a of the output is axis Axes[a] of the
// input. Without axes it turns the order round, as ONNX's Transpose does: permute.
type Permute struct {
	Axes Ints `json:"dims"`
}

// Transpose exchanges two axes: transpose.
type Transpose struct {
	A int `json:"dim0"`
	B int `json:"dim1"`
}

// Expand repeats its input along axes in which it has size 1, and along new axes in front:
// expand. A size of -1, and of 1, is the input's own; there may be fewer sizes than axes,
// as in ONNX's Expand.
type Expand struct {
	Size Ints `json:"size"`
}

// Repeat repeats its input so many times along each axis. More numbers than axes are for
// new axes in front, and those that lack are 1: ATen's repeat and tile.
type Repeat struct {
	Repeats Ints `json:"repeats"`
}

// RepeatInterleave repeats each number so many times along an axis, or, without an axis,
// in one line of all: repeat_interleave.
type RepeatInterleave struct {
	Repeats int  `json:"repeats"`
	Axis    *int `json:"dim"`
}

// Flip turns those axes round: flip.
type Flip struct {
	Axes Ints `json:"dims"`
}

// Roll moves the numbers along those axes, or, without axes, along one line of all; what
// goes beyond the end comes in at the front: roll.
type Roll struct {
	Shifts Ints `json:"shifts"`
	Axes   Ints `json:"dims"`
}

// Triangle keeps one side of the diagonal j = i + Diagonal of the matrices that the last
// two axes are, and the diagonal: tril, or triu if Upper.
type Triangle struct {
	Upper    bool `json:"-"`
	Diagonal int  `json:"diagonal"`
}

// Name implements [Op].
func (Permute) Name() string { return "permute" }

// Name implements [Op].
func (Transpose) Name() string { return "transpose" }

// Name implements [Op].
func (Expand) Name() string { return "expand" }

// Name implements [Op].
func (Repeat) Name() string { return "repeat" }

// Name implements [Op].
func (RepeatInterleave) Name() string { return "repeat_interleave" }

// Name implements [Op].
func (Flip) Name() string { return "flip" }

// Name implements [Op].
func (Roll) Name() string { return "roll" }

// Name implements [Op].
func (o Triangle) Name() string {
	if o.Upper {
		return "triu"
	}
	return "tril"
}

// Infer implements [Op].
func (o Permute) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Transpose) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Expand) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Repeat) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o RepeatInterleave) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Flip) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Roll) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Triangle) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// order returns which axis of the input each axis of the output is.
func (o Permute) order(rank int) ([]int, error) {
	order := make([]int, rank)
	for a := range order {
		order[a] = rank - 1 - a
	}
	if len(o.Axes) == 0 {
		return order, nil
	}
	if len(o.Axes) != rank {
		return nil, fmt.Errorf("dims: %d axes: want all %d of the input", len(o.Axes), rank)
	}
	if _, err := marked("dims", o.Axes, rank); err != nil {
		return nil, err
	}
	for a, of := range o.Axes {
		order[a], _ = axis("dims", of, rank)
	}
	return order, nil
}

func (o Permute) shape(in []int) ([]int, error) {
	order, err := o.order(len(in))
	for a, of := range order {
		order[a] = in[of]
	}
	return order, err
}

func (o Transpose) order(rank int) ([]int, error) {
	least := max(rank, 1) // the axis of a number is 0
	a, err := axis("dim0", o.A, least)
	if err != nil {
		return nil, err
	}
	b, err := axis("dim1", o.B, least)
	if err != nil {
		return nil, err
	}
	order := make([]int, rank)
	for i := range order {
		order[i] = i
	}
	if rank > 0 {
		order[a], order[b] = b, a
	}
	return order, nil
}

func (o Transpose) shape(in []int) ([]int, error) {
	order, err := o.order(len(in))
	for a, of := range order {
		order[a] = in[of]
	}
	return order, err
}

func (o Expand) shape(in []int) ([]int, error) {
	rank := max(len(o.Size), len(in))
	if rank > mostRank {
		return nil, fmt.Errorf("size: %d axes: want at most %d", rank, mostRank)
	}
	shape := make([]int, rank)
	copy(shape[rank-len(in):], in)
	for i, d := range o.Size {
		a := rank - len(o.Size) + i
		own := a >= rank-len(in)
		switch {
		case own && (d == -1 || d == 1 || d == shape[a]):
		case d >= 0 && (!own || shape[a] == 1):
			shape[a] = d
		case own:
			return nil, fmt.Errorf("size: %d: want %d, the input's size, or -1 or 1", d, shape[a])
		default:
			return nil, fmt.Errorf("size: %d: want 0 or more for a new axis", d)
		}
	}
	return shape, nil
}

// times returns a size times a number, or an error that names the attribute.
func times(name string, size, by int) (int, error) {
	if by < 0 || size > 0 && by > mostElements/size {
		return 0, fmt.Errorf("%s: %d: want 0 or more, and an output of at most 2^40 elements", name, by)
	}
	return size * by, nil
}

func (o Repeat) shape(in []int) (shape []int, err error) {
	rank := max(len(o.Repeats), len(in))
	if rank > mostRank {
		return nil, fmt.Errorf("repeats: %d axes: want at most %d", rank, mostRank)
	}
	shape = ones(rank)
	copy(shape[rank-len(in):], in)
	for i, by := range o.Repeats {
		a := rank - len(o.Repeats) + i
		if shape[a], err = times("repeats", shape[a], by); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

func (o RepeatInterleave) shape(in []int) (shape []int, err error) {
	a := 0
	if o.Axis == nil {
		shape = []int{int(Type{Shape: in}.elements())}
	} else {
		shape = slices.Clone(in)
		if a, err = axis("dim", *o.Axis, len(in)); err != nil {
			return nil, err
		}
	}
	shape[a], err = times("repeats", shape[a], o.Repeats)
	return shape, err
}

func (o Flip) shape(in []int) ([]int, error) {
	_, err := marked("dims", o.Axes, len(in))
	return in, err
}

func (o Roll) shape(in []int) ([]int, error) {
	if len(o.Shifts) != max(len(o.Axes), 1) {
		return nil, fmt.Errorf("shifts: %d numbers: want %d, one for each of dims, or one", len(o.Shifts),
			max(len(o.Axes), 1))
	}
	for _, a := range o.Axes {
		if _, err := axis("dims", a, len(in)); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (o Triangle) shape(in []int) ([]int, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("input of shape %v: want two axes or more", in)
	}
	return in, nil
}

// Eval implements [Op].
func (o Permute) Eval(c *Call) error {
	order, err := o.order(len(c.In(0).Shape))
	index.Permute(c.Out[0], c.In(0), order...)
	return err
}

// Eval implements [Op].
func (o Transpose) Eval(c *Call) error {
	order, err := o.order(len(c.In(0).Shape))
	index.Permute(c.Out[0], c.In(0), order...)
	return err
}

// Eval implements [Op].
func (o Expand) Eval(c *Call) error {
	index.Expand(c.Out[0], c.In(0))
	return nil
}

// Eval implements [Op].
func (o Repeat) Eval(c *Call) error {
	index.Repeat(c.Out[0], c.In(0))
	return nil
}

// Eval implements [Op].
func (o RepeatInterleave) Eval(c *Call) error {
	x, a := c.In(0), 0
	if o.Axis == nil {
		x = as(x, len(x.Data))
	} else {
		a, _ = axis("dim", *o.Axis, len(x.Shape))
	}
	index.RepeatInterleave(c.Out[0], x, a, o.Repeats)
	return nil
}

// Eval implements [Op].
func (o Flip) Eval(c *Call) error {
	x := c.In(0)
	turned, err := marked("dims", o.Axes, len(x.Shape))
	start, step := make([]int, len(x.Shape)), ones(len(x.Shape))
	for a, is := range turned {
		if is {
			start[a], step[a] = x.Shape[a]-1, -1
		}
	}
	index.Slice(c.Out[0], x, start, step)
	return err
}

// Eval implements [Op].
func (o Roll) Eval(c *Call) error {
	x, y, axes := c.In(0), c.Out[0], o.Axes
	if len(axes) == 0 {
		x, y, axes = as(x, len(x.Data)), as(y, len(y.Data)), Ints{0}
	}
	shift := make([]int, len(x.Shape))
	for i, at := range axes {
		a, _ := axis("dims", at, len(x.Shape))
		if n := x.Shape[a]; n > 0 {
			shift[a] = (shift[a] + o.Shifts[i]%n) % n
		}
	}
	index.Roll(y, x, shift)
	return nil
}

// Eval implements [Op].
func (o Triangle) Eval(c *Call) error {
	index.Triangle(c.Out[0], c.In(0), o.Diagonal, o.Upper)
	return nil
}

func init() {
	c := since2(same, same)
	register(Permute{}, c)
	register(Transpose{}, c)
	register(Expand{}, c)
	register(Repeat{}, c)
	register(RepeatInterleave{}, c)
	register(Flip{}, c)
	register(Roll{}, c)
	register(Triangle{}, c)
	register(Triangle{Upper: true}, c)
}
