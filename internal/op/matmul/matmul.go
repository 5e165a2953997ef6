// Package matmul multiplies matrices exactly: every element of a product is one real
// function of the stored operands,
//
//	y[i,j] = alpha sum over k of a[i,k] b[k,j] + beta c[i,j],
//
// rounded once, to nearest even, to the format of the destination. There is no order
// of summation in it, so that the same bits come out on every instruction set, for
// every number of threads and every blocking.
//
// A Float64 destination is the exception, as everywhere in this project: there the
// products are rounded, added in the order of k from zero, and neither is fused; alpha
// (unless it is 1), beta (the same) and the sum of the two round once each, in that
// order.
//
// Special values follow IEEE 754: NaN, Inf-Inf and Inf*0 give NaN, an exact sum of
// zero is +0, and a sum of nothing is zero. Alpha and beta are finite; a factor of zero
// still meets the infinities and NaNs of what it multiplies.
//
// The method is that of package conv: compute in float64, where products of float32
// numbers are exact, round y-E and y+E with a proven bound E (bound.go), and settle
// what that leaves open (settle.go).
//
// In use:
//
//	k := matmul.NewKernel(weight, true, bias) // of a linear layer, [N,K], prepared once
//	k.Forward(y, x)                           // [...,K] to [...,N]
//	matmul.Forward(c, a, b, matmul.Params{})
//
// For packages graph and plan alone there are [FastSingles], [Matrices], [Seen] and [Places].
package matmul

import (
	"fmt"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Params says what is multiplied, beside the operands. The zero value is the product
// of a and b as they are.
type Params struct {
	TransA, TransB bool           // the last two dimensions of a, or of b, change places
	Alpha, Beta    *float64       // nil is 1
	C              *tensor.Tensor // what is added, broadcast to the shape of the result; nil is nothing

	// Then, if not nil, is called for all numbers of the result in pieces that do not overlap,
	// when they are made: n of them from the one numbered at on, a line or less of the result
	// or of all its numbers. Several goroutines call it at once.
	Then func(at, n int)
}

// Shape returns the shape of the product of operands of shapes a and b, as
// numpy.matmul and torch.matmul have it: leading dimensions are broadcast, and an
// operand of one dimension is a row on the left, a column on the right, which the
// result lacks. Only operands of two dimensions or more are transposed.
func Shape(a, b []int, p Params) ([]int, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("matmul: shapes: %v and %v: want one dimension or more each", a, b)
	}
	m, ka := ends(a, p.TransA, true)
	kb, n := ends(b, p.TransB, false)
	if ka != kb {
		return nil, fmt.Errorf("matmul: shapes: %v and %v: want inner dimensions that agree, not %d and %d", a, b, ka, kb)
	}
	batch, ok := broadcast(leading(a), leading(b))
	if !ok {
		return nil, fmt.Errorf("matmul: shapes: %v and %v: want leading dimensions that are equal or 1", a, b)
	}
	if len(a) > 1 {
		batch = append(batch, m)
	}
	if len(b) > 1 {
		batch = append(batch, n)
	}
	if p.C != nil {
		if all, ok := broadcast(batch, p.C.Shape); !ok || !slices.Equal(all, batch) {
			return nil, fmt.Errorf("matmul: C: shape %v: want one that can be broadcast to %v", p.C.Shape, batch)
		}
	}
	return batch, nil
}

// ends returns rows and columns of an operand, of which one dimension is a row or a
// column.
func ends(shape []int, trans, row bool) (rows, cols int) {
	last := shape[len(shape)-1]
	switch {
	case len(shape) == 1 && row:
		return 1, last
	case len(shape) == 1:
		return last, 1
	case trans:
		return last, shape[len(shape)-2]
	}
	return shape[len(shape)-2], last
}

// leading returns the dimensions before the last two.
func leading(shape []int) []int { return shape[:max(0, len(shape)-2)] }

// broadcast returns the common shape of two, as numpy does.
func broadcast(a, b []int) ([]int, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, d := range b {
		at := len(a) - len(b) + i
		switch {
		case out[at] == 1:
			out[at] = d
		case d != 1 && d != out[at]:
			return nil, false
		}
	}
	return out, true
}

// Forward multiplies a and b into dst, whose shape is that of Shape and whose memory
// is its own. Formats may differ, but what has a Float64 operand needs a Float64 dst.
// It panics if shapes or formats do not fit together.
func Forward(dst, a, b *tensor.Tensor, p Params) {
	s := spaces.Get().(*Space)
	defer spaces.Put(s)
	s.Forward(dst, a, b, p)
}

var spaces = sync.Pool{New: func() any { return NewSpace() }}

// Forward is the function Forward in this memory.
func (s *Space) Forward(dst, a, b *tensor.Tensor, p Params) {
	s.fit(dst, a.Shape, b.Shape, p)
	wide := a.Format == fp16.Float64 || b.Format == fp16.Float64 || p.C != nil && p.C.Format == fp16.Float64
	if wide && dst.Format != fp16.Float64 {
		panic("matmul: float64 operands need a float64 destination")
	}
	j := &s.job
	j.begin(dst, p)
	j.then = p.Then
	j.m, j.k = ends(a.Shape, p.TransA, true)
	_, j.n = ends(b.Shape, p.TransB, false)
	j.dims = append(j.dims[:0], dst.Shape[:len(dst.Shape)-min(len(a.Shape)-1, 1)-min(len(b.Shape)-1, 1)]...)
	j.a.see(a, j.dims, p.TransA, true)
	j.b.see(b, j.dims, p.TransB, false)
	if p.C != nil {
		j.c.seeResult(p.C, dst.Shape, len(j.dims), len(a.Shape) > 1, len(b.Shape) > 1)
	}
	j.prepared = nil
	s.run()
}

// fit panics unless the shapes fit together.
func (s *Space) fit(dst *tensor.Tensor, a, b []int, p Params) {
	// Without memory in the usual case, that of equal ranks.
	if len(a) >= 2 && len(a) == len(b) && len(a) == len(dst.Shape) && p.C == nil {
		m, ka := ends(a, p.TransA, true)
		kb, n := ends(b, p.TransB, false)
		if ka == kb && slices.Equal(leading(a), leading(b)) && slices.Equal(leading(a), leading(dst.Shape)) &&
			dst.Shape[len(a)-2] == m && dst.Shape[len(a)-1] == n {
			return
		}
	}
	shape, err := Shape(a, b, p)
	if err != nil {
		panic(err.Error())
	}
	if !slices.Equal(shape, dst.Shape) {
		panic(fmt.Sprintf("matmul: destination: shape %v: want %v", dst.Shape, shape))
	}
}
