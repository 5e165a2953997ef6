package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/index"
	"github.com/refrun/refrun/tensor"
)

// Cat joins its inputs, at least one, along an axis: cat. See [index.Cat].
type Cat struct {
	Axis int `json:"dim"`
}

// Name implements [Op].
func (Cat) Name() string { return "cat" }

// Infer implements [Op].
func (o Cat) Infer(m Mode, in []Type) (Inference, error) {
	if len(in) == 0 {
		return Inference{}, fmt.Errorf("0 inputs: want 1 or more")
	}
	shape := append([]int(nil), in[0].Shape...)
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
			return Inference{}, fmt.Errorf("input %d: shape %v: want that of input 0, %v, but for axis %d", k, t.Shape, in[0].Shape, a)
		}
		if shape[a] += t.Shape[a]; shape[a] > mostElements || shape[a] < 0 {
			return Inference{}, fmt.Errorf("input %d: too long an output: want at most 2^40 elements", k)
		}
		formats = append(formats, t.Format)
	}
	f, err := m.Result(o.Name(), formats...)
	return Inference{Out: []Type{{shape, f}}}, err
}

// Eval implements [Op].
func (o Cat) Eval(c *Call) error {
	a, _ := axis("dim", o.Axis, len(c.Out[0].Shape))
	var src []*tensor.Tensor
	for k := range c.Inputs() {
		src = append(src, c.In(k))
	}
	index.Cat(c.Out[0], a, src...)
	return nil
}

func init() {
	register(Cat{}, casts{most, most, most, most})
}
