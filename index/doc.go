// Package index holds the operations that move numbers: each number of a result is a
// number of the source, or a constant, and which one is said by places alone.
//
//	Cat               the sources one after the other along an axis
//	Permute           y[i_p(0), i_p(1), ...] = x[i_0, i_1, ...]: the axes in another order
//	Expand            axes of size 1 repeated, and new axes in front
//	Slice             x[start + step i] along every axis
//	Roll              x[(i - shift) mod n]
//	Repeat            x[i mod n], with new axes in front
//	RepeatInterleave  x[floor(i / times)]
//	Pad               x[i - before], and beyond x a constant, x mirrored, its border, or x again
//	Triangle          x[i, j] on one side of a diagonal, 0 on the other
//	DepthToSpace      blocks of channels as blocks of pixels
//	SpaceToDepth      the other way round
//
// A number goes to the destination as it is. If the destination has another format than
// the source it is rounded to it, once. NaN, infinities and zeros of either sign are
// numbers like others.
//
// # Misuse
//
// Shapes that do not fit together and axes that a tensor has not panic.
package index

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// piece is about how many numbers one piece of work moves.
const piece = 1 << 14

// pieces calls body with the parts of [0,n), each of about so many things as hold piece
// numbers if one holds size.
func pieces(n, size int, body func(lo, hi int)) {
	step := max(1, piece/max(size, 1))
	par.For((n+step-1)/step, func(p int) { body(p*step, min((p+1)*step, n)) })
}

// around returns how many numbers of a shape differ before an axis, and after it.
func around(shape []int, axis int) (outer, inner int) {
	if axis < 0 || axis >= len(shape) {
		panic("index: an axis that the tensor has not")
	}
	return tensor.Size(shape[:axis]), tensor.Size(shape[axis+1:])
}

// round rounds numbers that came from a format to another one.
func round(to, from fp16.Format, x []float64) {
	if to != from {
		to.RoundSlice(x, x)
	}
}

// want panics unless that is so.
func want(so bool, otherwise string) {
	if !so {
		panic("index: " + otherwise)
	}
}
