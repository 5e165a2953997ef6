package judge

import (
	"errors"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// crossEntropy is ATen's cross_entropy with reduction none: of logits [N,C] and targets [N],
// -log_softmax(x)[target], and 0 where the target is Ignore. It is judged, and has no definition
// in the graph.
type crossEntropy struct{ Ignore int }

// Name implements [graph.Op].
func (crossEntropy) Name() string { return "cross_entropy" }

// Infer implements [graph.Op].
func (o crossEntropy) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 2 || len(in[0].Shape) != 2 || len(in[1].Shape) != 1 || in[1].Format != fp16.Int64 || in[0].Shape[0] != in[1].Shape[0] {
		return graph.Inference{}, errors.New("input, target: want [N,C] numbers and [N] whole ones")
	}
	return graph.Inference{Out: []graph.Type{{Shape: in[1].Shape, Format: in[0].Format}}}, nil
}

// Eval implements [graph.Op]: it is only ever expanded.
func (crossEntropy) Eval(*graph.Call) error { return errors.New("cross_entropy: has no definition") }

// runningMaximum is the greatest number along the last axis up to the end of each block.
type runningMaximum struct{ block int }

// Name implements [graph.Op].
func (runningMaximum) Name() string { return "running_maximum" }

// Infer implements [graph.Op].
func (runningMaximum) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 1 || len(in[0].Shape) == 0 {
		return graph.Inference{}, errors.New("want one input with an axis")
	}
	return graph.Inference{Out: []graph.Type{in[0]}}, nil
}

// Eval implements [graph.Op].
func (o runningMaximum) Eval(c *graph.Call) error {
	x := c.In(0)
	n := x.Shape[len(x.Shape)-1]
	for row := 0; row+n <= len(x.Data) && n > 0; row += n {
		most := x.Data[row]
		for lo := 0; lo < n; lo += o.block {
			hi := min(n, lo+o.block)
			for _, v := range x.Data[row+lo : row+hi] {
				most = max(most, v)
			}
			for j := lo; j < hi; j++ {
				c.Out[0].Data[row+j] = most
			}
		}
	}
	return nil
}

// apply evaluates an operation in float64.
func apply(op graph.Op, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	g := graph.New(nil)
	var types []graph.Type
	var values []int
	given := make([]*tensor.Tensor, len(in))
	for k, t := range in {
		if t.Format != fp16.Int64 && t.Format != fp16.Float64 {
			t = &tensor.Tensor{Format: fp16.Float64, Shape: t.Shape, Data: t.Data}
		}
		given[k] = t
		types = append(types, graph.Type{Shape: t.Shape, Format: t.Format})
		values = append(values, g.Input(fmt.Sprint(k)))
	}
	mode := graph.Mode{Precision: fp16.Float64}
	out, err := op.Infer(mode, types)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name(), err)
	}
	g.Outputs = g.AddNode(op, op.Name(), len(out.Out), values...)
	p, err := g.Infer(mode, types...)
	if err != nil {
		return nil, err
	}
	return p.Run(&graph.Run{}, given...)
}

// one evaluates an operation of one output.
func one(op graph.Op, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	out, err := apply(op, in...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// rotary is ONNX's rotary_embedding of an input [...,T,D] with cos and sin [T,D], both halves alike:
// x cos + rotated x sin, which pairs i with i + D/2, or neighbours if it is interleaved.
type rotary struct{ interleaved bool }

// Name implements [graph.Op].
func (rotary) Name() string { return "rotary_embedding" }

// Infer implements [graph.Op].
func (rotary) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 3 || len(in[0].Shape) < 1 || in[0].Shape[len(in[0].Shape)-1]%2 != 0 {
		return graph.Inference{}, errors.New("input, cos, sin: want three inputs, of an even last size")
	}
	return graph.Inference{Out: []graph.Type{in[0]}}, nil
}

// Eval implements [graph.Op]: it is only ever expanded.
func (rotary) Eval(*graph.Call) error { return errors.New("rotary_embedding: has no definition") }
