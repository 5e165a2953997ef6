// Package norm holds the normalisations: instance, group, layer, RMS and batch.
//
// Each is one real function of its stored inputs,
//
//	y = gamma (x - mu)/sqrt(var + eps) + beta,
//
// rounded once to the format of the destination. The definitions differ in
// the numbers that mu and var are taken from:
//
//	Instance  the H*W numbers of one sample and channel
//	Group     the (C/groups)*H*W numbers of one sample and group of channels;
//	          one group is layer normalisation over C, H and W
//	Layer     a row of neighbouring numbers; gamma and beta have one for each place
//	RMS       as Layer, but mu is 0, so that var is the mean square; no beta
//	Batch     none: running statistics are given (evaluation mode)
//
// mu is the exact mean and var the exact biased variance, sum((x-mu)^2)/M over
// M numbers. eps is the float64 given, 1e-5 in all of PyTorch's layers. gamma
// and beta have one number per channel; nil means 1 and 0. The formulas are
// those of PyTorch's InstanceNorm2d, GroupNorm and BatchNorm2d.
//
// # Special values
//
//	input                                   result
//	Instance, Group, Layer: Inf or NaN      NaN in the whole group
//	RMS: NaN in a row                       NaN in the whole row
//	RMS: Inf in a row, no NaN               0, and NaN in place of the Inf
//	var + eps <= 0 (eps = 0)                NaN
//	NaN in x, mean, variance, gamma, beta   NaN
//	Batch: x = +-Inf                        gamma*(+-Inf) + beta; gamma = 0: NaN
//	Batch: mean = +-Inf                     gamma*(-+Inf) + beta; x the same Inf: NaN
//	Batch: variance = +Inf                  beta; x = +-Inf: NaN
//	gamma = +-Inf                           +-Inf by the sign of x-mu; x = mu: NaN,
//	                                        or (x-mu)/sqrt(var+eps) below float64
//	beta = +-Inf                            beta, unless the product is -beta: NaN
//	y = 0 exactly                           +0
//	y rounds to 0                           a zero of y's sign
//	y beyond the format                     Inf of y's sign
//
// # Float64
//
// A destination in Float64 selects float64 mode: plain float64 arithmetic in
// memory order, products not fused,
//
//	mu  = (sum of x)/M
//	var = (sum of (x-mu)*(x-mu))/M
//	inv = 1/sqrt(var+eps)
//	y   = ((x-mu)*inv)*gamma + beta,
//
// with var = (sum of x*x)/M and mu = 0 for RMS.
//
// The table above holds there too, except that every zero is +0 and that what
// overflows on the way is not finite.
//
// In use:
//
//	norm.Group(y, x, 8, gamma, beta, 1e-5) // x [N,C,H,W] in 8 groups of channels
//	norm.Layer(y, x, 768, gamma, beta, 1e-5)
package norm

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// Instance writes the instance normalisation of src to dst: the statistics
// are those of each sample and channel. gamma and beta hold C numbers or are
// nil; eps must be finite and not negative. dst may be src.
//
// It panics as [Group] does.
func Instance(dst, src *tensor.Tensor, gamma, beta []float64, eps float64) {
	norm.Instance(dst, src, gamma, beta, eps)
}

// Group writes the group normalisation of src to dst: the channels are split
// into that many groups of neighbours, and the statistics are those of each
// sample and group. gamma and beta hold C numbers, one per channel, or are
// nil; eps must be finite and not negative. dst may be src.
//
// It panics if the shapes differ, if groups is not a positive divisor of C, if
// gamma or beta has another length, on such an eps, and if src is in Float64
// and dst is not (the exact statistics are those of float32 numbers).
func Group(dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64) {
	norm.Group(dst, src, groups, gamma, beta, eps)
}

// Layer writes the layer normalisation of src to dst: src, of any shape, is seen as rows of
// n neighbouring numbers, the product of its last sizes, and the statistics are those of
// each row. gamma and beta hold n numbers, one for each place in a row, or are nil; eps must
// be finite and not negative. dst may be src. The formula is that of PyTorch's layer_norm.
//
// It panics if the shapes differ, if rows of n do not divide src, if gamma or beta has
// another length, on such an eps, and if src is in Float64 and dst is not.
func Layer(dst, src *tensor.Tensor, n int, gamma, beta []float64, eps float64) {
	norm.Layer(dst, src, n, gamma, beta, eps)
}

// RMS writes x/sqrt(mean(x^2) + eps) times gamma to dst, for the numbers x of each row of n
// neighbouring ones of src, as [Layer] has them. The formula is that of PyTorch's rms_norm.
// An infinity in a row without NaN makes its finite numbers 0 and itself NaN.
//
// It panics as [Layer] does.
func RMS(dst, src *tensor.Tensor, n int, gamma []float64, eps float64) {
	norm.RMS(dst, src, n, gamma, eps)
}

// Batch writes the batch normalisation of src to dst in evaluation mode: mean
// and variance hold the running statistics of the C channels. gamma and beta
// hold C numbers or are nil; eps must be finite and not negative. dst may be
// src.
//
// It panics if the shapes differ, if a parameter has another length, and on
// such an eps.
func Batch(dst, src *tensor.Tensor, mean, variance, gamma, beta []float64, eps float64) {
	norm.Batch(dst, src, mean, variance, gamma, beta, eps)
}

// MinMax maps the numbers x of format f, all of one state, to (x-min)/(max-min), with
// one rounding, if max-min > 1e-8; a NaN anywhere makes that comparison false and leaves
// x as it is. It is the "minmax" of Spinlock's rollouts.
func MinMax(x []float64, f fp16.Format) {
	norm.MinMax(x, f)
}

// ZScore maps the numbers x of format f, all of one state, to (x-mean)/(std+1e-8), with
// one rounding, std with the divisor n-1; float64 numbers by plain sums in order. A single number has no std: the
// result is NaN, as it is if x holds a NaN or an infinity. It is the "zscore" of Spinlock's
// rollouts.
func ZScore(x []float64, f fp16.Format) {
	norm.ZScore(x, f)
}
