package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// narrowSums is a product whose sums are kept in a narrow format: each term is added, in the order of
// the axis, and the result rounded. It is a fault.
type narrowSums struct {
	graph.Op
	format fp16.Format
}

// Eval implements [graph.Op].
func (o narrowSums) Eval(c *graph.Call) error {
	a, b := c.In(0), c.In(1)
	k := a.Shape[len(a.Shape)-1]
	dst := c.Out[0]
	cols := dst.Shape[len(dst.Shape)-1]
	rows := len(dst.Data) / max(1, cols)
	var term func(row, col, j int) float64
	switch o.Op.(type) {
	case graph.Linear:
		term = func(row, col, j int) float64 { return a.Data[row*k+j] * b.Data[col*k+j] }
	case graph.MatMul:
		height := dst.Shape[len(dst.Shape)-2]
		batches := len(a.Data) / max(1, height*k)
		if len(b.Data) != batches*k*cols && len(b.Data) != k*cols || batches*height != rows {
			return fmt.Errorf("%w", errNotJudged)
		}
		term = func(row, col, j int) float64 {
			batch := 0
			if len(b.Data) != k*cols {
				batch = row / height
			}
			return a.Data[row*k+j] * b.Data[(batch*k+j)*cols+col]
		}
	default:
		return fmt.Errorf("%w", errNotJudged)
	}
	if rows*cols*k > mostNarrow {
		return fmt.Errorf("%w", errNotJudged)
	}
	for row := range rows {
		for col := range cols {
			s := 0.0
			for j := range k {
				s = o.format.Round(s + term(row, col, j))
			}
			if c.Inputs() > 2 {
				s += c.In(2).Data[col]
			}
			dst.Data[row*cols+col] = s
		}
	}
	return nil
}

// narrowed names the fault of a kernel that fails without a name, if its errors are those of sums in the
// inputs' format: about as large as simulated ones, in about as many elements, nowhere larger, and without an order of
// their own.
func (q *Question) narrowed(t *trial) error {
	if q.Claimed != nil || t.passes() || t.cause != nil || q.Narrow == fp16.Float32 {
		return nil
	}
	types, err := q.types()
	if err != nil {
		return err
	}
	k, err := q.try(types, Contract{Form: Form{Accumulate: q.Narrow.String()}}, false)
	if err != nil || !k.passes() || len(k.b.round) == 0 || k.errors() < 1./16 || q.ordered(k) {
		return err
	}
	flips := 0
	for _, c := range k.tally.right {
		flips = max(flips, c.flips)
	}
	if 2*k.flips < flips {
		return nil
	}
	title, advice := q.called(built{id: "sums_" + q.Narrow.String()})
	t.cause = &cause{"sums_" + q.Narrow.String(), title, advice}
	return nil
}

// ordered reports whether an output's errors, under a contract, follow the results, their sizes, or the place along an
// axis, as those of sums do not.
func (q *Question) ordered(t *trial) bool {
	w := t.weights(q.Output.Format)
	follow := func(direction func(i int) float64) bool {
		d := slices.Clone(t.y)
		for i := range d {
			d[i] += direction(i)
		}
		along := func(out []float64) float64 {
			a, p := q.amount(t, w, d, out)
			return math.Abs(a * p)
		}
		limit := 4.0
		for _, k := range t.right {
			limit = max(limit, 1.5*along(k)+1)
		}
		return along(q.Output.Data) > limit
	}
	if follow(func(i int) float64 { return t.y[i] }) || follow(func(i int) float64 { return math.Abs(t.y[i]) }) {
		return true
	}
	inner := len(t.y)
	for _, s := range q.Output.Shape {
		inner /= max(1, s)
		if s > 1 && follow(func(i int) float64 { return float64(i/inner%s) - float64(s-1)/2 }) {
			return true
		}
	}
	return false
}

// canNarrow reports whether sums of a product can be kept narrow.
func canNarrow(op graph.Op) bool {
	switch op.(type) {
	case graph.Linear, graph.MatMul:
		return true
	}
	return false
}

// mostNarrow bounds the products that are added one by one.
const mostNarrow = 1 << 24
