package pointwise

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Op names an operation on two numbers.
type Op uint8

// The operations; the package's doc has their definitions.
const (
	Add Op = iota
	Sub
	Mul
	Div
	Pow
	Atan2
	Minimum
	Maximum
	FMin
	FMax
	PReLU
	FMod
	Remainder
	FloorDivide
	TruncDivide
	Equal
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	And
	Or
	Xor
)

// operation is one operation on two numbers. eval is that of a function, for every
// pair of numbers; settle too.
type operation struct {
	name   string
	eval   func(a, b float64) (y, bound float64)
	settle func(a, b float64) float64
}

var operations = [...]operation{
	Add:          {"add", add, settleAdd},
	Sub:          {"sub", sub, settleSub},
	Mul:          {"mul", mul, nil},
	Div:          {"div", div, nil},
	Pow:          {"pow", pow, settlePow},
	Atan2:        {"atan2", atan2, exact.Atan2},
	Minimum:      {"minimum", minimum, nil},
	Maximum:      {"maximum", maximum, nil},
	FMin:         {"fmin", fmin, nil},
	FMax:         {"fmax", fmax, nil},
	PReLU:        {"prelu", prelu, nil},
	FMod:         {"fmod", fmod, nil},
	Remainder:    {"remainder", remainder, settleRemainder},
	FloorDivide:  {"floor_divide", floorDivide, nil},
	TruncDivide:  {"trunc_divide", truncDivide, nil},
	Equal:        {"eq", compare(func(a, b float64) bool { return a == b }), nil},
	NotEqual:     {"ne", compare(func(a, b float64) bool { return a != b }), nil},
	Less:         {"lt", compare(func(a, b float64) bool { return a < b }), nil},
	LessEqual:    {"le", compare(func(a, b float64) bool { return a <= b }), nil},
	Greater:      {"gt", compare(func(a, b float64) bool { return a > b }), nil},
	GreaterEqual: {"ge", compare(func(a, b float64) bool { return a >= b }), nil},
	And:          {"logical_and", compare(func(a, b float64) bool { return a != 0 && b != 0 }), nil},
	Or:           {"logical_or", compare(func(a, b float64) bool { return a != 0 || b != 0 }), nil},
	Xor:          {"logical_xor", compare(func(a, b float64) bool { return (a != 0) != (b != 0) }), nil},
}

// compare returns an operation with the values 0 and 1.
func compare(f func(a, b float64) bool) func(a, b float64) (y, bound float64) {
	return func(a, b float64) (y, bound float64) { return truth(f(a, b)), 0 }
}

// ParseOp returns the operation of that name, one of OpNames. Any other name is an
// error that lists them.
func ParseOp(name string) (Op, error) {
	for op := range operations {
		if operations[op].name == name {
			return Op(op), nil
		}
	}
	return 0, fmt.Errorf("unknown operation %.60q: want one of %s", name, strings.Join(OpNames(), ", "))
}

// OpNames returns the names of all operations, in the order of the package's doc.
func OpNames() []string {
	var names []string
	for op := range operations {
		names = append(names, operations[op].name)
	}
	return names
}

// String returns the name that ParseOp reads.
func (op Op) String() string {
	if int(op) < len(operations) {
		return operations[op].name
	}
	return fmt.Sprintf("Op(%d)", uint8(op))
}

// Binary sets dst to op of a and b, element by element, rounded once to dst.Format. a
// and b are spread over dst's shape as numpy does: see Broadcast, which must give
// dst.Shape. dst may be a or b, if of the same shape, and overlaps with them nowhere
// else. A Float64 operand needs a Float64 dst. Misuse panics.
func Binary(dst, a, b *tensor.Tensor, op Op) {
	if int(op) >= len(operations) {
		panic("pointwise: unknown operation")
	}
	mustNotNarrow(dst, a, b)
	o := &operations[op]
	ieee, short := plainly(dst.Format, op, a.Format, b.Format), o.short(dst.Format, op, a.Format, b.Format)
	whole := dst.Format == fp16.Int64 && a.Format == dst.Format && b.Format == dst.Format && op <= Mul
	each(dst, []*tensor.Tensor{a, b}, func(d []float64, in []run) {
		x, y := in[0], in[1]
		if ieee {
			arithmetic(d, x, y, op, dst.Format)
			return
		}
		if whole {
			wholes(d, x, y, op)
			return
		}
		if compared(d, x, y, op) {
			return
		}
		if short != nil {
			for i := range d {
				d[i] = short(x.data[x.step*i], y.data[y.step*i])
			}
			return
		}
		for i := range d {
			d[i] = o.at(x.data[x.step*i], y.data[y.step*i], dst.Format)
		}
	})
}

// wholes sets d to sums, differences or products of whole numbers. One below 2^53 is exact.
func wholes(d []float64, x, y run, op Op) {
	const most = 1 << 53
	o := &operations[op]
	if op <= Sub && x.step == 1 && y.step == 0 && math.Abs(y.data[0]) < most {
		b := y.data[0]
		if op == Sub {
			b = -b
		}
		for i, a := range x.data[:len(d)] {
			v := a + b
			if !(math.Abs(v) < most) {
				v = o.at(a, y.data[0], fp16.Int64)
			}
			d[i] = v
		}
		return
	}
	switch op {
	case Add:
		for i := range d {
			a, b := x.data[x.step*i], y.data[y.step*i]
			v := a + b
			if !(math.Abs(v) < most) {
				v = o.at(a, b, fp16.Int64)
			}
			d[i] = v
		}
	case Sub:
		for i := range d {
			a, b := x.data[x.step*i], y.data[y.step*i]
			v := a - b
			if !(math.Abs(v) < most) {
				v = o.at(a, b, fp16.Int64)
			}
			d[i] = v
		}
	case Mul:
		for i := range d {
			a, b := x.data[x.step*i], y.data[y.step*i]
			v := float64(a * b)
			if !(math.Abs(v) < most) {
				v = o.at(a, b, fp16.Int64)
			}
			d[i] = v
		}
	}
}

// compared sets d to which pairs of numbers are equal or in order, if op is that, and reports whether it is.
func compared(d []float64, x, y run, op Op) bool {
	switch op {
	case Greater, GreaterEqual:
		x, y, op = y, x, op-Greater+Less
	case Equal, NotEqual, Less, LessEqual:
	default:
		return false
	}
	switch op {
	case Less:
		for i := range d {
			d[i] = truth(x.data[x.step*i] < y.data[y.step*i])
		}
	case LessEqual:
		for i := range d {
			d[i] = truth(x.data[x.step*i] <= y.data[y.step*i])
		}
	case Equal:
		for i := range d {
			d[i] = truth(x.data[x.step*i] == y.data[y.step*i])
		}
	default:
		for i := range d {
			d[i] = truth(x.data[x.step*i] != y.data[y.step*i])
		}
	}
	return true
}

// Lines returns what sets dst to op of a and b, rounded once to a format, for operands of those
// formats: lines of one length, of which a or b, but not both, may be one number instead. dst
// may be a or b. It is nil where no float64 operation, rounded again, has the bits of Binary.
func Lines(op Op, to, a, b fp16.Format) func(dst, a, b []float64) {
	switch {
	case op == Minimum || op == Maximum:
		return extremes(op, to, a, b)
	case to == fp16.Int64 && a == to && b == to && op <= Mul:
		return wholeLines(op)
	}
	if int(op) >= len(operations) || !plainly(to, op, a, b) ||
		to != fp16.Float64 && (a == fp16.Float64 || b == fp16.Float64) {
		return nil
	}
	return func(dst, a, b []float64) {
		x, y := run{a, 1}, run{b, 1}
		if len(dst) > 1 && len(a) == 1 {
			x.step = 0
		} else if len(dst) > 1 && len(b) == 1 {
			y.step = 0
		}
		arithmetic(dst, x, y, op, to)
	}
}

// wholeLines is Lines of operations on whole numbers.
func wholeLines(op Op) func(dst, a, b []float64) {
	return func(dst, a, b []float64) {
		x, y := run{a, 1}, run{b, 1}
		if len(a) == 1 {
			x.step = 0
		}
		if len(b) == 1 {
			y.step = 0
		}
		wholes(dst, x, y, op)
	}
}

// extremes is Lines of minimum and maximum.
func extremes(op Op, to, a, b fp16.Format) func(dst, a, b []float64) {
	f := operations[op].short(to, op, a, b)
	if f == nil {
		return nil
	}
	return func(dst, a, b []float64) {
		x, y := 1, 1
		if len(a) == 1 {
			x = 0
		}
		if len(b) == 1 {
			y = 0
		}
		for i := range dst {
			dst[i] = f(a[x*i], b[y*i])
		}
	}
}

// AddScaled sets dst to a + alpha b, element by element, rounded once to dst.Format, where
// alpha is a finite float32 number, or any for a Float64 dst: there the product is rounded
// first. All else is as in Binary.
func AddScaled(dst, a, b *tensor.Tensor, alpha float64) {
	mustNotNarrow(dst, a, b)
	o := &operations[Add]
	each(dst, []*tensor.Tensor{a, b}, func(d []float64, in []run) {
		x, y := in[0], in[1]
		for i := range d { // the product of two numbers of 24 bits is exact
			d[i] = o.at(x.data[x.step*i], float64(alpha*y.data[y.step*i]), dst.Format)
		}
	})
}

// short returns what at does for operands of those formats, where it takes less: comparisons, and what is one of the
// operands, are numbers of the result's format; and squares of float32 numbers are exact, before they are rounded. It
// is nil for others.
func (o *operation) short(f fp16.Format, op Op, a, b fp16.Format) func(a, b float64) float64 {
	same := a == f && b == f
	switch {
	case same && op == Minimum:
		return func(a, b float64) float64 { return one(min(a, b)) }
	case same && op == Maximum:
		return func(a, b float64) float64 { return one(max(a, b)) }
	case op >= Equal, same && Minimum <= op && op <= FMax:
		return func(a, b float64) float64 {
			y, _ := o.eval(a, b)
			return one(y)
		}
	case op == Pow && f != fp16.Float64 && f != fp16.Int64 && a != fp16.Float64 && a != fp16.Int64:
		return func(a, b float64) float64 {
			if b == 2 {
				return f.Round(float64(a * a))
			}
			return o.at(a, b, f)
		}
	}
	return nil
}

// one returns a number, and of NaNs the one that there is.
func one(y float64) float64 {
	if y != y {
		return fp16.NaN
	}
	return y
}

// at returns the operation of a and b, rounded to f.
func (o *operation) at(a, b float64, f fp16.Format) float64 {
	y, bound := o.eval(a, b)
	if f == fp16.Float64 || !(bound > 0) {
		return f.Round(y)
	}
	if y, ok := f.Decide(y, bound); ok {
		return y
	}
	return f.Round(o.settle(a, b))
}

// Where sets every element of dst to that of a where c is not 0 (a NaN is not), and
// to that of b where it is, rounded once to dst.Format. The three are spread as in
// Binary. A Float64 a or b needs a Float64 dst. Misuse panics.
func Where(dst, c, a, b *tensor.Tensor) {
	mustNotNarrow(dst, a, b)
	same := a.Format == dst.Format && b.Format == dst.Format
	each(dst, []*tensor.Tensor{c, a, b}, func(d []float64, in []run) {
		c, x, y := in[0], in[1], in[2]
		for i := range d {
			v, w := x.data[x.step*i], y.data[y.step*i]
			if c.data[c.step*i] == 0 {
				v = w
			}
			d[i] = v
			if v != v {
				d[i] = fp16.NaN
			}
		}
		if !same {
			dst.Format.RoundSlice(d, d)
		}
	})
}

// run is an operand's part in a row of results: element i of the row takes
// data[step*i], with a step of 1, or 0 where one number serves the whole row.
type run struct {
	data []float64
	step int
}

// each calls body for the rows of dst, in pieces of chunk elements at most.
func each(dst *tensor.Tensor, in []*tensor.Tensor, body func(d []float64, in []run)) {
	n := len(dst.Data)
	if n <= chunk && alike(dst, in) { // most of a network's small operations, which then take no time to begin
		runs := make([]run, len(in))
		for i, t := range in {
			runs[i] = run{t.Data, 1}
			if len(t.Data) == 1 {
				runs[i].step = 0
			}
		}
		body(dst.Data, runs)
		return
	}
	l := layoutOf(dst, in)
	par.For((n+chunk-1)/chunk, func(i int) {
		runs := make([]run, len(in))
		for at, end := i*chunk, min((i+1)*chunk, n); at < end; {
			left := l.row(at, runs)
			left = min(left, end-at)
			body(dst.Data[at:at+left], runs)
			at += left
		}
	})
}

// alike reports whether all operands have the shape of dst, which is not empty, or are one number of no more axes, but
// not all of them that.
func alike(dst *tensor.Tensor, in []*tensor.Tensor) bool {
	same, n := false, tensor.Size(dst.Shape)
	for _, t := range in {
		switch {
		case len(t.Data) == n && dst.SameShape(t):
			same = true
		case len(t.Data) != 1 || len(t.Shape) > len(dst.Shape) || tensor.Size(t.Shape) != 1:
			return false
		}
	}
	return same && n > 0 && n == len(dst.Data)
}
