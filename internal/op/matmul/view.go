package matmul

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// view is a stack of matrices in the memory of a tensor.
type view struct {
	data     []float64
	batch    []int // stride of each leading dimension of the result, 0 where broadcast
	row, col int   // strides
}

// see makes the view of an operand of a product whose leading dimensions are dims.
func (v *view) see(t *tensor.Tensor, dims []int, trans, row bool) {
	v.data = t.Data
	rank := len(t.Shape)
	stride := 1
	switch {
	case rank == 1 && row:
		v.row, v.col = 0, 1
	case rank == 1:
		v.row, v.col = 1, 0
	default:
		v.row, v.col = t.Shape[rank-1], 1
		if trans {
			v.row, v.col = v.col, v.row
		}
		stride = t.Shape[rank-1] * t.Shape[rank-2]
	}
	v.spread(leading(t.Shape), dims, stride)
}

// seeResult makes the view of a tensor that is broadcast to a result, which may lack
// rows or columns.
func (v *view) seeResult(t *tensor.Tensor, shape []int, dims int, rows, cols bool) {
	v.data, v.row, v.col = t.Data, 0, 0
	v.spread(t.Shape, shape, 1)
	at := dims
	if rows {
		v.row = v.batch[at]
		at++
	}
	if cols {
		v.col = v.batch[at]
	}
	v.batch = v.batch[:dims]
}

// spread sets the strides of a shape, the last dimension's as given, broadcast to dims.
func (v *view) spread(shape, dims []int, stride int) {
	v.batch = v.batch[:0]
	for range dims {
		v.batch = append(v.batch, 0)
	}
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			v.batch[len(dims)-len(shape)+i] = stride
		}
		stride *= shape[i]
	}
}

// single reports whether the matrices of a stack are one and the same.
func (v *view) single() bool {
	for _, s := range v.batch {
		if s != 0 {
			return false
		}
	}
	return true
}

// even reports whether the rows of all matrices, of m rows each, are at one distance.
func (v *view) even(dims []int, m int) bool {
	next := v.row * m
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] != 1 && v.batch[i] != next {
			return false
		}
		next *= dims[i]
	}
	return true
}

// at returns where the matrix of a number begins.
func (v *view) at(number int, dims []int) int {
	at := 0
	for i := len(dims) - 1; i >= 0; i-- {
		at += number % dims[i] * v.batch[i]
		number /= dims[i]
	}
	return at
}

// turn transposes.
func (v *view) turn() { v.row, v.col = v.col, v.row }

// job is one product: m x k times k x n, in every matrix of a stack.
type job struct {
	format      fp16.Format
	m, n, k     int
	dims        []int // leading dimensions of the result
	batches     int   // their product
	a, b, c     view
	to          []float64
	row, col    int // strides of the result
	alpha, beta float64
	prepared    *Kernel // b, if it is prepared
	then        func(at, n int)

	inner bool    // the addend is one more product of each sum
	fold  float64 // what a is multiplied by when packed, a power of two
	byGo  bool    // sums are finished by plain Go
	terms int     // of a sum as it is packed
}

// begin sets what does not depend on the operands.
func (j *job) begin(dst *tensor.Tensor, p Params) {
	j.format, j.to = dst.Format, dst.Data
	j.alpha, j.beta = 1, 1
	if p.Alpha != nil {
		j.alpha = *p.Alpha
	}
	if p.Beta != nil {
		j.beta = *p.Beta
	}
	if j.alpha-j.alpha != 0 || j.beta-j.beta != 0 {
		panic("matmul: alpha and beta must be finite")
	}
	j.c = view{batch: j.c.batch[:0]}
}

// arrange chooses how the product is computed: any way gives the same bits.
func (j *job) arrange() {
	j.batches = 1
	for _, d := range j.dims {
		j.batches *= d
	}
	j.row, j.col = j.n, 1
	j.inner, j.fold = false, 1
	// A power of two is a factor of a; and a row or a column that is added is one
	// more product, with 1.
	if j.format != fp16.Float64 && j.alpha != 1 && light(j.alpha) && j.prepared == nil {
		j.fold, j.alpha = j.alpha, 1
	}
	if j.c.data != nil && j.alpha == 1 && j.c.single() && (j.c.row == 0 || j.c.col == 0) &&
		(j.beta == 1 || j.format != fp16.Float64 && light(j.beta)) {
		j.inner = true
	}
	// Many matrices times one are one matrix.
	if j.batches > 1 && (j.prepared != nil || j.b.single()) && j.a.even(j.dims, j.m) &&
		(j.c.data == nil || j.inner && j.c.row == 0 || !j.inner && j.c.even(j.dims, j.m)) {
		j.m, j.batches, j.dims = j.m*j.batches, 1, j.dims[:0]
		j.a.batch, j.b.batch, j.c.batch = j.a.batch[:0], j.b.batch[:0], j.c.batch[:0]
	}
	// Few columns make a bad block: they become rows.
	if j.prepared == nil && j.n < narrow && j.n < j.m {
		j.a, j.b = j.b, j.a
		j.a.turn()
		j.b.turn()
		j.c.turn()
		j.m, j.n, j.row, j.col = j.n, j.m, j.col, j.row
	}
}

// narrow is the number of columns from which they are not made rows.
const narrow = 12

// light reports whether v is a power of two, or its negative, by which float32 numbers
// and their products may be multiplied without leaving the range of package exact.
func light(v float64) bool {
	const most = 0x1p50
	for _, p := range [2]float64{v, -v} {
		if p >= 1/most && p <= most && power(p) {
			return true
		}
	}
	return false
}

// end lets go of the tensors.
func (j *job) end() {
	j.a.data, j.b.data, j.c.data, j.to, j.prepared, j.then = nil, nil, nil, nil, nil, nil
}

// Seen is a stack of float32 matrices in the memory of a tensor, for [Space.ForwardSeen].
type Seen struct {
	Data     []float64
	Batch    []int // from a matrix to the next along each leading dimension of the result, 0 where it is the same
	Row, Col int   // from a row and a column to the next
}

// ForwardSeen is [Space.Forward] of matrices with that inner dimension that lie in other tensors, into a
// float32 dst, and calls then as Params has it.
func (s *Space) ForwardSeen(dst *tensor.Tensor, a, b Seen, inner int, then func(at, n int)) {
	j := &s.job
	j.begin(dst, Params{})
	rank := len(dst.Shape)
	j.then, j.prepared = then, nil
	j.m, j.n, j.k = dst.Shape[rank-2], dst.Shape[rank-1], inner
	j.dims = append(j.dims[:0], leading(dst.Shape)...)
	j.a = view{a.Data, append(j.a.batch[:0], a.Batch...), a.Row, a.Col}
	j.b = view{b.Data, append(j.b.batch[:0], b.Batch...), b.Row, b.Col}
	s.run()
}
