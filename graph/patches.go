package graph

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// A convolution whose windows neither overlap nor leave pixels out, as a vision transformer's
// first, or one of lines, is in fast arithmetic a product of matrices: each window is a row of
// numbers by channel, line and column (docs/NUMERICS.md, section 13).

// window is the window of a convolution and where it goes.
type window struct {
	conv.Params
	height, width int
}

// FastPatches returns the weights of node i as columns, if it is such a convolution with constant
// weights in fast arithmetic, its geometry and the size of its window; or nil.
func (p *Program) FastPatches(i int) (k *matmul.Kernel, g conv.Params, kh, kw int) {
	k, w := p.patches(i)
	return k, w.Params, w.height, w.width
}

func (p *Program) patches(i int) (k *matmul.Kernel, w window) {
	n := &p.graph.Nodes[i]
	op, ok := n.Op.(Conv)
	if line, is := n.Op.(Convolution); is && len(line.stride) == 1 {
		op, ok = line.image().(Conv)
	}
	if !ok || !p.mode.Fast || op.Groups > 1 || !p.single(i) {
		return nil, w
	}
	weight, bias := p.graph.Values[n.In[1]].Const, (*tensor.Tensor)(nil)
	if len(n.In) == 3 {
		if bias = p.graph.Values[n.In[2]].Const; bias == nil {
			return nil, w
		}
	}
	if weight == nil {
		return nil, w
	}
	x, shape := asImage(p.types[n.In[0]].Shape), asImage(weight.Shape)
	w.height, w.width = shape[2], shape[3]
	g, err := op.Geometry(w.height, w.width)
	if w.Params = g; err != nil || w.height*w.width == 1 || !w.apart() && !w.ofLines(x, shape[0]) {
		return nil, w
	}
	if !w.apart() && !(finite(weight.Data) && (bias == nil || finite(bias.Data))) {
		return nil, w
	}
	key := packedKey{operands: fp16.Float32, trans: true, fast: true, bias: bias, patches: 1}
	return p.graph.Kept.get(keptKey{weight, key}, func() any {
		var b []float64
		if bias != nil {
			b = bias.Data
		}
		return matmul.NewKernel(tensor.Of(fp16.Float32, weight.Data, shape[0], len(weight.Data)/shape[0]), true, b).Fast()
	}).(*matmul.Kernel), w
}

// apart reports whether windows neither overlap nor leave pixels out.
func (w *window) apart() bool {
	return w.Pad == [4]int{} && max(w.Dilation[0], w.Dilation[1]) <= 1 &&
		max(w.Stride[0], 1) == w.height && max(w.Stride[1], 1) == w.width
}

// ofLines reports whether windows are parts of the one line of an image, with zeros beside it.
func (w *window) ofLines(image []int, outputs int) bool {
	return image[2] == 1 && w.height == 1 && w.Pad[0]+w.Pad[2] == 0 && w.Padding == conv.Zeros && outputs >= manyOutputs
}

// patches sets the output to the products of windows.
func (c *Call) patches(k *matmul.Kernel, w window) {
	image := func(t *tensor.Tensor) *tensor.Tensor { return tensor.Of(t.Format, t.Data, asImage(t.Shape)...) }
	y := image(c.Out[0])
	newPatches(image(c.In(0)), y, w.height, w.width, w.Params).multiply(y, k)
}

// asImage returns the shape of lines as that of images of one line.
func asImage(shape []int) []int {
	if len(shape) == 3 {
		return []int{shape[0], shape[1], 1, shape[2]}
	}
	return shape
}
