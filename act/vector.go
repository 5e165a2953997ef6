package act

import (
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// grids are the formats that the kernels round to.
var grids = map[fp16.Format]*asm.ActGrid{}

func init() {
	for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		grids[f] = asm.NewActGrid(f.Ulp(1), f.SmallestNormal(), f.Largest())
	}
}

// choose returns the kernel that runs, nil if there is none for the format.
func (fn *function) choose(f fp16.Format) asm.ActKernel {
	a := asm.ActKernels()
	if a == nil || grids[f] == nil {
		asm.Ran(fn.name + ", plain Go")
		return nil
	}
	asm.Ran(fn.name + " " + asm.ISA())
	return fn.kernel(a)
}

// vectors applies a kernel to as many elements as fill vectors, from the first
// one on, and returns their number. What the kernel leaves open, a few in ten
// thousand, is computed like everything else without one.
func (fn *function) vectors(kernel asm.ActKernel, dst, src []float64, f fp16.Format) (done int) {
	if kernel == nil {
		return 0
	}
	g := grids[f]
	for len(src)-done >= 8 {
		n := min(len(src)-done, 64) &^ 7
		d := dst[done : done+n]
		open := kernel.Apply(d, src[done:done+n], g)
		for ; open != 0; open &= open - 1 {
			i := bits.TrailingZeros64(open)
			d[i] = fn.at(d[i], f)
		}
		done += n
	}
	return done
}
