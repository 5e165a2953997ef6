// Package conv holds the linear operations of an operator: convolution and
// transposed convolution, average pooling and resampling.
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
	return 0, fmt.Errorf("unknown padding mode %q: want one of %s", name, strings.Join(paddings, ", "))
}

// Params are the geometry of a convolution. Stride 0 means 1. Pad pixels of
// the given padding are added on all four sides.
type Params struct {
	Stride  int
	Pad     int
	Padding Padding
}

// OutSize returns the output size of a convolution along one axis,
// floor((in + 2 pad - k) / stride) + 1, or 0 if the kernel does not fit.
// Stride 0 means 1.
func OutSize(in, k, stride, pad int) int {
	if in+2*pad < k {
		return 0
	}
	return (in+2*pad-k)/max(stride, 1) + 1
}

// Forward computes the convolution of PyTorch's conv2d,
//
//	dst[n,o,y,x] = bias[o] + sum over c, i, j of
//	               weight[o,c,i,j] * src[n,c, y*stride+i-pad, x*stride+j-pad]
//
// with coordinates outside the image read as p.Padding says. src is [N,IC,H,W]
// and dst [N,OC,OutSize(H),OutSize(W)], OutSize at least 1.
//
// The float64 order is: taps by channel, row, column of the kernel, added one
// by one to 0, then the bias.
func Forward(dst, src *tensor.Tensor, k *Kernel, p Params) {
	stride := max(p.Stride, 1)
	switch {
	case k.transposed:
		panic("conv: Forward with a transposed kernel")
	case p.Stride < 0 || p.Pad < 0:
		panic("conv: negative stride or padding")
	case dst.H() != OutSize(src.H(), k.kh, stride, p.Pad) || dst.W() != OutSize(src.W(), k.kw, stride, p.Pad):
		panic("conv: destination size does not fit source, kernel, stride and padding")
	}
	apply(dst, src, k, paddedAxis(src.H(), p.Pad, p.Padding), paddedAxis(src.W(), p.Pad, p.Padding), stride)
}

// Transposed computes PyTorch's conv_transpose2d, the adjoint of a zero-padded
// convolution plus a bias: src pixel (y,x) of channel c adds
// weight[c,o,i,j]*src[n,c,y,x] to
//
//	dst[n,o, y*stride+i-pad, x*stride+j-pad]
//
// where that lies in dst. src is [N,IC,H,W] and dst [N,OC,H',W'] with
// H' = (H-1)*stride - 2*pad + KH, at least 1, and W' likewise. Stride 0 means 1.
//
// It is evaluated as the convolution of the image with stride-1 zeros between
// its pixels and the kernel turned by 180 degrees, which is also the float64
// order: by channel, then from the last row and column of weight to the first.
func Transposed(dst, src *tensor.Tensor, k *Kernel, stride, pad int) {
	if stride < 0 || pad < 0 {
		panic("conv: negative stride or padding")
	}
	stride = max(stride, 1)
	switch {
	case !k.transposed:
		panic("conv: Transposed needs a kernel of NewTransposedKernel")
	case dst.H() != (src.H()-1)*stride-2*pad+k.kh || dst.W() != (src.W()-1)*stride-2*pad+k.kw:
		panic("conv: destination size does not fit source, kernel, stride and padding")
	}
	apply(dst, src, k, dilatedAxis(src.H(), k.kh, stride, pad), dilatedAxis(src.W(), k.kw, stride, pad), 1)
}

// checkFormats panics if dst cannot be the correctly rounded image of src.
func checkFormats(dst, src *tensor.Tensor) {
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("conv: a float64 source needs a float64 destination")
	}
}
