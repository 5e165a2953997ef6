package graph

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
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
	fewTerms     = 16
)

// A result of fewer outputs has several pixels of a line in a row: as many outputs as a panel of a product has, the
// weights of each pixel where it reads them, zeros between. A convolution's kernel has fewer, and most are not there.
const (
	panelOutputs  = 24
	kernelOutputs = 8
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

// few sets y to a convolution of few pixels of x, of few outputs, or by an unusual window, with constant weights, or
// reports that it is none.
func (c *Call) few(y, x *tensor.Tensor, kh, kw int, g conv.Params, groups int) bool {
	for axis := range g.Stride {
		g.Stride[axis], g.Dilation[axis] = max(g.Stride[axis], 1), max(g.Dilation[axis], 1)
	}
	half := conv.Square(g.Stride[0], kh/2, conv.Zeros)
	half.Dilation = [2]int{1, 1}
	pixels, usual := y.N()*y.H()*y.W(), kh == kw && kh%2 == 1 && g == half
	p := newPatches(x, y, kh, kw, g)
	switch {
	case groups > 1 || g.Padding != conv.Zeros || pixels == 0:
		return false
	case c.Mode.Fast && (usual || y.Format == fp16.Float32 && conv.FastWindow(g, x.C(), y.C(), y.H(), y.W())):
		return false
	case c.Mode.BiasApart() || y.Format == fp16.Float64:
		return false
	case y.C() >= manyOutputs && (usual || kh*kw*x.C() < fewTerms) && pixels > fewPixels:
		return false
	case y.C() < manyOutputs && !(p.together(y.C()) && finite(x.Data)):
		return false
	}
	weights := c.columns(p)
	if weights == nil {
		return false
	}
	p.multiply(y, weights)
	return true
}

// multiply sets y to the products of what is read with weights.
func (p *patches) multiply(y *tensor.Tensor, weights *matmul.Kernel) {
	p.layTaps()
	inner, outputs := weights.Shape()
	each, rows := max(leastRows, patchNumbers/inner/leastRows*leastRows), y.N()*y.H()*p.across
	par.For((rows+each-1)/each, func(i int) {
		w := pixelRowsPool.Get().(*pixelRows)
		defer pixelRowsPool.Put(w)
		first, n := i*each, min(each, rows-i*each)
		matrix(&w.rows, p.x.Format, n, inner)
		p.rows(w.rows.Data, first, n)
		matrix(&w.sums, y.Format, n, outputs)
		weights.Forward(&w.sums, &w.rows)
		p.store(y, w.sums.Data, first, n)
	})
}

// finite reports whether all numbers are.
func finite(x []float64) bool {
	sum := 0.0
	for _, v := range x {
		sum += v - v // 0, or NaN
	}
	return sum == 0
}

// columns returns constant weights of a convolution, and its bias, as the right operand of a product. It is nil where
// they are not constant, or not finite: a pixel that is not there would be a product with 0.
func (c *Call) columns(p *patches) *matmul.Kernel {
	inputs := []int{1}
	key := packedKey{operands: c.program.Operand(c.node, 1), tf32: c.Mode.TF32, trans: true, patches: p.several}
	if p.several > 1 {
		key.stride = p.stride[1]
	}
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
		if !finite(w.Data) || !finite(bias) {
			return (*matmul.Kernel)(nil)
		}
		outputs := w.Shape[0]
		w = tensor.Of(w.Format, w.Data, outputs, len(w.Data)/outputs)
		if p.several > 1 {
			w, bias = p.shifted(w, bias)
		}
		return matmul.NewKernel(w, true, bias)
	}).(*matmul.Kernel)
}

// patches are what the pixels of a result read of x, of several side by side at a time.
type patches struct {
	x              *tensor.Tensor
	oh, ow, kh, kw int
	stride, step   [2]int // of pixels and of taps
	top, left      int
	several        int   // pixels of a row
	across, wide   int   // rows of a line of the result; the window of several pixels
	taps           []int // of a row inside, from its first one
}

func newPatches(x, y *tensor.Tensor, kh, kw int, g conv.Params) *patches {
	p := &patches{x: x, oh: y.H(), ow: y.W(), kh: kh, kw: kw, top: g.Pad[0], left: g.Pad[1], several: 1, across: y.W(),
		wide: kw}
	for axis := range p.step {
		p.stride[axis], p.step[axis] = max(g.Stride[axis], 1), max(g.Dilation[axis], 1)
	}
	return p
}

// together takes several pixels at a time for that many outputs each, and reports whether it is worth it: of the
// products with a row, those with zeros between pixels are in vain, and those of a convolution's kernel for outputs
// that are not there.
func (p *patches) together(outputs int) bool {
	n := panelOutputs / outputs
	wide := (n-1)*p.stride[1] + p.kw
	if p.step[1] > 1 || p.ow < n || outputs*n*p.kw*kernelOutputs <= panelOutputs*wide*outputs {
		return false
	}
	p.several, p.across, p.wide = n, (p.ow+n-1)/n, wide
	return true
}

// shifted returns the weights [outputs][inner] of several pixels side by side, as one row reads them.
func (p *patches) shifted(w *tensor.Tensor, bias []float64) (*tensor.Tensor, []float64) {
	outputs, lines := w.Shape[0], w.Shape[1]/p.kw
	to := tensor.New(w.Format, outputs*p.several, lines*p.wide)
	var all []float64
	for i := range outputs * p.several {
		o, pixel := i/p.several, i%p.several
		for l := range lines {
			copy(to.Data[(i*lines+l)*p.wide+pixel*p.stride[1]:], w.Data[(o*lines+l)*p.kw:][:p.kw])
		}
		if bias != nil {
			all = append(all, bias[o])
		}
	}
	return to, all
}

// layTaps sets taps.
func (p *patches) layTaps() {
	for channel := range p.x.C() {
		for i := range p.kh {
			for j := range p.wide {
				p.taps = append(p.taps, (channel*p.x.H()+i*p.step[0])*p.x.W()+j*p.step[1])
			}
		}
	}
}

// store sets the pixels of n rows from one on to sums [n][outputs][several].
func (p *patches) store(y *tensor.Tensor, sums []float64, first, n int) {
	area, size := y.H()*y.W(), y.C()*p.several
	if p.several == 1 {
		for from := first; from < first+n; {
			some := min(first+n-from, area-from%area) // of one sample
			of := sums[(from-first)*size:][:some*size]
			for o := range size {
				to := y.Data[(from/area*size+o)*area+from%area:][:some]
				for k := range to {
					to[k] = of[k*size+o]
				}
			}
			from += some
		}
		return
	}
	for k := range n {
		line, x := (first+k)/p.across, (first+k)%p.across*p.several
		for o := range y.C() {
			to := y.Plane(line/y.H(), o)[line%y.H()*y.W():][:y.W()][x:]
			copy(to, sums[k*size+o*p.several:][:p.several])
		}
	}
}

// rows sets rows to what n of them from one on read.
func (p *patches) rows(rows []float64, first, n int) {
	x, h, w := p.x, p.x.H(), p.x.W()
	inner := len(p.taps)
	for k := range n {
		at, row := first+k, rows[k*inner:][:inner]
		sample := x.Data[at/p.across/p.oh*x.C()*h*w:][:x.C()*h*w]
		top, left := at/p.across%p.oh*p.stride[0]-p.top, at%p.across*p.several*p.stride[1]-p.left
		if top >= 0 && left >= 0 && top+(p.kh-1)*p.step[0] < h && left+(p.wide-1)*p.step[1] < w {
			from := sample[top*w+left:]
			if p.step[1] == 1 && p.wide > 8 {
				for t := 0; t < inner; t += p.wide {
					copy(row[t:t+p.wide], from[p.taps[t]:])
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
			line, column := top+t/p.wide%p.kh*p.step[0], left+t%p.wide*p.step[1]
			if line >= 0 && line < h && column >= 0 && column < w {
				row[t] = sample[(t/p.wide/p.kh*h+line)*w+column]
			}
		}
	}
}
