package graph

import (
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// A convolution of few pixels, or with a window for which there is no kernel of images, is computed as a product of
// matrices: what a pixel reads is a row, in the order of a weight's numbers. Kernels of convolutions of tensors have
// pixels of a line side by side, and those of products have outputs. It is the same sum, rounded once, and so has the
// same bits.

// Results of at most fewPixels pixels, or by other windows, and at least manyOutputs channels are products: a kernel's
// tile has more pixels, and a panel as many outputs. Some rows are gathered at a time, of patchNumbers numbers or at
// least leastRows. These numbers change no result.
const (
	fewPixels    = 8
	manyOutputs  = 12
	patchNumbers = 1 << 16
	leastRows    = 48
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

// few sets y to a convolution of few pixels of x, or by an unusual window, with constant weights, or reports that it is
// none.
func (c *Call) few(y, x *tensor.Tensor, kh, kw int, g conv.Params, groups int) bool {
	pixels := y.N() * y.H() * y.W()
	usual := kh == kw && kh%2 == 1 && g == conv.Square(g.Stride[0], kh/2, conv.Zeros)
	if usual && pixels > fewPixels || y.C() < manyOutputs || groups > 1 || g.Padding != conv.Zeros || pixels == 0 {
		return false
	}
	if c.Mode.Fast || c.Mode.BiasApart() || y.Format == fp16.Float64 {
		return false
	}
	weights := c.columns()
	if weights == nil {
		return false
	}
	inner, outputs := weights.Shape()
	each := max(leastRows, patchNumbers/inner/leastRows*leastRows)
	p := newPatches(x, y.H(), y.W(), kh, kw, g)
	par.For((pixels+each-1)/each, func(i int) {
		w := pixelRowsPool.Get().(*pixelRows)
		defer pixelRowsPool.Put(w)
		first, n := i*each, min(each, pixels-i*each)
		matrix(&w.rows, x.Format, n, inner)
		p.rows(w.rows.Data, first, n)
		matrix(&w.sums, y.Format, n, outputs)
		weights.Forward(&w.sums, &w.rows)
		area := y.H() * y.W()
		for from := first; from < first+n; {
			some := min(first+n-from, area-from%area) // of one sample
			sums := w.sums.Data[(from-first)*outputs:][:some*outputs]
			for o := range outputs {
				to := y.Data[(from/area*outputs+o)*area+from%area:][:some]
				for k := range to {
					to[k] = sums[k*outputs+o]
				}
			}
			from += some
		}
	})
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

// patches are what the pixels of a result read of x.
type patches struct {
	x              *tensor.Tensor
	oh, ow, kh, kw int
	stride, step   [2]int // of pixels and of taps
	top, left      int
	taps           []int // of a pixel inside, from its first one
}

func newPatches(x *tensor.Tensor, oh, ow, kh, kw int, g conv.Params) *patches {
	p := &patches{x: x, oh: oh, ow: ow, kh: kh, kw: kw, top: g.Pad[0], left: g.Pad[1]}
	for axis := range p.step {
		p.stride[axis], p.step[axis] = max(g.Stride[axis], 1), max(g.Dilation[axis], 1)
	}
	for channel := range x.C() {
		for i := range kh {
			for j := range kw {
				p.taps = append(p.taps, (channel*x.H()+i*p.step[0])*x.W()+j*p.step[1])
			}
		}
	}
	return p
}

// rows sets rows to what n pixels from one on read.
func (p *patches) rows(rows []float64, first, n int) {
	x, h, w := p.x, p.x.H(), p.x.W()
	inner := len(p.taps)
	for k := range n {
		pixel, row := first+k, rows[k*inner:][:inner]
		sample := x.Data[pixel/p.ow/p.oh*x.C()*h*w:][:x.C()*h*w]
		top, left := pixel/p.ow%p.oh*p.stride[0]-p.top, pixel%p.ow*p.stride[1]-p.left
		if top >= 0 && left >= 0 && top+(p.kh-1)*p.step[0] < h && left+(p.kw-1)*p.step[1] < w {
			from := sample[top*w+left:]
			if p.step[1] == 1 && p.kw > 8 {
				for t := 0; t < inner; t += p.kw {
					copy(row[t:t+p.kw], from[p.taps[t]:])
				}
				continue
			}
			for t, at := range p.taps {
				row[t] = from[at]
			}
			continue
		}
		for t := range row {
			row[t] = 0
			line, column := top+t/p.kw%p.kh*p.step[0], left+t%p.kw*p.step[1]
			if line >= 0 && line < h && column >= 0 && column < w {
				row[t] = sample[(t/p.kw/p.kh*h+line)*w+column]
			}
		}
	}
}
