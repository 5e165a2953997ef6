package judge

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// narrowSums is a product whose sums are kept in a narrow format: so many terms are added at once, in the order of
// the axis, and the result is rounded. It is a fault.
type narrowSums struct {
	graph.Op
	format fp16.Format
	terms  int
}

// termsAtOnce is how many terms a narrow sum takes before it is rounded.
func (b *builder) termsAtOnce() int {
	if len(b.built.figures) == 0 {
		return 1
	}
	return int(b.figure(0))
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
		term = func(row, col, j int) float64 { return float64(a.Data[row*k+j] * b.Data[col*k+j]) }
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
			return float64(a.Data[row*k+j] * b.Data[(batch*k+j)*cols+col])
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
				if s += term(row, col, j); (j+1)%o.terms == 0 || j == k-1 {
					s = o.format.Round(s)
				}
			}
			if c.Inputs() > 2 {
				s += c.In(2).Data[col]
			}
			dst.Data[row*cols+col] = s
		}
	}
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
