// Package index holds the operations that move numbers: each number of a result is a
// number of the source, or a constant, and which one is said by places alone. Scatter and
// EmbeddingBag also take together what comes to one place.
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
//	Take              x[..., index[i, j, ...], ...] along an axis
//	Gather            x[..., index[i], ...]: an index for each number of the result
//	GatherND          x[index[i, 0], index[i, 1], ...]
//	Scatter           the old number and all that an index brings to its place
//	IndexAdd          the same, with an index for each part along an axis
//	ScatterND         the same, with places like those of GatherND
//	EmbeddingBag      rows of a table that belong to one bag, taken together
//	OneHot            1 where the index is, else 0
//	ArgMax            the place of the greatest number
//	Sort              the numbers in order, and where they were
//
// A number goes to the destination as it is. If the destination has another format than
// the source it is rounded to it, once. NaN, infinities and zeros of either sign are
// numbers like others.
//
// # What comes to one place
//
// A [Reduction] says what becomes of it: the last one in the order of the index, the sum,
// the mean, the greatest or the least. Sum and mean are exact, rounded once, so no order
// shows in them; in a Float64 destination they are plain float64, the old number first,
// then the others in the order of the index. A sum that is exactly zero is +0, Inf-Inf and
// NaN are NaN. A NaN is the greatest and the least, and -0 is less than +0. A place to
// which nothing comes keeps its number.
//
// # Indices
//
// An index below zero counts from the end; package graph refuses it where ATen does. One that is
// outside is an error, which says
// where it stands, and the range: "index[0 3]: 7: want -4 to 3".
//
// # Order
//
// ArgMax and Sort take NaN for greater than every number, and zeros for equal. ArgMax of
// equal numbers is the first one; the least one of a line with a NaN is the NaN too. Sort
// is stable in both directions.
//
// # Misuse
//
// Shapes that do not fit together, axes that a tensor has not, and sums of a Float64
// source in a destination of another format panic.
//
// In use:
//
//	index.Permute(y, x, 0, 2, 3, 1)        // [N,C,H,W] to [N,H,W,C]
//	err := index.Take(rows, table, 0, ids) // ids hold whole numbers: fp16.Int64
package index

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// piece is about how many numbers one piece of work moves; tests make it small.
var piece = 1 << 14

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
