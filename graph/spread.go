package graph

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// A transposed convolution whose windows neither overlap nor leave pixels out, as networks enlarge images, has one
// product of a pixel's channels with the weights of a tap for each number of the result: it is a product of matrices,
// whose rows are pixels and whose columns are outputs and taps. The sums are the same, rounded once.

// spreads sets y to such a convolution of x with constant weights, or reports that it is none.
func (c *Call) spreads(y, x *tensor.Tensor, kh, kw int, op ConvTranspose) bool {
	g := op.Params
	apart := g.Pad == [4]int{} && max(g.Dilation[0], g.Dilation[1]) <= 1 && op.OutputPadding == [2]int{} &&
		max(g.Stride[0], 1) == kh && max(g.Stride[1], 1) == kw
	if !apart || op.Groups > 1 || g.Padding != conv.Zeros || c.Mode.BiasApart() || y.Format == fp16.Float64 ||
		len(y.Data) == 0 || x.C() == 0 {
		return false
	}
	weights := c.spreadColumns(kh * kw)
	if weights == nil {
		return false
	}
	inner, columns := weights.Shape()
	area, wide := x.H()*x.W(), y.W()
	each := max(leastRows, patchNumbers/max(inner, columns)/leastRows*leastRows)
	parts := (area + each - 1) / each
	par.For(x.N()*parts, func(i int) {
		w := pixelRowsPool.Get().(*pixelRows)
		defer pixelRowsPool.Put(w)
		sample, first := i/parts, i%parts*each
		n := min(each, area-first)
		matrix(&w.rows, x.Format, n, inner)
		for ch := range inner {
			for k, v := range x.Plane(sample, ch)[first:][:n] {
				w.rows.Data[k*inner+ch] = v
			}
		}
		matrix(&w.sums, y.Format, n, columns)
		weights.Forward(&w.sums, &w.rows)
		for o := range y.C() {
			plane := y.Plane(sample, o)
			for tap := range kh * kw {
				from := w.sums.Data[o*kh*kw+tap:]
				row, column := first/x.W(), first%x.W()
				to := (row*kh+tap/kw)*wide + tap%kw
				for k := range n {
					plane[to+column*kw] = from[k*columns]
					if column++; column == x.W() {
						column, to = 0, to+kh*wide
					}
				}
			}
		}
	})
	return true
}

// spreadColumns returns constant weights of a transposed convolution, [inputs][outputs][taps], and its bias for each of
// so many taps, as the right operand of a product. It is nil where they are not constant, or not finite.
func (c *Call) spreadColumns(taps int) *matmul.Kernel {
	inputs := []int{1}
	key := packedKey{operands: c.program.Operand(c.node, 1), tf32: c.Mode.TF32, patches: -taps}
	if c.constantOf(1) == nil || c.Inputs() == 3 && c.constantOf(2) == nil {
		return nil
	}
	if c.Inputs() == 3 {
		key.bias, inputs = c.constantOf(2), append(inputs, 2)
	}
	return c.Keep(key, inputs, func() any {
		w, bias := c.In(1), []float64(nil)
		if c.Inputs() == 3 {
			for _, b := range c.In(2).Data {
				bias = append(bias, slices.Repeat([]float64{b}, taps)...)
			}
		}
		if !finite(w.Data) || !finite(bias) {
			return (*matmul.Kernel)(nil)
		}
		return matmul.NewKernel(tensor.Of(w.Format, w.Data, w.Shape[0], len(w.Data)/w.Shape[0]), false, bias)
	}).(*matmul.Kernel)
}
