package reduce

import (
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// RunningMean sets dst to m old + (1-m) mu, with the exact mean mu of src along axes, one
// function, rounded once. m is the momentum as ONNX has it, the share of the old number, from
// 0 to 1. dst and old are as in [Sum]. An exact 0 is +0; numbers that are not finite make of
// the formula what IEEE 754 has.
//
// There is one result for many numbers, so that all are made as fractions. In float64 it is
// the formula, with the mean of [Mean].
func RunningMean(dst, old, src *tensor.Tensor, momentum float64, axes ...int) {
	running(dst, old, src, momentum, axes, Mean, (*exact.Moments).MeanRat)
}

// RunningVar is RunningMean of the biased variance, in float64 that of [Var].
func RunningVar(dst, old, src *tensor.Tensor, momentum float64, axes ...int) {
	plain := func(dst, src *tensor.Tensor, axes ...int) { Var(dst, src, 0, axes...) }
	running(dst, old, src, momentum, axes, plain, (*exact.Moments).VarianceRat)
}

func running(dst, old, src *tensor.Tensor, momentum float64, axes []int,
	plain func(dst, src *tensor.Tensor, axes ...int), of func(m *exact.Moments) *big.Rat) {
	checkFormats(dst, old)
	if !(momentum >= 0 && momentum <= 1) || len(old.Data) != len(dst.Data) {
		panic("reduce: want a momentum from 0 to 1, and as many old numbers as results")
	}
	old = old.Clone() // which may be dst
	now := tensor.New(fp16.Float64, dst.Shape...)
	plain(now, src, axes...)
	for i := range dst.Data {
		now.Data[i] = float64(momentum*old.Data[i]) + float64((1-momentum)*now.Data[i])
	}
	if dst.Format == fp16.Float64 {
		copy(dst.Data, now.Data)
		return
	}
	v := newView(src.Shape, axes)
	v.each(src.Data, func(i int, line []float64) {
		if y := now.Data[i]; y-y != 0 {
			dst.Data[i] = dst.Format.Round(y)
			return
		}
		var moments exact.Moments
		moments.Add(line)
		dst.Data[i] = dst.Format.Round(exact.Blend(momentum, old.Data[i], of(&moments)))
	})
}
