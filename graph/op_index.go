package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/tensor"
)

// Gather takes the numbers of an input where an index, its second input, has them along an
// axis: gather, ONNX's GatherElements. See [index.Gather].
type Gather struct {
	Axis    int  `json:"dim"`
	FromEnd bool `json:"from_end"` // an index below zero counts from the end, as in ONNX; else it is an error, as in ATen
}

// IndexSelect takes the parts of an input along an axis that an index of any rank, its
// second input, names: index_select, and ONNX's Gather, in which an index without axes
// takes the axis away. See [index.Take].
type IndexSelect struct {
	Axis    int  `json:"dim"`
	FromEnd bool `json:"from_end"` // as of [Gather]
}

// Embedding takes rows of its first input, a table [N,D], that an index of any rank, its
// second input, names: embedding.
type Embedding struct {
	PaddingIdx int `json:"padding_idx"` // of no effect but on gradients
}

// Index takes parts of an input at places that indices, its other inputs, name along the
// first axes; their shapes spread as numpy does: index, without slices between.
type Index struct{}

// GatherND takes parts of an input at places that the last axis of an index, its second
// input, names: ONNX's. See [index.GatherND].
type GatherND struct {
	Batch int `json:"batch_dims"`
}

// OneHot makes 1 of the place that an index names along a new axis, counted in the output,
// and 0 of all others: one_hot.
type OneHot struct {
	Classes int `json:"num_classes"`
	Axis    int `json:"dim"`
}

// Name implements [Op].
func (Gather) Name() string { return "gather" }

// Name implements [Op].
func (IndexSelect) Name() string { return "index_select" }

// Name implements [Op].
func (Embedding) Name() string { return "embedding" }

// Name implements [Op].
func (Index) Name() string { return "index" }

// Name implements [Op].
func (GatherND) Name() string { return "gather_nd" }

// Name implements [Op].
func (OneHot) Name() string { return "one_hot" }

// whole returns an error if input k is not of whole numbers.
func whole(k int, t Type) error {
	if t.Format != fp16.Int64 {
		return fmt.Errorf("input %d: %v numbers: want int64 ones, an index", k, t.Format)
	}
	return nil
}

// front returns an error if a number of an index is no place of an axis of size n, counted from the
// front. ATen's gather, index_select, embedding, one_hot, scatter and index_add refuse those below
// zero. Indexing in brackets counts them from the end, and so does ONNX everywhere.
func front(index *tensor.Tensor, n int) error {
	for i, v := range index.Data {
		if n > 0 && (v < 0 || v >= float64(n)) {
			return fmt.Errorf("index%v: %.0f: want 0 to %d", tensor.Index(i, index.Shape), v, n-1)
		}
	}
	return nil
}

// indexed checks that there are an input and an index.
func indexed(in []Type) error {
	if err := arity(in, 2, 2); err != nil {
		return err
	}
	return whole(1, in[1])
}

// along checks that an index has numbers of a tensor along an axis, which it returns.
func along(at int, x, index []int) (int, error) {
	a, err := axis("dim", at, len(x))
	if err != nil {
		return 0, err
	}
	fits := len(index) == len(x)
	for i := 0; fits && i < len(x); i++ {
		fits = i == a || index[i] <= x[i]
	}
	if !fits {
		return 0, fmt.Errorf("input 1: shape %v: want an index no larger than %v but along axis %d", index, x, a)
	}
	return a, nil
}

// Infer implements [Op].
func (o Gather) Infer(m Mode, in []Type) (Inference, error) {
	if err := indexed(in); err != nil {
		return Inference{}, err
	}
	_, err := along(o.Axis, in[0].Shape, in[1].Shape)
	return moved(m, o, in, in[1].Shape, err)
}

// Infer implements [Op].
func (o IndexSelect) Infer(m Mode, in []Type) (Inference, error) {
	if err := indexed(in); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	a, err := axis("dim", o.Axis, len(x))
	if err != nil {
		return Inference{}, err
	}
	return moved(m, o, in, slices.Concat(x[:a], in[1].Shape, x[a+1:]), nil)
}

// Infer implements [Op].
func (o Embedding) Infer(m Mode, in []Type) (Inference, error) {
	if err := indexed(in); err != nil {
		return Inference{}, err
	}
	if len(in[0].Shape) != 2 {
		return Inference{}, fmt.Errorf("input 0: shape %v: want a table [N,D]", in[0].Shape)
	}
	return moved(m, o, in, slices.Concat(in[1].Shape, in[0].Shape[1:]), nil)
}

// spread returns the shape to which those of indices spread, as numpy has it.
func spread(in []Type) (shape []int, err error) {
	for _, t := range in {
		for len(shape) < len(t.Shape) {
			shape = append([]int{1}, shape...)
		}
		for i, d := range t.Shape {
			a := len(shape) - len(t.Shape) + i
			switch {
			case shape[a] == 1:
				shape[a] = d
			case d != 1 && d != shape[a]:
				return nil, fmt.Errorf("indices of shapes %v and %v: want shapes that spread to one", shape, t.Shape)
			}
		}
	}
	return shape, nil
}

// places checks the indices of the first axes of x, and returns the shape of what they
// name.
func places(x []int, in []Type) ([]int, error) {
	if len(in) < 1 || len(in) > len(x) {
		return nil, fmt.Errorf("%d indices: want 1 to %d, one for each of the first axes", len(in), len(x))
	}
	for k, t := range in {
		if err := whole(1+k, t); err != nil {
			return nil, err
		}
	}
	shape, err := spread(in)
	if err == nil {
		shape = slices.Concat(shape, x[len(in):])
		err = bounded(shape)
	}
	return shape, err
}

// Infer implements [Op].
func (o Index) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 1+mostRank); err != nil {
		return Inference{}, err
	}
	shape, err := places(in[0].Shape, in[1:])
	return moved(m, o, in, shape, err)
}

// tuples returns indices that spread to one shape as one with a last axis.
func tuples(of []*tensor.Tensor) *tensor.Tensor {
	var types []Type
	for _, t := range of {
		types = append(types, Type{Shape: t.Shape})
	}
	shape, _ := spread(types)
	all := tensor.New(fp16.Int64, append(slices.Clone(shape), len(of))...)
	for k, t := range of {
		one := tensor.New(fp16.Int64, shape...)
		index.Expand(one, t)
		for i, v := range one.Data {
			all.Data[i*len(of)+k] = v
		}
	}
	return all
}

// deep checks an index whose last axis names places in x after so many batch axes, and
// returns its rank and the axes that a place has.
func deep(batch int, x, index []int) (rank, depth int, err error) {
	rank = len(index)
	if rank == 0 || len(x) == 0 {
		return 0, 0, fmt.Errorf("input 1: shape %v of an input of shape %v: want both of rank 1 or more", index, x)
	}
	if batch < 0 || batch >= min(rank, len(x)) {
		return 0, 0, fmt.Errorf("batch_dims: %d: want 0 to %d", batch, min(rank, len(x))-1)
	}
	depth = index[rank-1]
	if depth < 1 || depth > len(x)-batch {
		return 0, 0, fmt.Errorf("input 1: last axis of size %d: want 1 to %d, the places along so many axes",
			depth, len(x)-batch)
	}
	if !slices.Equal(index[:batch], x[:batch]) {
		return 0, 0, fmt.Errorf("batch_dims: %d: want equal first sizes of %v and %v", batch, x, index)
	}
	return rank, depth, nil
}

// Infer implements [Op].
func (o GatherND) Infer(m Mode, in []Type) (Inference, error) {
	if err := indexed(in); err != nil {
		return Inference{}, err
	}
	x, i := in[0].Shape, in[1].Shape
	rank, depth, err := deep(o.Batch, x, i)
	if err != nil {
		return Inference{}, err
	}
	return moved(m, o, in, slices.Concat(i[:rank-1], x[o.Batch+depth:]), nil)
}

// Infer implements [Op].
func (o OneHot) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	if err := whole(0, in[0]); err != nil {
		return Inference{}, err
	}
	a, err := axis("dim", o.Axis, len(in[0].Shape)+1)
	if err != nil {
		return Inference{}, err
	}
	if o.Classes < 1 {
		return Inference{}, fmt.Errorf("num_classes: %d: want 1 or more", o.Classes)
	}
	return moved(m, o, in, slices.Insert(slices.Clone(in[0].Shape), a, o.Classes), nil)
}

// places returns the axis of input 0 along which an index, input 1, names places, and an error if one is
// below zero and may not be.
func (c *Call) places(at int, fromEnd bool) (int, error) {
	x := c.In(0).Shape
	a, err := axis("dim", at, len(x))
	if err == nil && !fromEnd {
		err = front(c.In(1), x[a])
	}
	return a, err
}

// Eval implements [Op].
func (o Gather) Eval(c *Call) error {
	a, err := c.places(o.Axis, o.FromEnd)
	if err != nil {
		return err
	}
	return index.Gather(c.Out[0], c.In(0), a, c.In(1))
}

// Eval implements [Op].
func (o IndexSelect) Eval(c *Call) error {
	a, err := c.places(o.Axis, o.FromEnd)
	if err != nil {
		return err
	}
	return index.Take(c.Out[0], c.In(0), a, c.In(1))
}

// Eval implements [Op].
func (Embedding) Eval(c *Call) error {
	if _, err := c.places(0, false); err != nil {
		return err
	}
	return index.Take(c.Out[0], c.In(0), 0, c.In(1))
}

// Eval implements [Op].
func (Index) Eval(c *Call) error {
	if len(c.Out[0].Data) == 0 { // of indices that may spread to any number
		return nil
	}
	return index.GatherND(c.Out[0], c.In(0), tuples(c.inputs(1, c.Inputs())), 0)
}

// inputs returns inputs lo to hi-1.
func (c *Call) inputs(lo, hi int) (of []*tensor.Tensor) {
	for k := lo; k < hi; k++ {
		of = append(of, c.In(k))
	}
	return of
}

// Eval implements [Op].
func (o GatherND) Eval(c *Call) error {
	return index.GatherND(c.Out[0], c.In(0), c.In(1), o.Batch)
}

// Eval implements [Op].
func (o OneHot) Eval(c *Call) error {
	if err := front(c.In(0), o.Classes); err != nil {
		return err
	}
	a, _ := axis("dim", o.Axis, len(c.Out[0].Shape))
	return index.OneHot(c.Out[0], c.In(0), a)
}

func init() {
	c := since2(same, same)
	register(Gather{}, c)
	register(IndexSelect{}, c)
	register(Embedding{PaddingIdx: -1}, c)
	register(Index{}, c)
	register(GatherND{}, c)
	register(OneHot{Axis: -1}, c)
}
