package hdf5

import "math/bits"

// product multiplies dimensions of 0 or more and an element size. It fails
// where the result, with every 0 taken as 1, is no int: then no partial
// product, in whatever order, can overflow either.
func product(size int, shape []int) (int, bool) {
	n, empty := uint64(size), false
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(max(d, 1)))
		if d < 0 || hi != 0 || lo>>(bits.UintSize-1) != 0 {
			return 0, false
		}
		n, empty = lo, empty || d == 0
	}
	if empty {
		n = 0
	}
	return int(n), true
}

// grid cuts an array into chunks. Those at the upper edges may reach beyond it.
type grid struct{ shape, chunk []int }

// counts returns how many chunks there are along each axis.
func (g grid) counts() []int {
	c := make([]int, len(g.shape))
	for i, d := range g.shape {
		c[i] = d / g.chunk[i]
		if d%g.chunk[i] != 0 {
			c[i]++
		}
	}
	return c
}

// number is the position of an index in row-major order.
func number(index, shape []int) int {
	n := 0
	for i, x := range index {
		n = n*shape[i] + x
	}
	return n
}

// index is the inverse of [number].
func index(n int, shape []int) []int {
	x := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		x[i] = n % shape[i]
		n /= shape[i]
	}
	return x
}

// next advances x to the next index, in row-major order, of the box from lo
// up to but without hi, and reports whether there is one.
func next(x, lo, hi []int) bool {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i]++; x[i] < hi[i] {
			return true
		}
		x[i] = lo[i]
	}
	return false
}

// inside returns the part of the chunk with the given origin that lies in the
// array.
func (g grid) inside(origin []int) []int {
	extent := make([]int, len(origin))
	for i, o := range origin {
		extent[i] = min(g.chunk[i], g.shape[i]-o)
	}
	return extent
}

// part is a box inside a row-major array: the array's shape and the index of
// the box's first element.
type part struct{ shape, at []int }

// rows visits a box of the given extent, none of it 0, row by row: f gets the
// positions in the arrays a and b at which a row of n elements begins.
func rows(extent []int, a, b part, f func(ia, ib, n int)) {
	last := len(extent) - 1
	zero := make([]int, last)
	x := make([]int, last)
	ia, ib := make([]int, last+1), make([]int, last+1)
	for more := true; more; more = next(x, zero, extent[:last]) {
		for i, o := range x {
			ia[i], ib[i] = a.at[i]+o, b.at[i]+o
		}
		ia[last], ib[last] = a.at[last], b.at[last]
		f(number(ia, a.shape), number(ib, b.shape), extent[last])
	}
}
