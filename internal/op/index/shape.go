package index

import (
	"slices"

	"github.com/refrun/refrun/tensor"
)

// Permute sets dst to src with its axes in another order: axis a of dst is axis order[a]
// of src.
func Permute(dst, src *tensor.Tensor, order ...int) {
	want(len(order) == len(src.Shape) && len(order) == len(dst.Shape), "an order of another rank")
	step, m := strides(src.Shape), make(maps, len(order))
	sorted := slices.Sorted(slices.Values(order))
	for a, of := range order {
		want(sorted[a] == a, "an order with an axis that the tensor has not, or twice")
		want(dst.Shape[a] == src.Shape[of], "a destination of another shape")
	}
	if len(dst.Data) == 0 {
		return
	}
	for a, of := range order {
		m[a] = even(dst.Shape[a], step[of])
	}
	m.move(dst, src, 0)
}

// Expand sets dst to src repeated along axes in which it has size 1, and along axes of dst
// in front of its own.
func Expand(dst, src *tensor.Tensor) {
	front := len(dst.Shape) - len(src.Shape)
	want(front >= 0, "a destination of lower rank")
	for a, d := range src.Shape {
		want(d == 1 || d == dst.Shape[front+a], "a destination of another shape")
	}
	if len(dst.Data) == 0 {
		return
	}
	step, m := strides(src.Shape), make(maps, len(dst.Shape))
	for a, n := range dst.Shape {
		by := 0
		if a >= front && src.Shape[a-front] > 1 {
			by = step[a-front]
		}
		m[a] = even(n, by)
	}
	m.move(dst, src, 0)
}

// Slice sets dst to the numbers of src at start, start+step, start+2 step and so on along
// each axis, as many as dst has. Steps may be negative, or zero.
func Slice(dst, src *tensor.Tensor, start, step []int) {
	rank := len(src.Shape)
	want(len(dst.Shape) == rank && len(start) == rank && len(step) == rank, "a slice of another rank")
	for a, n := range dst.Shape {
		if last := n - 1; n > 0 && len(dst.Data) > 0 {
			end := start[a] + last*step[a]
			want(min(start[a], end) >= 0 && max(start[a], end) < src.Shape[a], "a slice beyond the source")
		}
	}
	if len(dst.Data) == 0 {
		return
	}
	by, m := strides(src.Shape), make(maps, rank)
	for a, n := range dst.Shape {
		m[a] = places{n: n, first: start[a] * by[a], step: step[a] * by[a]}
	}
	m.move(dst, src, 0)
}

// Roll sets dst to src moved along each axis, by shift[a] towards the end of axis a; what
// goes beyond the end comes in at the front.
func Roll(dst, src *tensor.Tensor, shift []int) {
	want(dst.SameShape(src) && len(shift) == len(src.Shape), "a destination of another shape")
	if len(dst.Data) == 0 {
		return
	}
	by, m := strides(src.Shape), make(maps, len(src.Shape))
	for a, n := range src.Shape {
		back := modulo(shift[a], n)
		m[a] = line(n, func(i int) int { return modulo(i-back, n) * by[a] })
	}
	m.move(dst, src, 0)
}

// modulo returns i modulo n, from 0 to n-1.
func modulo(i, n int) int {
	if i %= n; i < 0 {
		i += n
	}
	return i
}

// Repeat sets dst to src again and again along each axis, and along axes of dst in front
// of src's. The sizes of dst are multiples of src's.
func Repeat(dst, src *tensor.Tensor) {
	front := len(dst.Shape) - len(src.Shape)
	want(front >= 0, "a destination of lower rank")
	if len(dst.Data) == 0 {
		return
	}
	by, m := strides(src.Shape), make(maps, len(dst.Shape))
	for a, n := range dst.Shape {
		d, step := 1, 0
		if a >= front {
			d, step = src.Shape[a-front], by[a-front]
		}
		want(d > 0 && n%d == 0, "a destination whose sizes are no multiples of the source's")
		m[a] = line(n, func(i int) int { return i % d * step })
	}
	m.move(dst, src, 0)
}

// RepeatInterleave sets dst to src with each number so many times along an axis.
func RepeatInterleave(dst, src *tensor.Tensor, axis, times int) {
	outer, inner := around(src.Shape, axis)
	n := src.Shape[axis]
	want(times >= 0 && len(dst.Data) == times*len(src.Data), "a destination of another size")
	if len(dst.Data) == 0 {
		return
	}
	maps{
		even(outer, n*inner),
		line(n*times, func(i int) int { return i / times * inner }),
		even(inner, 1),
	}.move(dst, src, 0)
}

// Triangle sets dst to src, of which the last two axes are matrices, with zeros above the
// diagonal j = i + diagonal, or below it if upper.
func Triangle(dst, src *tensor.Tensor, diagonal int, upper bool) {
	rank := len(src.Shape)
	want(dst.SameShape(src) && rank >= 2, "a destination of another shape, or no matrices")
	rows, columns := src.Shape[rank-2], src.Shape[rank-1]
	if len(dst.Data) == 0 {
		return
	}
	pieces(len(src.Data)/columns, columns, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			to, from := dst.Data[r*columns:][:columns], src.Data[r*columns:][:columns]
			// i + diagonal without overflow
			i := r % rows
			edge := min(max(diagonal, -rows), columns) + i // the last column of a lower triangle
			lower, higher := 0, min(edge+1, columns)
			if upper {
				lower, higher = max(edge, 0), columns
			}
			for j := range to {
				if to[j] = 0; lower <= j && j < higher {
					to[j] = from[j]
				}
			}
		}
		round(dst.Format, src.Format, dst.Data[lo*columns:hi*columns])
	})
}
