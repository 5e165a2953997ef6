package act

import (
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// Rows applies an activation to rows of float32 numbers, with the bits of
// [Forward]. It may be used by several goroutines.
type Rows struct {
	fn     *function
	format fp16.Format
	row    asm.RowAct    // nil if there is none
	grid   *float64      // of row
	some   asm.ActKernel // for float64 numbers, nil if there is none
	fast   bool          // GELU, in fast arithmetic
}

// NewRows prepares an activation with results of a format: Float32, or Float16 or
// BFloat16 for rows of numbers of it.
func NewRows(f Func, format fp16.Format) *Rows {
	if int(f) >= len(functions) || grids[format] == nil || format == fp16.TF32 {
		panic("act: unknown function or format")
	}
	fn := &functions[f]
	r := &Rows{fn: fn, format: format, some: fn.choose(format)}
	if k := asm.RowKernels(); k != nil {
		acts := &k.Act[asm.RowFloat32]
		if format != fp16.Float32 {
			acts = &k.Act[asm.RowGrid]
		}
		r.grid = grids[format].Guard()
		r.row = [...]asm.RowAct{ReLU: k.ReLU, GELU: acts.GELU, GELUTanh: acts.GELUTanh, SiLU: acts.SiLU, Tanh: acts.Tanh}[f]
	}
	return r
}

// NewFastRows is NewRows in fast arithmetic: its rows have the bits of [ForwardFast].
func NewFastRows(f Func, format fp16.Format) *Rows {
	r := NewRows(f, format)
	if r.fast = f == GELU && format == fp16.Float32; r.fast {
		fastKernels()
	}
	return r
}

// Fast reports whether it is GELU in fast arithmetic.
func (r *Rows) Fast() bool { return r.fast }

// Space is the memory of one goroutine that applies activations to rows.
type Space struct {
	open     []uint8
	src, dst [64]float64
}

// NewSpace returns memory for rows of w pixels of 8 numbers.
func NewSpace(w int) *Space { return &Space{open: make([]uint8, w)} }

// Apply sets dst to the function of src, whole pixels of 8 numbers each. The two
// lie apart.
func (r *Rows) Apply(dst, src []float32, w *Space) {
	switch {
	case r.fn == &functions[Identity]:
		copy(dst, src)
	case r.fast:
		fastRow(dst, src)
	case r.row != nil:
		if r.row(&dst[0], &src[0], len(src)/8, r.grid, &w.open[0]) == 0 {
			return
		}
		for p, o := range w.open[:len(src)/8] {
			for ; o != 0; o &= o - 1 {
				i := 8*p + bits.TrailingZeros8(o)
				dst[i] = float32(r.fn.at(float64(src[i]), r.format))
			}
		}
	default:
		for at := 0; at < len(src); at += len(w.src) {
			n := min(len(src)-at, len(w.src))
			for i, v := range src[at : at+n] {
				w.src[i] = float64(v)
			}
			if r.some != nil {
				r.fn.vectors(r.some, w.dst[:n], w.src[:n], r.format)
			} else {
				r.fn.apply(w.dst[:n], w.src[:n], r.format)
			}
			for i, v := range w.dst[:n] {
				dst[at+i] = float32(v)
			}
		}
	}
}
