package act

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
)

// choose returns the kernel that runs, nil if there is none for the format.
func (fn *function) choose(f fp16.Format) asm.ActKernel {
	a := asm.ActKernels()
	if a == nil || fn.kernel == nil || rows.Grid(f) == nil {
		asm.Ran(fn.name + ", plain Go")
		return nil
	}
	asm.Ran(fn.name + " " + asm.ISA())
	return fn.kernel(a)
}

// vectors is [rows.Vectors] of a kernel.
func (fn *function) vectors(kernel asm.ActKernel, dst, src []float64, f fp16.Format) (done int) {
	return rows.Vectors(kernel, rows.Grid(f), dst, src, func(x float64) float64 { return fn.at(x, f) })
}
