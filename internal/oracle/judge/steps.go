package judge

import (
	"errors"
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// crossEntropy is ATen's cross_entropy: of logits [N,C] and targets [N], -log_softmax(x)[target], and 0 where
// the target is Ignore. Smoothing is the part of it that is -mean(log_softmax(x)). Reduction "sum" adds the N
// losses, "mean" divides that by the number of targets that are not Ignore. It is judged, and has no definition
// in the graph.
type crossEntropy struct {
	Reduction string // none, sum or mean
	Ignore    int
	Smoothing float64 // in [0,1]
}

// Name implements [graph.Op].
func (crossEntropy) Name() string { return "cross_entropy" }

// Infer implements [graph.Op].
func (o crossEntropy) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 2 || len(in[0].Shape) != 2 || len(in[1].Shape) != 1 || in[1].Format != fp16.Int64 ||
		in[0].Shape[0] != in[1].Shape[0] {
		return graph.Inference{}, errors.New("input, target: want [N,C] numbers and [N] whole ones")
	}
	out := graph.Type{Shape: in[1].Shape, Format: in[0].Format}
	if o.Reduction != "none" {
		out.Shape = nil
	}
	return graph.Inference{Out: []graph.Type{out}}, nil
}

// Eval implements [graph.Op]: it is only ever expanded.
func (crossEntropy) Eval(*graph.Call) error { return errors.New("cross_entropy: has no definition") }

// classes returns an error if a target is no class and not ignored, as PyTorch does.
func (o crossEntropy) classes(logits, target *tensor.Tensor) error {
	n := logits.Shape[1]
	for i, v := range target.Data {
		if (v < 0 || v >= float64(n)) && v != float64(o.Ignore) {
			return fmt.Errorf("cross_entropy: target[%d]: %.0f: want 0 to %d, or ignore_index %d", i, v, n-1, o.Ignore)
		}
	}
	return nil
}

// runningMaximum is the greatest number along the last axis up to the end of each block. Until it is finite, where
// the keys of the first blocks are masked, it is what it is then: kernels take any number there, so that e^(-Inf -
// it) is 0.
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
		most, from := x.Data[row], 0
		for lo := 0; lo < n; lo += o.block {
			hi := min(n, lo+o.block)
			for _, v := range x.Data[row+lo : row+hi] {
				most = max(most, v)
			}
			if !math.IsInf(most, -1) || hi == n {
				for ; from < hi; from++ {
					c.Out[0].Data[row+from] = most
				}
			}
		}
	}
	return nil
}

// coarseExp is e^x as 2^i (1 + f - cubic(f)) with x log2(e) = i + f (A. C. I. Malossi and others, Fast
// exponential computation on SIMD architectures, 2015), in float32, with the coefficients of PyTorch. Its
// last steps make the number's bits, 2^23 (i + f - cubic(f)) + 127 2^23, rounded to float32: to 64 of them.
// It takes so many lanes at a time, and the rest of the last axis has e^x.
type coarseExp struct{ lanes int }

// Name implements [graph.Op].
func (coarseExp) Name() string { return "coarse_exp" }

// Infer implements [graph.Op].
func (coarseExp) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 1 {
		return graph.Inference{}, errors.New("want one input")
	}
	return graph.Inference{Out: []graph.Type{in[0]}}, nil
}

// Eval implements [graph.Op].
func (o coarseExp) Eval(c *graph.Call) error {
	const c0, c1, c2, c3 float32 = 0.00010703434948458272, 0.30354260500649682, -0.22433836478672356, -0.079204240219773236
	fma := func(a, b, c float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(c))) }
	n := 1
	if s := c.In(0).Shape; len(s) > 0 {
		n = s[len(s)-1]
	}
	whole := n
	if o.lanes > 0 {
		whole -= n % o.lanes
	}
	for i, x := range c.In(0).Data {
		t := float32(x) * math.Log2E
		switch {
		case i%n >= whole:
			c.Out[0].Data[i] = elem.Exp(x)
			continue
		case t != t:
			c.Out[0].Data[i] = x
			continue
		case t < -126:
			c.Out[0].Data[i] = 0
			continue
		}
		f := t - float32(math.Floor(float64(t)))
		t -= fma(fma(fma(c3, f, c2), f, c1), f, c0)
		c.Out[0].Data[i] = float64(math.Float32frombits(uint32(fma(1<<23, t, 127<<23))))
	}
	return nil
}

// symmetric is a function by a sigmoid of [Form.Symmetric].
type symmetric struct{ graph.Op }

// Name implements [graph.Op].
func (o symmetric) Name() string { return "symmetric " + o.Op.Name() }

// exps sets dst to e^x.
func exps(dst, src []float64) {
	const block = 4096
	par.For((len(src)+block-1)/block, func(i int) {
		for j := i * block; j < min(len(src), (i+1)*block); j++ {
			dst[j] = elem.Exp(src[j])
		}
	})
}

// apply evaluates an operation in float64.
func apply(op graph.Op, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if op.Name() == "exp" && len(in) == 1 && in[0].Format != fp16.Int64 {
		out := fresh(fp16.Float64, in[0].Shape...)
		exps(out.Data, in[0].Data)
		return []*tensor.Tensor{out}, nil
	}
	given := make([]*tensor.Tensor, len(in))
	for k, t := range in {
		if t.Format != fp16.Int64 && t.Format != fp16.Float64 {
			t = &tensor.Tensor{Format: fp16.Float64, Shape: t.Shape, Data: t.Data}
		}
		given[k] = t
	}
	return graph.Apply(op, graph.Mode{Precision: fp16.Float64}, fresh, given...)
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
	if len(in) != 3 || len(in[0].Shape) < 2 || in[0].Shape[len(in[0].Shape)-1]%2 != 0 {
		return graph.Inference{}, errors.New("input, cos, sin: want an input [...,T,D] of an even D")
	}
	for k, t := range in[1:] {
		if !spreads(t.Shape, in[0].Shape) {
			return graph.Inference{}, fmt.Errorf("%s: shape %v: want one that spreads to %v",
				[]string{"cos", "sin"}[k], t.Shape, in[0].Shape)
		}
	}
	return graph.Inference{Out: []graph.Type{in[0]}}, nil
}

// Eval implements [graph.Op]: it is only ever expanded.
func (rotary) Eval(*graph.Call) error { return errors.New("rotary_embedding: has no definition") }

// spreads reports whether a shape spreads to another, as numpy does it.
func spreads(shape, to []int) bool {
	if len(shape) > len(to) {
		return false
	}
	for i, d := range shape {
		if d != 1 && d != to[len(to)-len(shape)+i] {
			return false
		}
	}
	return true
}

// nearly is apply for those who need no bound, in some digits fewer than float64 has: convolutions are sums in any
// order, see [conv.Wide], and activations are approximated, see [act.Approximate].
func nearly(op graph.Op, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	switch op := op.(type) {
	case graph.Act:
		out := fresh(fp16.Float64, in[0].Shape...)
		act.Approximate(out, tensor.Of(fp16.Float64, in[0].Data, in[0].Shape...), op.Func)
		return []*tensor.Tensor{out}, nil
	case graph.Conv:
		if len(in[0].Shape) != 4 || len(in[1].Shape) != 4 || op.Groups > 1 {
			break
		}
		h, w := in[1].H(), in[1].W()
		geometry, err := op.Geometry(h, w)
		if err != nil {
			return nil, err
		}
		var bias []float64
		if len(in) > 2 {
			bias = in[2].Data
		}
		h, w = geometry.OutSize(in[0].H(), in[0].W(), h, w)
		out := fresh(fp16.Float64, in[0].N(), in[1].N(), h, w)
		conv.Wide(out, tensor.Of(fp16.Float64, in[0].Data, in[0].Shape...), conv.NewKernel(in[1], bias), geometry)
		return []*tensor.Tensor{out}, nil
	}
	return apply(op, in...)
}

// evaluator is nearly, or apply where digits matter.
func evaluator(isWide bool) func(op graph.Op, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if isWide {
		return nearly
	}
	return apply
}
