package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// How kernels make whole quotients, and remainders of them. As defined, both are exact: a quotient just below 3 is 2.
const (
	// A quotient that is rounded first is 3 there: PyTorch's with a rounding_mode, and floor_divide when compiled. Its
	// compiled remainder subtracts the rounded product of the whole quotient and the divisor.
	quotientFirst = "after a rounding"
	// PyTorch's floor_divide subtracts the remainder of the quotient that is cut off, divides, subtracts 1 where the signs
	// are apart, and rounds to the next whole number, down from a half. Of half numbers it rounds each result.
	remainderFirst = "of what the remainder leaves"
	// JAX's, which goes away from 0 at a half.
	remainderFirstAway = remainderFirst + ", a half away from 0"
)

// quotients are the forms of an operation that makes whole quotients.
func quotients(op graph.Binary, narrow fp16.Format) []Form {
	switch op.Of {
	case pointwise.FloorDivide:
		if narrow.Half() {
			return []Form{{Quotients: quotientFirst}, {Quotients: remainderFirst}, {Quotients: remainderFirstAway}}
		}
		return []Form{{Quotients: quotientFirst}}
	case pointwise.TruncDivide, pointwise.Remainder:
		return []Form{{Quotients: quotientFirst}}
	}
	return nil
}

// quotient are the steps of such an operation by the form, and -1 where it is one step.
func (b *builder) quotient(op graph.Binary, n *graph.Node, in []int) int {
	if b.form.Quotients == "" || quotients(op, 0) == nil || b.types[n.Out[0]].Format == fp16.Int64 {
		return -1
	}
	with := func(of pointwise.Op) graph.Binary { return graph.Binary{Of: of, Self: op.Self, Other: op.Other} }
	x, z := b.operandsOf(op, in)
	switch {
	case b.form.Quotients != quotientFirst && op.Of == pointwise.FloorDivide:
		left := b.step("remainder", with(pointwise.FMod), in...)
		cut := b.may(true, b.step("quotient", div, b.may(true, b.step("difference", sub, x, left)), z))
		apart := b.step("apart", graph.Binary{Of: pointwise.Less, Other: new(float64)}, b.step("signs", mul, left, z))
		lowered := b.may(true, b.step("lowered", sub, cut, apart))
		if b.form.Quotients == remainderFirstAway {
			more := b.step("half", plus, b.step("size", unary("abs"), lowered), b.number(.5))
			return b.step("output", mul, b.step("sign", unary("sign"), lowered), b.step("whole", unary("floor"), more))
		}
		return b.step("output", unary("ceil"), b.step("half", sub, lowered, b.number(.5)))
	case op.Of == pointwise.FloorDivide:
		return b.step("output", unary("floor"), b.may(true, b.step("quotient", with(pointwise.Div), in...)))
	case op.Of == pointwise.TruncDivide:
		return b.step("output", unary("trunc"), b.may(true, b.step("quotient", with(pointwise.Div), in...)))
	}
	whole := b.may(true, b.step("quotient", with(pointwise.FloorDivide), in...))
	return b.step("output", sub, x, b.may(true, b.step("product", mul, whole, z)))
}

// operandsOf are both operands of an operation on two numbers, of which the graph may say one.
func (b *builder) operandsOf(op graph.Binary, in []int) (x, z int) {
	switch {
	case op.Self != nil:
		return b.number(*op.Self), in[0]
	case op.Other != nil:
		return in[0], b.number(*op.Other)
	}
	return in[0], in[1]
}

// wholeMoves is how far a whole quotient y of x and z is moved, with x and z as far off as rx and rz: kernels are on
// either side of an edge between the quotients that they may have. A large quotient is that of a rounded difference.
func wholeMoves(whole func(float64) float64, x, rx, z, rz, y float64) (e float64, open bool) {
	e = math.Floor(4*u*math.Abs(y) + .5)
	lo, hi, finite := ratio(x, rx, z, rz)
	if !finite {
		return math.Inf(1), true
	}
	if rx > 0 || rz > 0 {
		e += max(whole(hi)-y, y-whole(lo))
	}
	return e, false
}

// remainderMoves is how far a remainder is moved: the whole quotient stays, or the result may be next to 0 and to z.
func remainderMoves(whole func(float64) float64, x, rx, z, rz float64) (e float64, open bool) {
	if rx == 0 && rz == 0 {
		return 0, false
	}
	lo, hi, finite := ratio(x, rx, z, rz)
	switch {
	case !finite:
		return math.Inf(1), true
	case whole(lo) != whole(hi):
		return math.Abs(z) + rz, false
	}
	return rx + times(whole(lo), rz), false
}

// ratio is between which numbers the quotients of two intervals are; none if one may divide by 0.
func ratio(x, rx, z, rz float64) (lo, hi float64, finite bool) {
	if rz > 0 && rz >= math.Abs(z) {
		return 0, 0, false
	}
	q := x / z
	e := (rx + times(q, rz)) / (math.Abs(z) - rz)
	return q - e, q + e, true
}
