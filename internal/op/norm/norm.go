// Package norm computes the normalisations, which the public package norm defines: of tensors, and,
// for packages graph and plan, which compute images in blocks of 8 channels, of rows ([Rows], [Exact],
// [Image], [Space] and [FastLayer]).
package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Instance writes the instance normalisation of src to dst: the statistics
// are those of each sample and channel. gamma and beta hold C numbers or are
// nil; eps must be finite and not negative. dst may be src.
//
// It panics as [Group] does.
func Instance(dst, src *tensor.Tensor, gamma, beta []float64, eps float64) {
	tensor.Require("norm", 4, src)
	Group(dst, src, max(src.C(), 1), gamma, beta, eps)
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
	check(dst, src, gamma, beta, eps)
	if groups < 1 || src.C()%groups != 0 {
		panic("norm: groups must be a positive divisor of the channels")
	}
	if len(src.Data) == 0 {
		return
	}
	if dst.Format == fp16.Float64 {
		group64(dst, src, groups, gamma, beta, eps)
		return
	}
	if src.Format == fp16.Float64 {
		panic("norm: a float64 source needs a float64 destination")
	}
	std := standards(src, groups, eps)
	perGroup := src.C() / groups
	apply(dst, src, gamma, beta, func(n, c int) *exact.Standard {
		return std[n*groups+c/perGroup]
	})
}

// Batch writes the batch normalisation of src to dst in evaluation mode: mean
// and variance hold the running statistics of the C channels. gamma and beta
// hold C numbers or are nil; eps must be finite and not negative. dst may be
// src.
//
// It panics if the shapes differ, if a parameter has another length, and on
// such an eps.
func Batch(dst, src *tensor.Tensor, mean, variance, gamma, beta []float64, eps float64) {
	check(dst, src, gamma, beta, eps)
	if len(mean) != src.C() || len(variance) != src.C() {
		panic("norm: running statistics need one number per channel")
	}
	if dst.Format == fp16.Float64 {
		batch64(dst, src, mean, variance, gamma, beta, eps)
		return
	}
	std := make([]*exact.Standard, src.C())
	for c := range std {
		std[c] = exact.Running(mean[c], variance[c], eps)
	}
	apply(dst, src, gamma, beta, func(_, c int) *exact.Standard { return std[c] })
}

func check(dst, src *tensor.Tensor, gamma, beta []float64, eps float64) {
	tensor.Require("norm", 4, dst, src)
	if !dst.SameShape(src) {
		panic("norm: source and destination differ in shape")
	}
	if gamma != nil && len(gamma) != src.C() || beta != nil && len(beta) != src.C() {
		panic("norm: gamma and beta need one number per channel")
	}
	if !(eps >= 0 && eps <= math.MaxFloat64) {
		panic("norm: eps must be finite and not negative")
	}
}

// at returns p[c], or otherwise if there is no p.
func at(p []float64, c int, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return p[c]
}

// pieceLen is the length that work is cut to, so that one large plane or
// group keeps every processor busy.
const pieceLen = 1 << 13

// pieces returns the number of pieces of n numbers.
func pieces(n int) int { return (n + pieceLen - 1) / pieceLen }

// piece returns the ith piece of p.
func piece(p []float64, i int) []float64 {
	return p[i*pieceLen : min(len(p), (i+1)*pieceLen)]
}

// standards returns the exact statistics of each sample and group.
func standards(src *tensor.Tensor, groups int, eps float64) []*exact.Standard {
	m := src.C() / groups * src.H() * src.W()
	k := pieces(m)
	parts := make([]exact.Moments, src.N()*groups*k)
	par.For(len(parts), func(i int) {
		g := i / k
		w := spaces.Get().(*space)
		defer spaces.Put(w)
		w.addMoments(&parts[i], piece(src.Data[g*m:(g+1)*m], i%k))
	})
	std := make([]*exact.Standard, src.N()*groups)
	par.For(len(std), func(g int) {
		all := &parts[g*k]
		for i := g*k + 1; i < (g+1)*k; i++ {
			all.Merge(&parts[i])
		}
		std[g] = all.Standard(eps)
	})
	return std
}

// apply normalises every plane by the standard that of gives for it.
func apply(dst, src *tensor.Tensor, gamma, beta []float64, of func(n, c int) *exact.Standard) {
	k := pieces(src.H() * src.W())
	by := kernelOf(dst.Format, src.Format)
	if by != nil {
		asm.Ran("norm " + asm.ISA())
	}
	par.For(src.N()*src.C()*k, func(i int) {
		n, c := i/k/src.C(), i/k%src.C()
		l := newLine(of(n, c), at(gamma, c, 1), at(beta, c, 0))
		l.apply(by, piece(dst.Plane(n, c), i%k), piece(src.Plane(n, c), i%k), dst.Format)
	})
}
