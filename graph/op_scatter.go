package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/tensor"
)

// Scatter puts the numbers of a source, its third input, into its first, along an axis
// where an index, its second, says: scatter, of which the last one in the order of the
// index stays, scatter_add, scatter_reduce, and ONNX's ScatterElements. See
// [index.Scatter].
type Scatter struct {
	Axis    int  `json:"dim"`
	FromEnd bool `json:"from_end"` // an index below zero counts from the end, as in ONNX; else it is an error, as in ATen
}

// ScatterAdd adds them: scatter_add.
type ScatterAdd struct {
	Axis    int  `json:"dim"`
	FromEnd bool `json:"from_end"` // as of [Gather]
}

// ScatterReduce makes the sum, mean, amax or amin of them, with the old number or, where
// one comes, without: scatter_reduce.
type ScatterReduce struct {
	Axis    int    `json:"dim"`
	Reduce  string `json:"reduce"`
	Include bool   `json:"include_self"`
	FromEnd bool   `json:"from_end"` // as of [Gather]
}

// IndexAdd adds the parts of a source, its third input, to its first, along an axis where
// an index [n], its second, says: index_add. See [index.IndexAdd].
type IndexAdd struct {
	Axis    int  `json:"dim"`
	FromEnd bool `json:"from_end"` // as of [Gather]
}

// IndexReduce makes the sum, mean, amax or amin of them: index_reduce.
type IndexReduce struct {
	Axis    int    `json:"dim"`
	Reduce  string `json:"reduce"`
	Include bool   `json:"include_self"`
	FromEnd bool   `json:"from_end"` // as of [Gather]
}

// IndexPut puts values, its last input, into its first at places that indices, the inputs
// between, name along the first axes, or adds them: index_put. Shapes spread as numpy
// does.
type IndexPut struct {
	Accumulate bool `json:"accumulate"`
}

// ScatterND puts the parts of a source, its third input, into its first at places that the
// last axis of an index, its second, names: ONNX's. Reduce is none, sum, amax or amin. See
// [index.ScatterND].
type ScatterND struct {
	Reduce string `json:"reduce"`
}

// Name implements [Op].
func (Scatter) Name() string { return "scatter" }

// Name implements [Op].
func (ScatterAdd) Name() string { return "scatter_add" }

// Name implements [Op].
func (ScatterReduce) Name() string { return "scatter_reduce" }

// Name implements [Op].
func (IndexAdd) Name() string { return "index_add" }

// Name implements [Op].
func (IndexReduce) Name() string { return "index_reduce" }

// Name implements [Op].
func (IndexPut) Name() string { return "index_put" }

// Name implements [Op].
func (ScatterND) Name() string { return "scatter_nd" }

// reductions are what may become of numbers that come to one place.
var reductions = map[string]index.Reduction{
	"none": index.Last, "sum": index.Sum, "mean": index.Mean, "amax": index.Max, "amin": index.Min,
}

// reduction checks that an attribute is one of names.
func reduction(of string, x Type, names ...string) error {
	if !slices.Contains(names, of) {
		return fmt.Errorf("reduce: %.40q: want one of %v", of, names)
	}
	if of == "mean" && x.Format == fp16.Int64 {
		return fmt.Errorf("reduce: mean of int64 numbers: want floating-point ones")
	}
	return nil
}

// added is the inference of an operation that changes its first input by a source. They
// are of one format, but for the operations that autocast promotes.
func added(m Mode, o Op, x, source Type) (Inference, error) {
	f, err := m.Result(o.Name(), x.Format, source.Format)
	if err != nil {
		return Inference{}, err
	}
	promotes := m.Autocast != NoAutocast && registry[o.Name()].casts[m.Autocast-CUDA113] == most
	if x.Format != source.Format && !promotes {
		return Inference{}, fmt.Errorf("a source of %v numbers: want %v ones, as the input has", source.Format, x.Format)
	}
	return Inference{Out: []Type{{x.Shape, f}}}, nil
}

// scattered is the inference of the operations with an index for each number.
func scattered(m Mode, o Op, at int, in []Type) (Inference, error) {
	if err := arity(in, 3, 3); err != nil {
		return Inference{}, err
	}
	if err := whole(1, in[1]); err != nil {
		return Inference{}, err
	}
	if _, err := along(at, in[0].Shape, in[1].Shape); err != nil {
		return Inference{}, err
	}
	for a, d := range in[1].Shape {
		if len(in[2].Shape) != len(in[1].Shape) || d > in[2].Shape[a] {
			return Inference{}, fmt.Errorf("input 2: shape %v: want a source no smaller than the index, %v",
				in[2].Shape, in[1].Shape)
		}
	}
	return added(m, o, in[0], in[2])
}

// Infer implements [Op].
func (o Scatter) Infer(m Mode, in []Type) (Inference, error) { return scattered(m, o, o.Axis, in) }

// Infer implements [Op].
func (o ScatterAdd) Infer(m Mode, in []Type) (Inference, error) { return scattered(m, o, o.Axis, in) }

// Infer implements [Op].
func (o ScatterReduce) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := scattered(m, o, o.Axis, in)
	if err == nil {
		err = reduction(o.Reduce, in[0], "sum", "mean", "amax", "amin")
	}
	return inf, err
}

// lined is the inference of the operations with an index for each part along an axis.
func lined(m Mode, o Op, at int, in []Type) (Inference, error) {
	if err := arity(in, 3, 3); err != nil {
		return Inference{}, err
	}
	if err := whole(1, in[1]); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	a, err := axis("dim", at, len(x))
	if err != nil {
		return Inference{}, err
	}
	if len(in[1].Shape) != 1 {
		return Inference{}, fmt.Errorf("input 1: shape %v: want an index [n]", in[1].Shape)
	}
	if want := slices.Concat(x[:a], in[1].Shape, x[a+1:]); !slices.Equal(in[2].Shape, want) {
		return Inference{}, fmt.Errorf("input 2: shape %v: want %v, a part for each number of the index", in[2].Shape, want)
	}
	return added(m, o, in[0], in[2])
}

// Infer implements [Op].
func (o IndexAdd) Infer(m Mode, in []Type) (Inference, error) { return lined(m, o, o.Axis, in) }

// Infer implements [Op].
func (o IndexReduce) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := lined(m, o, o.Axis, in)
	if err == nil {
		err = reduction(o.Reduce, in[0], "sum", "mean", "amax", "amin")
	}
	return inf, err
}

// Infer implements [Op].
func (o IndexPut) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 3, 2+mostRank); err != nil {
		return Inference{}, err
	}
	last := in[len(in)-1]
	shape, err := places(in[0].Shape, in[1:len(in)-1])
	if err != nil {
		return Inference{}, err
	}
	both, err := spread([]Type{{Shape: shape}, last})
	if err != nil || !slices.Equal(both, shape) {
		return Inference{}, fmt.Errorf("input %d: shape %v: want one that spreads to %v", len(in)-1, last.Shape, shape)
	}
	return added(m, o, in[0], last)
}

// Infer implements [Op].
func (o ScatterND) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 3, 3); err != nil {
		return Inference{}, err
	}
	if err := whole(1, in[1]); err != nil {
		return Inference{}, err
	}
	x, i := in[0].Shape, in[1].Shape
	rank, depth, err := deep(0, x, i)
	if err != nil {
		return Inference{}, err
	}
	if want := slices.Concat(i[:rank-1], x[depth:]); !slices.Equal(in[2].Shape, want) {
		return Inference{}, fmt.Errorf("input 2: shape %v: want %v, a part for each place of the index", in[2].Shape, want)
	}
	if err := reduction(o.Reduce, in[0], "none", "sum", "amax", "amin"); err != nil {
		return Inference{}, err
	}
	return added(m, o, in[0], in[2])
}

// scatter evaluates the operations with an index for each number.
func scatter(c *Call, at int, fromEnd bool, how index.Reduction, include bool) error {
	a, err := c.places(at, fromEnd)
	if err != nil {
		return err
	}
	return index.Scatter(c.Out[0], c.In(0), a, c.In(1), c.In(2), how, include)
}

// Eval implements [Op].
func (o Scatter) Eval(c *Call) error { return scatter(c, o.Axis, o.FromEnd, index.Last, false) }

// Eval implements [Op].
func (o ScatterAdd) Eval(c *Call) error { return scatter(c, o.Axis, o.FromEnd, index.Sum, true) }

// Eval implements [Op].
func (o ScatterReduce) Eval(c *Call) error {
	return scatter(c, o.Axis, o.FromEnd, reductions[o.Reduce], o.Include)
}

// Eval implements [Op].
func (o IndexAdd) Eval(c *Call) error {
	return IndexReduce{o.Axis, "sum", true, o.FromEnd}.Eval(c)
}

// Eval implements [Op].
func (o IndexReduce) Eval(c *Call) error {
	a, err := c.places(o.Axis, o.FromEnd)
	if err != nil {
		return err
	}
	return index.IndexAdd(c.Out[0], c.In(0), a, c.In(1), c.In(2), reductions[o.Reduce], o.Include)
}

// Eval implements [Op].
func (o IndexPut) Eval(c *Call) error {
	if len(c.Out[0].Data) == 0 {
		return nil
	}
	x, n := c.In(0), c.Inputs()-1
	i, values, how := tuples(c.inputs(1, n)), c.In(n), index.Last
	all := tensor.New(values.Format, slices.Concat(i.Shape[:len(i.Shape)-1], x.Shape[n-1:])...)
	index.Expand(all, values)
	if o.Accumulate {
		how = index.Sum
	}
	return index.ScatterND(c.Out[0], x, i, all, how)
}

// Eval implements [Op].
func (o ScatterND) Eval(c *Call) error {
	return index.ScatterND(c.Out[0], c.In(0), c.In(1), c.In(2), reductions[o.Reduce])
}

func (Scatter) inPlace()       {}
func (ScatterAdd) inPlace()    {}
func (ScatterReduce) inPlace() {}
func (IndexAdd) inPlace()      {}
func (IndexReduce) inPlace()   {}
func (IndexPut) inPlace()      {}
func (ScatterND) inPlace()     {}

func init() {
	register(Scatter{}, since2(same, same))
	register(ScatterAdd{}, since2(most, same))
	register(ScatterReduce{Reduce: "sum", Include: true}, since2(same, same))
	register(IndexAdd{}, since2(same, same))
	register(IndexReduce{Reduce: "mean", Include: true}, since2(same, same))
	register(IndexPut{}, since2(most, same))
	register(ScatterND{Reduce: "none"}, since2(same, same))
}
