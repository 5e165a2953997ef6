package rows

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// RoundSlice sets dst to src rounded to a format, as [fp16.Format.RoundSlice] does, by a kernel if there is one: that
// which scales float64 numbers and rounds them, by 1. dst may be src.
func RoundSlice(f fp16.Format, dst, src []float64) {
	k := asm.NoiseKernels()
	if n := 0; k != nil && grids[f] != nil && len(dst) == len(src) {
		if n = len(src) / k.Lanes; n > 0 {
			k.Apply[asm.RoundGrid].Scale(&dst[0], &src[0], &src[0], n, 1, &grids[f][0])
			dst, src = dst[n*k.Lanes:], src[n*k.Lanes:]
		}
	}
	f.RoundSlice(dst, src)
}

// grids are what the kernels want to know of a format.
var grids = map[fp16.Format]*asm.NoiseGrid{
	fp16.Float16: gridOf(fp16.Float16), fp16.BFloat16: gridOf(fp16.BFloat16), fp16.TF32: gridOf(fp16.TF32),
}

func gridOf(f fp16.Format) *asm.NoiseGrid {
	return asm.NewNoiseGrid(1-math.Ilogb(f.Ulp(1)), f.SmallestNormal(), f.Largest()+f.Ulp(f.Largest()))
}
