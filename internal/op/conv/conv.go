package conv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Padding says what a tap reads outside the image.
type Padding uint8

// The paddings, for an image of size n and a coordinate i outside it.
const (
	Zeros     Padding = iota // the tap is skipped
	Circular                 // i modulo n; at most n on each side
	Reflect                  // -i or 2(n-1)-i, the edge not repeated; less than n on each side
	Replicate                // the nearest pixel of the image
)

var paddings = []string{Zeros: "zeros", Circular: "circular", Reflect: "reflect", Replicate: "replicate"}

// String returns PyTorch's name of the padding.
func (p Padding) String() string {
	if int(p) < len(paddings) {
		return paddings[p]
	}
	return fmt.Sprintf("Padding(%d)", uint8(p))
}

// ParsePadding returns the padding that PyTorch's padding_mode names: zeros,
// circular, reflect or replicate. Any other name is an error that lists them.
func ParsePadding(name string) (Padding, error) {
	if i := slices.Index(paddings, name); i >= 0 {
		return Padding(i), nil
	}
	return 0, fmt.Errorf("unknown padding mode %.60q: want one of %s", name, strings.Join(paddings, ", "))
}

// Params are the geometry of a convolution, of rows and of columns: PyTorch's stride
// and dilation, and pixels of the given padding on each side, where ONNX has them:
// top, left, bottom, right. A stride or dilation of 0 means 1.
type Params struct {
	Stride, Dilation [2]int
	Pad              [4]int
	Padding          Padding
}

// Square returns the geometry with one stride for both directions (0 means 1), one
// padding on all four sides, and no dilation.
func Square(stride, pad int, padding Padding) Params {
	return Params{Stride: [2]int{stride, stride}, Pad: [4]int{pad, pad, pad, pad}, Padding: padding}
}

// steps returns the stride and the dilation along an axis, rows or columns.
func (p *Params) steps(axis int) (stride, dilation int) {
	return max(p.Stride[axis], 1), max(p.Dilation[axis], 1)
}

// check panics on a geometry that no convolution has.
func (p *Params) check() {
	for _, v := range []int{
		p.Stride[0], p.Stride[1], p.Dilation[0], p.Dilation[1], p.Pad[0], p.Pad[1], p.Pad[2], p.Pad[3],
	} {
		if v < 0 {
			panic("conv: negative stride, dilation or padding")
		}
	}
}

// OutSize returns the size of the result of a convolution of images h x w with kernels
// kh x kw: along each axis floor((in + padding on both sides - dilation (k-1) - 1) /
// stride) + 1, or 0 if the kernel does not fit.
func (p Params) OutSize(h, w, kh, kw int) (oh, ow int) {
	size := func(axis, n, k int) int {
		stride, dilation := p.steps(axis)
		free := n + p.Pad[axis] + p.Pad[axis+2] - dilation*(k-1) - 1
		if free < 0 {
			return 0
		}
		return free/stride + 1
	}
	return size(0, h, kh), size(1, w, kw)
}

// TransposedSize returns the size of the result of a transposed convolution: along
// each axis (n-1) stride + dilation (k-1) + 1 - padding on both sides, and extra
// pixels at the end (PyTorch's output_padding).
func (p Params) TransposedSize(h, w, kh, kw int, extra [2]int) (oh, ow int) {
	size := func(axis, n, k int) int {
		stride, dilation := p.steps(axis)
		return (n-1)*stride + dilation*(k-1) + 1 - p.Pad[axis] - p.Pad[axis+2] + extra[axis]
	}
	return size(0, h, kh), size(1, w, kw)
}

// Forward computes the convolution of PyTorch's conv2d,
//
//	dst[n,o,y,x] = bias[o] + sum over c, i, j of weight[o,c,i,j] *
//	               src[n,c, y*stride + i*dilation - top, x*stride + j*dilation - left]
//
// with coordinates outside the image read as p.Padding says. src is [N,IC,H,W]
// and dst [N,OC,OH,OW], OH and OW as [Params.OutSize] has them, at least 1. With a
// kernel of several groups, output channel o of group g reads the input channels of
// group g, and c counts those.
//
// The float64 order is: taps by channel, row, column of the kernel, added one
// by one to 0, then the bias.
func Forward(dst, src *tensor.Tensor, k *Kernel, p Params) {
	require(k, dst, src)
	p.check()
	oh, ow := p.OutSize(src.H(), src.W(), k.kh, k.kw)
	switch {
	case k.transposed:
		panic("conv: Forward with a transposed kernel")
	case dst.H() != oh || dst.W() != ow:
		panic("conv: destination size does not fit source, kernel, stride and padding")
	}
	if k.fastFor(dst.Format, p, oh, ow) && oh > 0 && ow > 0 {
		k.forwardFast(dst, src, p)
		return
	}
	if k.channelwise(dst.Format) && dst.N() > 0 && src.Format != fp16.Float64 && k.beside(p) {
		k.forwardChannels(dst, src, p)
		return
	}
	apply(dst, src, k, paddedAxis(src.H(), k.kh, oh, &p, 0), paddedAxis(src.W(), k.kw, ow, &p, 1))
}

// Transposed computes PyTorch's conv_transpose2d, the adjoint of a zero-padded
// convolution plus a bias: src pixel (y,x) of channel c adds
// weight[c,o,i,j]*src[n,c,y,x] to
//
//	dst[n,o, y*stride + i*dilation - top, x*stride + j*dilation - left]
//
// where that lies in dst. src is [N,IC,H,W] and dst [N,OC,H',W'], at least 1, with H'
// and W' as [Params.TransposedSize] has them for some extra pixels, less than the
// stride. p.Padding must be Zeros.
//
// It is evaluated as the convolution of the image with stride-1 zeros between
// its pixels and the kernel turned by 180 degrees, which is also the float64
// order: by channel, then from the last row and column of weight to the first.
func Transposed(dst, src *tensor.Tensor, k *Kernel, p Params) {
	require(k, dst, src)
	p.check()
	oh, ow := p.TransposedSize(src.H(), src.W(), k.kh, k.kw, [2]int{})
	sy, _ := p.steps(0)
	sx, _ := p.steps(1)
	switch {
	case !k.transposed:
		panic("conv: Transposed needs a kernel of NewTransposedKernel")
	case p.Padding != Zeros:
		panic("conv: a transposed convolution is padded with zeros")
	case dst.H() < oh || dst.H() >= oh+sy || dst.W() < ow || dst.W() >= ow+sx:
		panic("conv: destination size does not fit source, kernel, stride and padding")
	}
	apply(dst, src, k, dilatedAxis(src.H(), k.kh, dst.H(), &p, 0), dilatedAxis(src.W(), k.kw, dst.W(), &p, 1))
}

// require panics if there is no kernel, or a tensor is no image.
func require(k *Kernel, dst, src *tensor.Tensor) {
	if k == nil || k.oc == 0 {
		panic("conv: a kernel is made by NewKernel and its like")
	}
	tensor.Require("conv", 4, dst, src)
}

// checkFormats panics if dst cannot be the correctly rounded image of src.
func checkFormats(dst, src *tensor.Tensor) {
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("conv: a float64 source needs a float64 destination")
	}
}
