// Package conv convolves: PyTorch's conv2d and conv_transpose2d of images [N,C,H,W],
// with strides, dilation, groups, padding of any side and of four kinds.
//
//	k := conv.NewKernel(weight, bias) // [OC,IC,KH,KW], prepared once
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
//
// # Images
//
// For package plan alone there are [Image], [Plan] and [Space]: a convolution of images in
// blocks of 8 channels, prepared for one shape.
package conv
