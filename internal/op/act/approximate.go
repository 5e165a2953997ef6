package act

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// approximately keeps 51 bits of what the kernels compute, whatever it is good to.
var approximately = asm.NewWideActGrid(0x1p-50, 0x1p-149, math.MaxFloat64)

// Approximate sets every element of dst, of Float64, to f of the same element of
// src, many times faster than Forward where there are vector kernels. For numbers
// within the range of float32 the relative error is at most 2^-36, a few ten
// thousandths of a float32 rounding (below 2^-152 it is absolute). Special
// arguments are Forward's. dst and src have the same shape and are the same tensor
// or do not overlap. Misuse panics.
func Approximate(dst, src *tensor.Tensor, f Func) {
	tensor.Require("act", -1, dst, src)
	kernels := asm.ActKernels()
	if kernels == nil || dst.Format != fp16.Float64 || !dst.SameShape(src) || int(f) >= len(functions) {
		Forward(dst, src, f)
		return
	}
	fn := &functions[f]
	kernel := fn.kernel(kernels)
	asm.Ran(fn.name + " " + asm.ISA())
	n := len(src.Data)
	par.For((n+chunk-1)/chunk, func(i int) {
		for lo, end := i*chunk, min((i+1)*chunk, n); lo < end; lo += 64 {
			d, s := dst.Data[lo:min(lo+64, end)], src.Data[lo:min(lo+64, end)]
			whole := len(s) &^ 7
			if whole > 0 {
				for open := kernel.Apply(d[:whole], s[:whole], approximately); open != 0; open &= open - 1 {
					i := bits.TrailingZeros64(open)
					d[i] = fn.at(d[i], fp16.Float64)
				}
			}
			fn.apply(d[whole:], s[whole:], fp16.Float64)
		}
	})
}
