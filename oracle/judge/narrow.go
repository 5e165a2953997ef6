package judge

import (
	"fmt"
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
// inputs' format: as large as simulated ones, about, and nowhere larger.
func (q *Question) narrowed(t *trial) error {
	if q.Claimed != nil || t.passes() || t.fault != nil || q.Narrow == fp16.Float32 {
		return nil
	}
	types, err := q.types()
	if err != nil {
		return err
	}
	k, err := q.try(types, Contract{Form: Form{Accumulate: q.Narrow.String()}}, false)
	if err != nil || !k.passes() || len(k.b.round) == 0 || k.errors() < 1./16 {
		return err
	}
	i := slices.IndexFunc(Faults, func(f Fault) bool { return f.ID == "sums_"+q.Narrow.String() })
	t.fault = &found{Fault: Faults[i]}
	return nil
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
