package rows

import (
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// guards are the formats that kernels of functions round to.
var guards = map[fp16.Format]*asm.ActGrid{}

func init() {
	for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		guards[f] = asm.NewActGrid(f.Ulp(1), f.SmallestNormal(), f.Largest())
	}
}

// Grid returns a format as the kernels of functions round to it, nil if they do not.
func Grid(f fp16.Format) *asm.ActGrid { return guards[f] }

// Acts returns the kernels of rows with results in a format, nil if there are none.
func Acts(f fp16.Format) *asm.RowActs {
	k := asm.RowKernels()
	switch {
	case k == nil:
		return nil
	case f == fp16.Float32:
		return &k.Act[asm.RowFloat32]
	}
	return &k.Act[asm.RowGrid]
}

// Vectors applies a kernel to as many numbers as fill vectors, from the first one on, and returns how many these are.
// What the kernel leaves open, a few in ten thousand, is at's.
func Vectors(kernel asm.ActKernel, g *asm.ActGrid, dst, src []float64, at func(x float64) float64) (done int) {
	for kernel != nil && len(src)-done >= 8 {
		n := min(len(src)-done, 64) &^ 7
		d := dst[done : done+n]
		open := kernel.Apply(d, src[done:done+n], g)
		for ; open != 0; open &= open - 1 {
			i := bits.TrailingZeros64(open)
			d[i] = at(d[i])
		}
		done += n
	}
	return done
}

// Function is a function of one number with results in a format, applied to rows. It may be used by several
// goroutines.
type Function struct {
	Format fp16.Format
	Row    asm.RowAct              // of rows, nil if there is none
	Some   asm.ActKernel           // of float64 numbers, nil if there is none
	At     func(x float64) float64 // where there is neither, and of what they leave open
}

// Space is the memory of one goroutine that applies functions to rows.
type Space struct {
	open     []uint8
	src, dst [64]float64
}

// NewSpace returns memory for rows of w pixels, which grows with wider ones.
func NewSpace(w int) *Space { return &Space{open: make([]uint8, w)} }

// Apply sets dst to the function of src. The two lie apart.
func (f *Function) Apply(dst, src []float32, w *Space) {
	if f.Row != nil {
		if n := len(src) / 8; n > len(w.open) {
			w.open = make([]uint8, n)
		}
		if f.Row(&dst[0], &src[0], len(src)/8, guards[f.Format].Guard(), &w.open[0]) == 0 {
			return
		}
		for p, o := range w.open[:len(src)/8] {
			for ; o != 0; o &= o - 1 {
				i := 8*p + bits.TrailingZeros8(o)
				dst[i] = float32(f.At(float64(src[i])))
			}
		}
		return
	}
	for at := 0; at < len(src); at += len(w.src) {
		n := min(len(src)-at, len(w.src))
		for i, v := range src[at : at+n] {
			w.src[i] = float64(v)
		}
		done := Vectors(f.Some, guards[f.Format], w.dst[:n], w.src[:n], f.At)
		for i, v := range w.src[done:n] {
			w.dst[done+i] = f.At(v)
		}
		for i, v := range w.dst[:n] {
			dst[at+i] = float32(v)
		}
	}
}
