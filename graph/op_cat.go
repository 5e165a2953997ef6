package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/tensor"
)

// Cat joins its inputs, at least one, along an axis: cat. See [index.Cat].
type Cat struct {
	Axis int `json:"dim"`
}

// Stack joins its inputs, at least one, along a new axis, counted in the output: stack.
type Stack struct {
	Axis int `json:"dim"`
}

// Split cuts its input along an axis into parts of those sizes; a single size is that of
// all parts but the last, which has what is left: split.
type Split struct {
	Sizes Ints `json:"split_size"`
	Axis  int  `json:"dim"`
}

// Chunk cuts its input along an axis into so many parts, or fewer, of sizes that are equal
// but for the last: chunk.
type Chunk struct {
	Chunks int `json:"chunks"`
	Axis   int `json:"dim"`
}

// Unbind cuts its input into its parts along an axis, without the axis: unbind.
type Unbind struct {
	Axis int `json:"dim"`
}

// mostOutputs is how many outputs a node may have.
const mostOutputs = 1 << 16

// Name implements [Op].
func (Cat) Name() string { return "cat" }

// Name implements [Op].
func (Stack) Name() string { return "stack" }

// Name implements [Op].
func (Split) Name() string { return "split" }

// Name implements [Op].
func (Chunk) Name() string { return "chunk" }

// Name implements [Op].
func (Unbind) Name() string { return "unbind" }

// Infer implements [Op].
func (o Cat) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) == 0 {
		return Inference{}, fmt.Errorf("0 inputs: want 1 or more")
	}
	shape := slices.Clone(in[0].Shape)
	a, err := axis("dim", o.Axis, len(shape))
	if err != nil {
		return Inference{}, err
	}
	var formats []fp16.Format
	shape[a] = 0
	for k, t := range in {
		fits := len(t.Shape) == len(shape)
		for i := 0; fits && i < len(shape); i++ {
			fits = i == a || t.Shape[i] == shape[i]
		}
		if !fits {
			return Inference{}, fmt.Errorf("input %d: shape %v: want that of input 0, %v, but for axis %d",
				k, t.Shape, in[0].Shape, a)
		}
		if shape[a] += t.Shape[a]; shape[a] > mostElements || shape[a] < 0 {
			return Inference{}, fmt.Errorf("input %d: too long an output: want at most 2^40 elements", k)
		}
		formats = append(formats, t.Format)
	}
	f, err := m.Result(o.Name(), formats...)
	return Inference{Out: []Type{{shape, f}}}, err
}

// Infer implements [Op].
func (o Stack) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) == 0 {
		return Inference{}, fmt.Errorf("0 inputs: want 1 or more")
	}
	a, err := axis("dim", o.Axis, len(in[0].Shape)+1)
	if err != nil {
		return Inference{}, err
	}
	var formats []fp16.Format
	for k, t := range in {
		if !slices.Equal(t.Shape, in[0].Shape) {
			return Inference{}, fmt.Errorf("input %d: shape %v: want that of input 0, %v", k, t.Shape, in[0].Shape)
		}
		formats = append(formats, t.Format)
	}
	f, err := m.Result(o.Name(), formats...)
	return Inference{Out: []Type{{slices.Insert(slices.Clone(in[0].Shape), a, len(in)), f}}}, err
}

// parts returns the sizes of the parts of an axis.
func (o Split) parts(n int) ([]int, error) {
	if len(o.Sizes) == 1 && o.Sizes[0] != n {
		return equal("split_size", n, o.Sizes[0])
	}
	left := n
	for _, s := range o.Sizes {
		if s < 0 || s > left {
			left = -1
			break
		}
		left -= s
	}
	if left != 0 || len(o.Sizes) == 0 {
		return nil, fmt.Errorf("split_size: %s: want sizes that add up to %d", shown(o.Sizes), n)
	}
	return o.Sizes, nil
}

func (o Chunk) parts(n int) ([]int, error) {
	switch {
	case o.Chunks < 1:
		return nil, fmt.Errorf("chunks: %d: want 1 or more", o.Chunks)
	case n == 0 && o.Chunks <= mostOutputs:
		return make([]int, o.Chunks), nil
	}
	return equal("chunks", n, (n-1)/o.Chunks+1)
}

func (o Unbind) parts(n int) ([]int, error) {
	if n == 0 {
		return nil, fmt.Errorf("dim: %d: want an axis that is not empty", o.Axis)
	}
	return equal("dim", n, 1)
}

// equal returns sizes of parts that are equal but for the last one.
func equal(name string, n, size int) ([]int, error) {
	if size < 1 || (n-1)/size >= mostOutputs {
		return nil, fmt.Errorf("%s: parts of %d of %d: want 1 or more, and at most %d parts", name, size, n, mostOutputs)
	}
	parts := []int{min(size, n)} // of no numbers one part
	for n -= parts[0]; n > 0; {
		parts = append(parts, min(size, n))
		n -= size
	}
	return parts, nil
}

// cut is the inference of an operation that cuts an input into parts along an axis, with
// or without the axis.
func cut(m Mode, o Op, in []Type, at int, parts func(n int) ([]int, error), keep bool) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	a, err := axis("dim", at, len(in[0].Shape))
	if err != nil {
		return Inference{}, err
	}
	sizes, err := parts(in[0].Shape[a])
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[0].Format)
	var inf Inference
	for _, n := range sizes {
		shape := slices.Clone(in[0].Shape)
		if shape[a] = n; !keep {
			shape = slices.Delete(shape, a, a+1)
		}
		inf.Out = append(inf.Out, Type{shape, f})
	}
	return inf, err
}

// Infer implements [Op].
func (o Split) Infer(m Mode, in []Type) (Inference, error) {
	return cut(m, o, in, o.Axis, o.parts, true)
}

// Infer implements [Op].
func (o Chunk) Infer(m Mode, in []Type) (Inference, error) {
	return cut(m, o, in, o.Axis, o.parts, true)
}

// Infer implements [Op].
func (o Unbind) Infer(m Mode, in []Type) (Inference, error) {
	return cut(m, o, in, o.Axis, o.parts, false)
}

// Eval implements [Op].
func (o Cat) Eval(c *Call) error {
	a, _ := axis("dim", o.Axis, len(c.Out[0].Shape))
	index.Cat(c.Out[0], a, c.inputs(0, c.Inputs())...)
	return nil
}

// Eval implements [Op].
func (o Stack) Eval(c *Call) error {
	a, _ := axis("dim", o.Axis, len(c.Out[0].Shape))
	var src []*tensor.Tensor
	for k := range c.Inputs() {
		x := c.In(k)
		src = append(src, as(x, slices.Insert(slices.Clone(x.Shape), a, 1)...))
	}
	index.Cat(c.Out[0], a, src...)
	return nil
}

// parted sets the outputs to parts of the input, of those sizes along an axis.
func parted(c *Call, at int, sizes []int) error {
	x := c.In(0)
	a, _ := axis("dim", at, len(x.Shape))
	start, step := make([]int, len(x.Shape)), ones(len(x.Shape))
	for k, y := range c.Out {
		shape := slices.Clone(x.Shape)
		shape[a] = sizes[k]
		index.Slice(as(y, shape...), x, start, step)
		start[a] += sizes[k]
	}
	return nil
}

// ones returns so many ones.
func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// sizesOf returns the sizes of the outputs along an axis.
func sizesOf(c *Call, at int) (sizes []int) {
	a, _ := axis("dim", at, len(c.Out[0].Shape))
	for _, y := range c.Out {
		sizes = append(sizes, y.Shape[a])
	}
	return sizes
}

// Eval implements [Op].
func (o Split) Eval(c *Call) error { return parted(c, o.Axis, sizesOf(c, o.Axis)) }

// Eval implements [Op].
func (o Chunk) Eval(c *Call) error { return parted(c, o.Axis, sizesOf(c, o.Axis)) }

// Eval implements [Op].
func (o Unbind) Eval(c *Call) error { return parted(c, o.Axis, ones(len(c.Out))) }

func init() {
	register(Cat{}, casts{most, most, most, most})
	register(Stack{}, since2(most, most))
	register(Split{}, since2(same, same))
	register(Chunk{}, since2(same, same))
	register(Unbind{}, since2(same, same))
}
