package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// shapes checks shapes, and operands against their format.
func (q *Question) shapes() error {
	for _, of := range []struct {
		name string
		*tensor.Tensor
	}{{"a", q.A}, {"b", q.B}, {"output", q.Output}} {
		if of.Tensor == nil {
			return fmt.Errorf("%s: missing", of.name)
		}
	}
	var want, wantB []int
	if len(q.A.Shape) != 2 {
		return fmt.Errorf("a: shape %v: want two axes", q.A.Shape)
	}
	switch q.Op {
	case "dot":
		want, wantB = q.A.Shape[:1], q.A.Shape
	case "matmul":
		if len(q.B.Shape) != 2 {
			return fmt.Errorf("b: shape %v: want two axes", q.B.Shape)
		}
		if q.B.Shape[0] != q.A.Shape[1] {
			return fmt.Errorf("b: shape %v: want %d rows, as a has columns", q.B.Shape, q.A.Shape[1])
		}
		want, wantB = []int{q.A.Shape[0], q.B.Shape[1]}, []int{q.A.Shape[1], q.B.Shape[1]}
	default:
		return fmt.Errorf("op %.40q: want dot or matmul", q.Op)
	}
	if !slices.Equal(q.B.Shape, wantB) {
		return fmt.Errorf("b: shape %v: want %v", q.B.Shape, wantB)
	}
	if !slices.Equal(q.Output.Shape, want) {
		return fmt.Errorf("output: shape %v: want %v", q.Output.Shape, want)
	}
	if q.C != nil && !slices.Equal(q.C.Shape, want) {
		return fmt.Errorf("c: shape %v: want %v", q.C.Shape, want)
	}
	for _, of := range []struct {
		name string
		*tensor.Tensor
	}{{"a", q.A}, {"b", q.B}} {
		for i, v := range of.Data {
			if !q.Operands.Has(v) {
				return fmt.Errorf("%s: element %d: %v: want numbers of %v", of.name, i, v, q.Operands)
			}
		}
	}
	for i, v := range q.Output.Data {
		if q.Store.Round(v) != v && v == v {
			return fmt.Errorf("output: element %d: %v: want numbers of %v", i, v, q.Store)
		}
	}
	if q.C != nil {
		for i, v := range q.C.Data {
			if fp16.Float32.Round(v) != v && v == v {
				return fmt.Errorf("c: element %d: %v: want numbers of float32", i, v)
			}
		}
	}
	return nil
}

// sorted orders fits by what they miss, fewer parts first, float32 sums before float16 ones,
// and the devices in the order of their names' list.
func sorted(fits []candidate) {
	slices.SortStableFunc(fits, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.NotEqual, b.NotEqual), cmp.Compare(a.SplitK, b.SplitK), -cmp.Compare(a.Sums, b.Sums))
	})
}
