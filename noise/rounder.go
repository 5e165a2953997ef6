package noise

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// piece is how many numbers are worked on at a time: a few microseconds, and
// few enough for the caches. It is a multiple of all vectors and blocks.
const piece = 1 << 12

// pieces calls body for parts [lo,hi) of [0,n), on all processors.
func pieces(n int, body func(lo, hi int)) {
	par.For((n+piece-1)/piece, func(i int) { body(i*piece, min((i+1)*piece, n)) })
}

// spare is memory for draws, of the size that a rollout needs at every step.
var spare sync.Pool

// borrow returns n numbers of any value, for giveBack.
func borrow(n int) *[]float64 {
	if s, ok := spare.Get().(*[]float64); ok && cap(*s) >= n {
		*s = (*s)[:n]
		return s
	}
	s := make([]float64, n)
	return &s
}

func giveBack(s *[]float64) { spare.Put(s) }

// rounder does the arithmetic of blocks in one format: each method is a sequence
// of operations that round once each. Of its arguments, n may be spoiled, and
// dst may be x or n. All have one length.
type rounder struct {
	fp16.Format
	kernels asm.NoiseApply // nil functions if there are none
	lanes   int
	grid    *asm.NoiseGrid
}

func newRounder(f fp16.Format) *rounder {
	r := &rounder{Format: f, grid: new(asm.NoiseGrid)}
	k := asm.NoiseKernels()
	if k == nil {
		return r
	}
	r.lanes = k.Lanes
	switch f {
	case fp16.Float64:
		r.kernels = k.Apply[asm.RoundNot]
	case fp16.Float32:
		r.kernels = k.Apply[asm.RoundFloat32]
	default:
		r.kernels = k.Apply[asm.RoundGrid]
		r.grid = asm.NewNoiseGrid(1-math.Ilogb(f.Ulp(1)), f.SmallestNormal(), f.Largest()+f.Ulp(f.Largest()))
	}
	asm.Ran("noise " + asm.ISA())
	return r
}

// vectors has a kernel do as much of the work as is a whole number of vectors,
// and returns how many numbers that is.
func (r *rounder) vectors(kernel asm.NoiseFunc, dst, x, n []float64, s float64) int {
	if kernel == nil || len(dst) < r.lanes {
		return 0
	}
	v := len(dst) / r.lanes
	kernel(&dst[0], &x[0], &n[0], v, s, &r.grid[0])
	return v * r.lanes
}

// add sets dst to rn(x + rn(rn(n)*s)).
func (r *rounder) add(dst, x, n []float64, s float64) {
	done := r.vectors(r.kernels.Add, dst, x, n, s)
	dst, x, n = dst[done:], x[done:], n[done:]
	r.RoundSlice(n, n)
	r.scale(n, n, s)
	for i, v := range n {
		dst[i] = x[i] + v
	}
	r.RoundSlice(dst, dst)
}

// modulate sets dst to rn(x * rn(1 + rn(rn(n)*s))).
func (r *rounder) modulate(dst, x, n []float64, s float64) {
	done := r.vectors(r.kernels.Modulate, dst, x, n, s)
	dst, x, n = dst[done:], x[done:], n[done:]
	r.RoundSlice(n, n)
	r.scale(n, n, s)
	for i := range n {
		n[i]++
	}
	r.RoundSlice(n, n)
	for i, v := range n {
		dst[i] = x[i] * v
	}
	r.RoundSlice(dst, dst)
}

// scale sets dst to rn(x*s).
func (r *rounder) scale(dst, x []float64, s float64) {
	done := r.vectors(r.kernels.Scale, dst, x, dst, s)
	dst, x = dst[done:], x[done:]
	for i, v := range x {
		dst[i] = v * s
	}
	r.RoundSlice(dst, dst)
}

// sign sets n to rn(n) times the sign of rn(m), and may spoil m. The product is
// exact. A NaN may have any sign and payload.
func (r *rounder) sign(n, m []float64) {
	done := r.vectors(r.kernels.Sign, n, m, n, 0)
	n, m = n[done:], m[done:]
	r.RoundSlice(n, n)
	r.RoundSlice(m, m)
	for i, v := range m {
		n[i] *= sign(v)
	}
}

// sign returns -1, 0 or 1, and 0 for -0 too; that of a NaN is NaN.
func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	case v == 0:
		return 0
	}
	return v
}
