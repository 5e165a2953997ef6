package onnx

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact"
)

// narrow rounds numbers, or with more inputs numbers over scales plus zero points, to a type of 8
// bits or fewer, to nearest, of two the even one. Its
// results are held in float32, and in the mode float64 in float64. What is too great becomes
// the greatest number, if it saturates; otherwise an infinity or, where the type has none,
// NaN. The types with one zero have no -0; float4e2m1 always saturates and has no NaN, of which -0
// is made, as ml_dtypes does. Powers of 2 alone (float8e8m0) are rounded up, down or to
// nearest, as rounding says, and what is not positive is NaN.
type narrow struct {
	to       DType
	saturate bool
	rounding string // of float8e8m0
}

// Name implements [graph.Op].
func (narrow) Name() string { return "cast_narrow" }

// Infer implements [graph.Op].
func (o narrow) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) < 1 || len(in) > 3 {
		return graph.Inference{}, fmt.Errorf("%d inputs: want 1 to 3", len(in))
	}
	for k := range in {
		if !slices.Equal(in[k].Shape, in[0].Shape) {
			return graph.Inference{}, fmt.Errorf("input %d of shape %v: want %v", k, in[k].Shape, in[0].Shape)
		}
	}
	return graph.Inference{Out: []graph.Type{{Shape: in[0].Shape, Format: m.Wide()}}}, nil
}

// Eval implements [graph.Op].
func (o narrow) Eval(c *graph.Call) error {
	m, y := minis[o.to], c.Out[0]
	for i, v := range c.In(0).Data {
		if c.Inputs() > 1 {
			zero := 0.0
			if c.Inputs() > 2 {
				zero = c.In(2).Data[i]
			}
			v = quotient(v, c.In(1).Data[i], zero)
		}
		if o.to == Float8E8M0 {
			y.Data[i] = o.power(v)
		} else {
			y.Data[i] = o.round(m, v)
		}
	}
	return nil
}

// quotient returns x/scale + zero of finite numbers of 32 bits, rounded to odd: rounded again to
// a few bits it is what the exact value is. Others, also numbers that only float64 has, give
// what IEEE 754 makes of the formula.
func quotient(x, scale, zero float64) float64 {
	q := x / scale
	y := q
	if zero != 0 {
		y += zero
	}
	if size := math.Abs(q); y-y != 0 || size < 0x1p-900 || size > 0x1p900 {
		return y
	}
	if zero == 0 {
		return exact.Divide(math.Copysign(x, x*scale), math.Abs(scale))
	}
	r, by := new(big.Rat).SetFloat64(x), new(big.Rat).SetFloat64(scale)
	r.Quo(r, by).Add(r, new(big.Rat).SetFloat64(zero))
	return exact.Ratio(r)
}

// round returns the number of a format next to v.
func (o narrow) round(m fp16.Narrow, v float64) float64 {
	if v != v && o.to == Float4E2M1 {
		return math.Copysign(0, -1)
	}
	by := fp16.MLDtypes
	if o.saturate {
		by = fp16.Saturated
	}
	return m.Decode(m.Encode(v, by))
}

// power returns the power of 2 next to v.
func (o narrow) power(v float64) float64 {
	least, largest := fp16.E8M0.Smallest(), fp16.E8M0.Largest()
	switch {
	case v != v || v < 0 || v == 0 && !o.saturate:
		return fp16.NaN
	case v == 0:
		return least
	case v > largest && !o.saturate && !(v < 1.5*largest && o.rounding != "up"):
		return fp16.NaN
	case v > largest:
		return largest
	case v < least:
		return least
	}
	f, e := math.Frexp(v) // f from 1/2 on
	up := false
	switch o.rounding {
	case "up":
		up = f > 0.5
	case "nearest":
		up = f >= 0.75
	}
	if up {
		e++
	}
	return min(math.Ldexp(1, e-1), largest)
}
