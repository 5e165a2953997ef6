package pointwise

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/tensor"
)

// Broadcast returns the shape of an operation on tensors of these shapes, by numpy's
// rules: shapes are aligned at their ends, a missing dimension counts as 1, and
// dimensions that differ must be 1 in all but one size.
func Broadcast(shapes ...[]int) ([]int, error) {
	var out []int
	for _, s := range shapes {
		for len(out) < len(s) {
			out = slices.Insert(out, 0, 1)
		}
	}
	for _, s := range shapes {
		for i, d := range s {
			switch at := &out[len(out)-len(s)+i]; {
			case d == *at, d == 1:
			case *at == 1:
				*at = d
			default:
				return nil, fmt.Errorf("shapes %v: want dimensions that are equal, or 1, from the last one on", shapes)
			}
		}
	}
	return out, nil
}

// layout says where the operands' elements are. Neighbouring dimensions that all
// operands have alike, or all lack, count as one.
type layout struct {
	shape []int   // of the result
	step  [][]int // for each operand and dimension: elements from one index to the next, 0 where it is spread
	in    []*tensor.Tensor
}

func layoutOf(dst *tensor.Tensor, in []*tensor.Tensor) *layout {
	shapes := make([][]int, len(in))
	for i, t := range in {
		shapes[i] = t.Shape
		if len(t.Data) != tensor.Size(t.Shape) {
			panic("pointwise: data length does not match the shape")
		}
	}
	shape, err := Broadcast(shapes...)
	if err != nil || !slices.Equal(shape, dst.Shape) || len(dst.Data) != tensor.Size(shape) {
		panic("pointwise: shapes differ")
	}
	l := &layout{step: make([][]int, len(in)), in: in}
	each := make([]int, len(in)) // elements of one index of the dimension
	for i := range each {
		each[i] = 1
	}
	for d := len(shape) - 1; d >= 0; d-- {
		steps := make([]int, len(in))
		for i, s := range shapes {
			if at := d - (len(shape) - len(s)); at >= 0 && s[at] > 1 {
				steps[i] = each[i]
				each[i] *= s[at]
			}
		}
		l.put(shape[d], steps)
	}
	return l
}

// put adds a dimension of n outside of the others, or makes the outermost one greater.
func (l *layout) put(n int, steps []int) {
	last := len(l.shape) - 1
	joins := last >= 0
	for i, s := range steps {
		if joins && s != l.step[i][last]*l.shape[last] {
			joins = false
		}
	}
	switch {
	case n == 1:
	case joins:
		l.shape[last] *= n
	default:
		l.shape = append(l.shape, n)
		for i, s := range steps {
			l.step[i] = append(l.step[i], s)
		}
	}
}

// row sets runs to the operands' parts from element at of the result on, and returns
// how many elements they serve. Dimensions are kept with the innermost first.
func (l *layout) row(at int, runs []run) int {
	for i, t := range l.in {
		runs[i] = run{data: t.Data}
	}
	left := 1
	for d, n := range l.shape {
		index := at % n
		at /= n
		if d == 0 {
			left = n - index
		}
		for i := range runs {
			runs[i].data = runs[i].data[index*l.step[i][d]:]
			if d == 0 {
				runs[i].step = l.step[i][d]
			}
		}
	}
	return left
}
