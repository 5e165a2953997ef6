package graph

import (
	"slices"
	"sync"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/matmul"
	"github.com/refrun/refrun/tensor"
)

// A convolution of few pixels is computed as a product of matrices: what a pixel reads is a row, in the order of a
// weight's numbers. Kernels of convolutions have pixels side by side, and those of products have outputs. It is the
// same sum, rounded once, and so has the same bits.

// Results of at most fewPixels pixels and at least manyOutputs channels are products: a kernel's tile has more pixels,
// and a panel as many outputs. The numbers change no result.
const (
	fewPixels   = 8
	manyOutputs = 12
)

// pixelRows is the memory of such a product.
type pixelRows struct{ rows, sums tensor.Tensor }

var pixelRowsPool = sync.Pool{New: func() any { return new(pixelRows) }}

// matrix makes a tensor a matrix whose numbers do not matter.
func matrix(t *tensor.Tensor, f fp16.Format, rows, columns int) {
	if n := rows * columns; cap(t.Data) < n {
		t.Data = make([]float64, n)
	}
	t.Format, t.Shape, t.Data = f, append(t.Shape[:0], rows, columns), t.Data[:rows*columns]
}

// few sets y to a convolution of few pixels of x with constant weights, or reports that it is none.
func (c *Call) few(y, x *tensor.Tensor, kh, kw int, g conv.Params, groups int) bool {
	pixels := y.N() * y.H() * y.W()
	if pixels > fewPixels || y.C() < manyOutputs || groups > 1 || g.Padding != conv.Zeros {
		return false
	}
	if c.Mode.Fast || c.Mode.BiasApart() || y.Format == fp16.Float64 {
		return false
	}
	weights := c.columns()
	if weights == nil {
		return false
	}
	w := pixelRowsPool.Get().(*pixelRows)
	defer pixelRowsPool.Put(w)
	inner, outputs := weights.Shape()
	matrix(&w.rows, x.Format, pixels, inner)
	rowsOf(w.rows.Data, x, y.H(), y.W(), kh, kw, g)
	matrix(&w.sums, y.Format, pixels, outputs)
	weights.Forward(&w.sums, &w.rows)
	area := y.H() * y.W()
	for i, v := range w.sums.Data {
		p, o := i/outputs, i%outputs
		y.Data[(p/area*outputs+o)*area+p%area] = v
	}
	return true
}

// columns returns constant weights of a convolution, and its bias, as the right operand of a product. It is nil where
// they are not constant, or not finite: a pixel that is not there would be a product with 0.
func (c *Call) columns() *matmul.Kernel {
	inputs := []int{1}
	key := packedKey{operands: c.program.Operand(c.node, 1), tf32: c.Mode.TF32, trans: true, patches: true}
	if c.constantOf(1) == nil || c.Inputs() == 3 && c.constantOf(2) == nil {
		return nil
	}
	if c.Inputs() == 3 {
		key.bias, inputs = c.constantOf(2), append(inputs, 2)
	}
	return c.Keep(key, inputs, func() any {
		w, bias := c.In(1), []float64(nil)
		if c.Inputs() == 3 {
			bias = c.In(2).Data
		}
		infinite := func(v float64) bool { return v-v != 0 }
		if slices.ContainsFunc(w.Data, infinite) || slices.ContainsFunc(bias, infinite) {
			return (*matmul.Kernel)(nil)
		}
		outputs := w.Shape[0]
		return matmul.NewKernel(tensor.Of(w.Format, w.Data, outputs, len(w.Data)/outputs), true, bias)
	}).(*matmul.Kernel)
}

// rowsOf sets rows to what the pixels of a result of size oh x ow read of x.
func rowsOf(rows []float64, x *tensor.Tensor, oh, ow, kh, kw int, g conv.Params) {
	step := func(axis int) (stride, dilation int) { return max(g.Stride[axis], 1), max(g.Dilation[axis], 1) }
	sy, dy := step(0)
	sx, dx := step(1)
	at := 0
	for p := range x.N() * oh * ow {
		n, top, left := p/ow/oh, p/ow%oh*sy-g.Pad[0], p%ow*sx-g.Pad[1]
		for channel := range x.C() {
			plane := x.Plane(n, channel)
			for i := range kh {
				row := top + i*dy
				for j := range kw {
					if col := left + j*dx; row >= 0 && row < x.H() && col >= 0 && col < x.W() {
						rows[at] = plane[row*x.W()+col]
					} else {
						rows[at] = 0
					}
					at++
				}
			}
		}
	}
}
