package graph

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// A convolution whose windows neither overlap nor leave pixels out, as a vision transformer's
// first, is in fast arithmetic a product of matrices: each window is a row of numbers by
// channel, line and column (docs/NUMERICS.md, section 13).

// FastPatches returns the weights of node i as columns, if it is such a convolution with constant
// weights in fast arithmetic, and its window; or nil.
func (p *Program) FastPatches(i int) (k *matmul.Kernel, kh, kw int) {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(Conv)
	if !ok || !p.mode.Fast || !p.single(i) || op.Groups > 1 || op.Same || op.Pad != [4]int{} ||
		max(op.Dilation[0], op.Dilation[1]) > 1 {
		return nil, 0, 0
	}
	w, bias := p.graph.Values[n.In[1]].Const, (*tensor.Tensor)(nil)
	if len(n.In) == 3 {
		if bias = p.graph.Values[n.In[2]].Const; bias == nil {
			return nil, 0, 0
		}
	}
	if w == nil {
		return nil, 0, 0
	}
	if kh, kw = w.Shape[2], w.Shape[3]; kh*kw == 1 || max(op.Stride[0], 1) != kh || max(op.Stride[1], 1) != kw {
		return nil, 0, 0
	}
	key := packedKey{operands: fp16.Float32, trans: true, fast: true, bias: bias, patches: 1}
	return p.graph.Kept.get(keptKey{w, key}, func() any {
		var b []float64
		if bias != nil {
			b = bias.Data
		}
		return matmul.NewKernel(tensor.Of(fp16.Float32, w.Data, w.Shape[0], len(w.Data)/w.Shape[0]), true, b).Fast()
	}).(*matmul.Kernel), kh, kw
}

// patches sets the output to the products of windows.
func (c *Call) patches(k *matmul.Kernel, kh, kw int) {
	x, y := c.In(0), c.Out[0]
	inner, columns := k.Shape()
	rows := y.N() * y.H() * y.W()
	windows, sums := make([]float32, 0, rows*inner), make([]float32, rows*columns)
	for r := range rows {
		n, top, left := r/y.W()/y.H(), r/y.W()%y.H()*kh, r%y.W()*kw
		for channel := range x.C() {
			plane := x.Plane(n, channel)
			for line := range kh {
				for _, v := range plane[(top+line)*x.W()+left:][:kw] {
					windows = append(windows, float32(v))
				}
			}
		}
	}
	k.ForwardSingles(sums, windows, rows, nil)
	area := y.H() * y.W()
	for i, v := range sums {
		r, channel := i/columns, i%columns
		to := &y.Plane(r/area, channel)[r%area]
		if *to = float64(v); v != v {
			*to = fp16.NaN
		}
	}
}
