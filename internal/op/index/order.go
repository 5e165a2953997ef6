package index

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/tensor"
)

// along calls body with each line of src along an axis: its numbers, which body must not
// keep, where its first number is in a tensor with m numbers along the axis, and how far
// those lie apart there.
func along(src *tensor.Tensor, axis, m int, body func(line []float64, first, step int)) {
	outer, inner := around(src.Shape, axis)
	n := src.Shape[axis]
	pieces(outer*inner, n, func(lo, hi int) {
		line := make([]float64, n)
		for i := lo; i < hi; i++ {
			o, j := i/inner, i%inner
			for k := range line {
				line[k] = src.Data[(o*n+k)*inner+j]
			}
			body(line, o*m*inner+j, inner)
		}
	})
}

// order compares numbers: a NaN is greater than every number, and equal to a NaN.
func order(a, b float64) int {
	if (a != a) != (b != b) {
		if a != a {
			return 1
		}
		return -1
	}
	return cmp.Compare(a, b)
}

// ArgMax sets dst, of src's shape without an axis, to where along it the greatest number
// is, or the least. The axis must have numbers.
func ArgMax(dst, src *tensor.Tensor, axis int, least bool) {
	outer, inner := around(src.Shape, axis)
	want(len(dst.Data) == outer*inner, "a destination of another size")
	if len(dst.Data) == 0 {
		return
	}
	want(src.Shape[axis] > 0, "the greatest of no numbers")
	along(src, axis, 1, func(line []float64, first, _ int) {
		best := 0
		for i, v := range line {
			b := line[best]
			switch {
			case b != b:
			case v != v, least && v < b, !least && v > b:
				best = i
			}
		}
		dst.Data[first] = float64(best)
	})
}

// Sort sets values to the first numbers of each line of src along an axis, as many as it
// has room for, when the line is sorted, and places to where in the line they were. Either
// may be nil.
func Sort(values, places, src *tensor.Tensor, axis int, descending bool) {
	outer, inner := around(src.Shape, axis)
	m := -1
	for _, t := range []*tensor.Tensor{values, places} {
		if t == nil {
			continue
		}
		want(len(t.Shape) == len(src.Shape) && (m < 0 || m == t.Shape[axis]), "destinations of other shapes")
		m = t.Shape[axis]
		want(m <= src.Shape[axis] && len(t.Data) == outer*m*inner, "a destination of another size")
	}
	if m < 0 || outer*m*inner == 0 {
		return
	}
	along(src, axis, m, func(line []float64, first, step int) {
		at := make([]int, len(line))
		for i := range at {
			at[i] = i
		}
		slices.SortFunc(at, func(a, b int) int {
			c := order(line[a], line[b])
			if descending {
				c = -c
			}
			return cmp.Or(c, a-b) // stable
		})
		for k, i := range at[:m] {
			if values != nil {
				values.Data[first+k*step] = values.Format.Round(line[i])
			}
			if places != nil {
				places.Data[first+k*step] = float64(i)
			}
		}
	})
}
