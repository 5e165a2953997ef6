package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/tensor"
)

// ArgMax is the place of the greatest number along an axis, or, without an axis, in one
// line of all; of the least one if Least: argmax, argmin. See [index.ArgMax].
type ArgMax struct {
	Least bool `json:"-"`
	Axis  *int `json:"dim"`
	Keep  bool `json:"keepdim"`
}

// Sort puts the numbers along an axis in order. Its second output is where they were. It
// is stable, whatever Stable says: sort. See [index.Sort].
type Sort struct {
	Axis       int  `json:"dim"`
	Descending bool `json:"descending"`
	Stable     bool `json:"stable"`
}

// TopK takes the K greatest numbers along an axis, or the least ones, and where they were,
// as its second output: topk. They are in order, whatever Sorted says, and of equal ones
// the first come first.
type TopK struct {
	K       int  `json:"k"`
	Axis    int  `json:"dim"`
	Largest bool `json:"largest"`
	Sorted  bool `json:"sorted"`
}

// Name implements [Op].
func (o ArgMax) Name() string {
	if o.Least {
		return "argmin"
	}
	return "argmax"
}

// Name implements [Op].
func (Sort) Name() string { return "sort" }

// Name implements [Op].
func (TopK) Name() string { return "topk" }

// Infer implements [Op].
func (o ArgMax) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	shape, n := []int{}, int(in[0].elements())
	if o.Axis != nil {
		a, err := axis("dim", *o.Axis, max(len(x), 1))
		if err != nil {
			return Inference{}, err
		}
		if shape = slices.Clone(x); len(x) > 0 {
			n = x[a]
			if shape[a] = 1; !o.Keep {
				shape = slices.Delete(shape, a, a+1)
			}
		}
	} else if o.Keep {
		shape = ones(len(x))
	}
	if n == 0 {
		return Inference{}, fmt.Errorf("input of shape %v: want numbers, of which one is the greatest", x)
	}
	inf, err := moved(m, o, in, shape, nil)
	if err == nil {
		inf.Out[0].Format = fp16.Int64
	}
	return inf, err
}

// ordered is the inference of operations that return k numbers along an axis, and places.
func ordered(m Mode, o Op, in []Type, at int, k *int) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	shape := slices.Clone(in[0].Shape)
	a, err := axis("dim", at, max(len(shape), 1))
	if err != nil {
		return Inference{}, err
	}
	if k != nil {
		n := 1 // of a number
		if len(shape) > 0 {
			n = shape[a]
		}
		if *k < 0 || *k > n || *k != 1 && len(shape) == 0 {
			return Inference{}, fmt.Errorf("k: %d: want 0 to %d, the numbers along the axis", *k, n)
		}
		if len(shape) > 0 {
			shape[a] = *k
		}
	}
	inf, err := moved(m, o, in, shape, nil)
	if err == nil {
		inf.Out = append(inf.Out, Type{shape, fp16.Int64})
	}
	return inf, err
}

// Infer implements [Op].
func (o Sort) Infer(m Mode, in []Type) (Inference, error) { return ordered(m, o, in, o.Axis, nil) }

// Infer implements [Op].
func (o TopK) Infer(m Mode, in []Type) (Inference, error) { return ordered(m, o, in, o.Axis, &o.K) }

// lineal returns a tensor, of which a number is a line of one.
func lineal(t *tensor.Tensor) *tensor.Tensor {
	if len(t.Shape) == 0 {
		return as(t, 1)
	}
	return t
}

// Eval implements [Op].
func (o ArgMax) Eval(c *Call) error {
	x, a := lineal(c.In(0)), 0
	if o.Axis == nil {
		x = as(x, len(x.Data))
	} else {
		a, _ = axis("dim", *o.Axis, len(x.Shape))
	}
	index.ArgMax(c.Out[0], x, a, o.Least)
	return nil
}

// inOrder evaluates sort and topk.
func inOrder(c *Call, at int, descending bool) error {
	x := lineal(c.In(0))
	a, _ := axis("dim", at, len(x.Shape))
	index.Sort(lineal(c.Out[0]), lineal(c.Out[1]), x, a, descending)
	return nil
}

// Eval implements [Op].
func (o Sort) Eval(c *Call) error { return inOrder(c, o.Axis, o.Descending) }

// Eval implements [Op].
func (o TopK) Eval(c *Call) error { return inOrder(c, o.Axis, o.Largest) }

func init() {
	c := since2(same, same)
	register(ArgMax{}, c)
	register(ArgMax{Least: true}, c)
	register(Sort{Axis: -1}, c)
	register(TopK{K: 1, Axis: -1, Largest: true, Sorted: true}, c)
}
