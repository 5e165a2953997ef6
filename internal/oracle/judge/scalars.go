package judge

import (
	"math"
	"reflect"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Scalars are the numbers that are written in a graph and that a kernel computes with: the 0.1 of x * 0.1, an attribute
// such as the slope of a leaky ReLU, and a tensor of no axes in float64, which PyTorch takes for a Python number. A
// right kernel has them in float64, or in float32; of half numbers some have them in that format.

// withScalars is an operation with its scalars rounded to a format. Those of a resize say where numbers stand, and not
// what is computed with them.
func withScalars(op graph.Op, f fp16.Format) graph.Op {
	rounded, _ := scalarsIn(op, f)
	return rounded
}

// byReciprocal is a quotient by a scalar as a product with its reciprocal in a format; another operation is itself.
func byReciprocal(op graph.Op, f fp16.Format) graph.Op {
	o, is := op.(graph.Binary)
	if !is || o.Of != pointwise.Div || o.Other == nil {
		return op
	}
	by := f.Round(1 / *o.Other)
	o.Of, o.Other = pointwise.Mul, &by
	return o
}

// sameScalars reports whether a format has all scalars of an operation.
func sameScalars(op graph.Op, f fp16.Format) bool {
	_, changed := scalarsIn(op, f)
	return !changed
}

func scalarsIn(op graph.Op, f fp16.Format) (rounded graph.Op, changed bool) {
	round := func(v float64) float64 {
		to := f.Round(v)
		changed = changed || to != v && v == v
		return to
	}
	switch o := op.(type) {
	case graph.Interpolate, resizing:
		return op, false
	case graph.Unary:
		params := o.Func.Params()
		for name, v := range params {
			params[name] = round(v)
		}
		if of, err := pointwise.Parse(o.Name(), params); changed && err == nil {
			o.Func = of
			return o, true
		}
		return op, false
	}
	from := reflect.ValueOf(op)
	if from.Kind() != reflect.Struct {
		return op, false
	}
	to := reflect.New(from.Type()).Elem()
	to.Set(from)
	eachScalar(to, round)
	if !changed {
		return op, false
	}
	return to.Interface().(graph.Op), true
}

// eachScalar changes the numbers among an operation's attributes, those of operations inside it too.
func eachScalar(op reflect.Value, to func(float64) float64) {
	for i := range op.NumField() {
		field := op.Field(i)
		if !field.CanSet() {
			continue
		}
		switch v := field.Interface().(type) {
		case float64:
			field.SetFloat(to(v))
		case *float64:
			if v != nil {
				r := to(*v)
				field.Set(reflect.ValueOf(&r))
			}
		default:
			if field.Kind() == reflect.Struct {
				eachScalar(field, to)
			}
		}
	}
}

// attributed adds to the radii of an operation's results how far they move with its scalars in float32.
func attributed(op graph.Op, in, out []ball) error {
	if _, is := op.(graph.Binary); is { // whose scalars are operands
		return nil
	}
	single, changed := scalarsIn(op, fp16.Float32)
	if !changed {
		return nil
	}
	given := make([]*tensor.Tensor, len(in))
	for k, b := range in {
		given[k] = b.v
	}
	other, err := apply(single, given...)
	if err != nil {
		return err
	}
	for k, b := range out {
		if b.v.Format == fp16.Int64 {
			continue
		}
		r := fresh(fp16.Float64, b.v.Shape...)
		for i, v := range b.v.Data {
			if d := math.Abs(other[k].Data[i] - v); d-d == 0 {
				r.Data[i] = d
			}
			if b.r != nil {
				r.Data[i] += b.r.Data[i]
			}
		}
		out[k].r = r
	}
	release(other...)
	return nil
}

// numbered reports whether an input is one number in place of a tensor.
func numbered(t *tensor.Tensor) bool {
	return t != nil && t.Format != fp16.Int64 && len(t.Shape) == 0
}

// held is an input as kernels have it: a Python number in float64, or in float32.
func held(t *tensor.Tensor) ball {
	b := ball{v: t}
	if numbered(t) && t.Format == fp16.Float64 {
		b.r = scalar(t.Data[0]).r
	}
	if b.r != nil {
		b.r.Shape = t.Shape
	}
	return b
}

// single is what simulated kernels have of it.
func (b ball) single() *tensor.Tensor {
	if b.r == nil {
		return b.v
	}
	return tensor.Of(fp16.Float64, []float64{fp16.Float32.Round(b.v.Data[0])}, b.v.Shape...)
}

// hasScalars reports whether a node has numbers that a format has not.
func (q *Question) hasScalars(n *graph.Node, f fp16.Format) bool {
	return !sameScalars(n.Op, f) || slices.ContainsFunc(n.In, func(v int) bool {
		t := q.Graph.Values[v].Const
		if k := slices.Index(q.Graph.Inputs, v); k >= 0 {
			t = q.Inputs[k]
		}
		return numbered(t) && f.Round(t.Data[0]) != t.Data[0]
	})
}
