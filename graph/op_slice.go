package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/internal/op/index"
)

// Slice takes the numbers from Start to before End along each of those axes, or along the
// first ones, every Step-th: slice. Numbers below zero count from the end. Beyond the ends
// there is nothing to take. Steps may be negative; then, as in ONNX, Start is brought into
// the axis. Without a start or an end it is the one from which, or to which, all is taken.
type Slice struct {
	Axes  Ints `json:"dim"`
	Start Ints `json:"start"`
	End   Ints `json:"end"`
	Step  Ints `json:"step"`
}

// Select takes the part of its input at a place along an axis, without the axis: select.
type Select struct {
	Axis  int `json:"dim"`
	Index int `json:"index"`
}

// Pad puts numbers before and after the last axes of its input, as many as Before and
// After say, which name as many axes: pad. Negative numbers cut off. Mode is constant,
// reflect, replicate (ONNX's edge) or circular (ONNX's wrap). See [index.Pad].
type Pad struct {
	Before Ints    `json:"before"`
	After  Ints    `json:"after"`
	Mode   string  `json:"mode"`
	Value  float64 `json:"value"`
}

// Name implements [Op].
func (Slice) Name() string { return "slice" }

// Name implements [Op].
func (Select) Name() string { return "select" }

// Name implements [Op].
func (Pad) Name() string { return "pad" }

// Infer implements [Op].
func (o Slice) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o Select) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// repeating are the rules of paddings that repeat numbers of the input but for the
// circular one.
var repeating = since2(same, wide)

// Infer implements [Op].
func (o Pad) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := reshaped(o, m, in)
	if p := paddings[o.Mode]; err == nil && (p == index.Reflect || p == index.Replicate) {
		inf.Out[0].Format, err = m.result(o.Name(), repeating, in[0].Format)
	}
	return inf, err
}

// Bounds returns the first number, the step and how many there are along each axis of an
// input of that shape, or an error that names the attribute.
func (o Slice) Bounds(in []int) (start, step, size []int, err error) {
	axes := []int(o.Axes)
	if len(axes) == 0 {
		for a := range min(max(len(o.Start), len(o.End), len(o.Step)), len(in)+1) {
			axes = append(axes, a)
		}
	}
	if _, err := marked("dim", axes, len(in)); err != nil {
		return nil, nil, nil, err
	}
	for _, v := range []struct {
		name string
		of   Ints
	}{{"start", o.Start}, {"end", o.End}, {"step", o.Step}} {
		if len(v.of) != 0 && len(v.of) != len(axes) {
			return nil, nil, nil, fmt.Errorf("%s: %d numbers: want %d, one for each axis", v.name, len(v.of), len(axes))
		}
	}
	start, step, size = make([]int, len(in)), ones(len(in)), slices.Clone(in)
	for i, at := range axes {
		a, _ := axis("dim", at, len(in))
		n, by := in[a], 1
		if len(o.Step) > 0 {
			by = o.Step[i]
		}
		if by == 0 {
			return nil, nil, nil, fmt.Errorf("step: 0: want another number")
		}
		first, end := 0, math.MaxInt
		low, high := 0, n // of both
		if by < 0 {
			first, end = math.MaxInt, math.MinInt
			low, high = -1, n-1
		}
		if len(o.Start) > 0 {
			first = o.Start[i]
		}
		if len(o.End) > 0 {
			end = o.End[i]
		}
		for _, v := range []*int{&first, &end} {
			if *v < 0 {
				*v += n
			}
			*v = min(max(*v, low), high)
		}
		if by < 0 && n > 0 {
			first = max(first, 0)
		}
		switch {
		case by > 0 && end > first:
			size[a] = (end-first-1)/by + 1
		case by < 0 && first > end:
			size[a] = (first-end-1)/-max(by, -math.MaxInt) + 1
		default:
			size[a] = 0
		}
		start[a], step[a] = first, by
	}
	return start, step, size, nil
}

func (o Slice) shape(in []int) ([]int, error) {
	_, _, size, err := o.Bounds(in)
	return size, err
}

func (o Select) shape(in []int) ([]int, error) {
	a, err := axis("dim", o.Axis, len(in))
	if err != nil {
		return nil, err
	}
	if n := in[a]; o.Index < -n || o.Index >= n {
		return nil, fmt.Errorf("index: %d: want a place along an axis of size %d", o.Index, n)
	}
	return slices.Delete(slices.Clone(in), a, a+1), nil
}

// paddings are the modes.
var paddings = map[string]index.Padding{
	"constant": index.Constant, "reflect": index.Reflect, "replicate": index.Replicate, "circular": index.Circular,
}

func (o Pad) shape(in []int) ([]int, error) {
	p, ok := paddings[o.Mode]
	switch {
	case !ok:
		return nil, fmt.Errorf("mode: %.40q: want constant, reflect, replicate or circular", o.Mode)
	case len(o.Before) > len(in):
		return nil, fmt.Errorf("before: %d numbers: want at most %d, one for each axis", len(o.Before), len(in))
	case len(o.After) != len(o.Before):
		return nil, fmt.Errorf("after: %d numbers: want %d, as before has", len(o.After), len(o.Before))
	}
	shape := slices.Clone(in)
	for i, before := range o.Before {
		a, after := len(in)-len(o.Before)+i, o.After[i]
		n := in[a]
		for _, v := range []struct {
			name  string
			count int
		}{{"before", before}, {"after", after}} {
			if v.count > mostElements || v.count < -mostElements {
				return nil, fmt.Errorf("%s: %d: want at most 2^40", v.name, v.count)
			}
			if p == index.Reflect && v.count > 0 && v.count >= n {
				return nil, fmt.Errorf("%s: %d: want less than the size, %d, to reflect", v.name, v.count, n)
			}
		}
		left := n + min(before, 0) + min(after, 0)
		more := max(before, after) > 0
		switch shape[a] = n + before + after; {
		case shape[a] < 0, p == index.Constant && left < 0:
			return nil, fmt.Errorf("before and after: %d and %d: want to cut off at most the size, %d", before, after, n)
		case more && p == index.Circular && left < 1, more && p != index.Constant && n == 0:
			return nil, fmt.Errorf("before and after: %d and %d: want numbers to repeat", before, after)
		}
	}
	return shape, nil
}

// Eval implements [Op].
func (o Slice) Eval(c *Call) error {
	start, step, _, err := o.Bounds(c.In(0).Shape)
	index.Slice(c.Out[0], c.In(0), start, step)
	return err
}

// Eval implements [Op].
func (o Select) Eval(c *Call) error {
	x, y := c.In(0), c.Out[0]
	a, _ := axis("dim", o.Axis, len(x.Shape))
	start := make([]int, len(x.Shape))
	if start[a] = o.Index; o.Index < 0 {
		start[a] += x.Shape[a]
	}
	index.Slice(as(y, slices.Insert(slices.Clone(y.Shape), a, 1)...), x, start, ones(len(x.Shape)))
	return nil
}

// Eval implements [Op].
func (o Pad) Eval(c *Call) error {
	x := c.In(0)
	before := make([]int, len(x.Shape))
	copy(before[len(before)-len(o.Before):], o.Before)
	index.Pad(c.Out[0], x, before, paddings[o.Mode], o.Value)
	return nil
}

func init() {
	c := since2(same, same)
	register(Slice{}, c)
	register(Select{}, c)
	register(Pad{Mode: "constant"}, c)
}
