// Package conv convolves: PyTorch's conv2d and conv_transpose2d of images [N,C,H,W],
// with strides, dilation, groups, padding of any side and of four kinds.
//
//	k := conv.NewKernel(weight, bias, 1) // [OC,IC,KH,KW], in one group, prepared once
//	p := conv.Square(1, 1, conv.Zeros) // stride 1, one pixel of zeros around
//	conv.Forward(dst, src, k, p)
//
// Every operation here is a weighted sum of stored numbers, and its output is
// the exact value of that sum, rounded once to the format of the destination.
// The package computes the sum in float64, guards it with a proven bound and
// settles with exact arithmetic the few elements that the bound leaves open;
// so the output does not depend on order, blocking or the number of threads.
// With a Float64 destination there is no guard: the sum is plain float64 in a
// fixed order, products rounded (never fused into the addition).
//
// # Numbers that are not finite
//
// Infinities and NaNs follow IEEE 754: NaN, Inf*0 and Inf-Inf give [fp16.NaN],
// any other sum with infinities is the infinity. They reach the outputs whose
// window holds them and no other. Taps in zero padding are skipped, so an
// infinite weight contributes nothing there. A sum that is exactly zero is +0,
// whatever the signs of its terms; one that underflows keeps its sign.
//
// # Misuse
//
// Shapes that do not fit together panic. So does a Float64 source (or a kernel
// that is not made of float32 numbers) with a destination of any other format:
// only the products of float32 numbers are exact in float64. A destination
// must not share memory with its source.
package conv

import (
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// Padding says what a tap reads outside the image. Its method String
// returns PyTorch's name.
type Padding = conv.Padding

// The paddings, for an image of size n and a coordinate i outside it.
const (
	Zeros     = conv.Zeros     // the tap is skipped
	Circular  = conv.Circular  // i modulo n; at most n on each side
	Reflect   = conv.Reflect   // -i or 2(n-1)-i, the edge not repeated; less than n on each side
	Replicate = conv.Replicate // the nearest pixel of the image
)

// Params are the geometry of a convolution, of rows and of columns: PyTorch's stride
// and dilation, and pixels of the given padding on each side, where ONNX has them:
// top, left, bottom, right. A stride or dilation of 0 means 1.
// Its methods OutSize and TransposedSize return the size of a result.
type Params = conv.Params

// Square returns the geometry with one stride for both directions (0 means 1), one
// padding on all four sides, and no dilation.
func Square(stride, pad int, padding Padding) Params { return conv.Square(stride, pad, padding) }

// Kernel is a weight and a bias, prepared once for any number of calls. It
// copies what it needs and may be used by many goroutines.
type Kernel struct{ of *conv.Kernel }

// NewKernel prepares the weight [OC,IC/groups,KH,KW] of a convolution (the tensor's
// N, C, H, W) and its bias, which is nil or of length OC. Of several groups of
// channels, each group of outputs is of its own group of inputs. It panics if groups
// do not divide OC.
func NewKernel(weight *tensor.Tensor, bias []float64, groups int) *Kernel {
	return &Kernel{conv.NewGroupedKernel(weight, bias, groups)}
}

// NewTransposedKernel prepares the weight [IC,OC/groups,KH,KW] of a transposed
// convolution and its bias, which is nil or of length OC. It panics if groups do not
// divide IC.
func NewTransposedKernel(weight *tensor.Tensor, bias []float64, groups int) *Kernel {
	return &Kernel{conv.NewGroupedTransposedKernel(weight, bias, groups)}
}

// Forward computes the convolution of PyTorch's conv2d,
//
//	dst[n,o,y,x] = bias[o] + sum over c, i, j of weight[o,c,i,j] *
//	               src[n,c, y*stride + i*dilation - top, x*stride + j*dilation - left]
//
// with coordinates outside the image read as p.Padding says. src is [N,IC,H,W]
// and dst [N,OC,OH,OW], OH and OW as Params.OutSize has them, at least 1. With a
// kernel of several groups, output channel o of group g reads the input channels of
// group g, and c counts those.
//
// The float64 order is: taps by channel, row, column of the kernel, added one
// by one to 0, then the bias.
func Forward(dst, src *tensor.Tensor, k *Kernel, p Params) { conv.Forward(dst, src, k.of, p) }

// Transposed computes PyTorch's conv_transpose2d, the adjoint of a zero-padded
// convolution plus a bias: src pixel (y,x) of channel c adds
// weight[c,o,i,j]*src[n,c,y,x] to
//
//	dst[n,o, y*stride + i*dilation - top, x*stride + j*dilation - left]
//
// where that lies in dst. src is [N,IC,H,W] and dst [N,OC,H',W'], at least 1, with H'
// and W' as Params.TransposedSize has them for some extra pixels, less than the
// stride. p.Padding must be Zeros.
//
// It is evaluated as the convolution of the image with stride-1 zeros between
// its pixels and the kernel turned by 180 degrees, which is also the float64
// order: by channel, then from the last row and column of weight to the first.
func Transposed(dst, src *tensor.Tensor, k *Kernel, p Params) { conv.Transposed(dst, src, k.of, p) }
