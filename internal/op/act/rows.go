package act

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
)

// Rows applies an activation to rows of float32 numbers, with the bits of
// [Forward]. It may be used by several goroutines.
type Rows struct {
	fn   *function
	of   rows.Function
	fast bool // GELU, in fast arithmetic
}

// NewRows prepares an activation with results of a format: Float32, or Float16 or
// BFloat16 for rows of numbers of it.
func NewRows(f Func, format fp16.Format) *Rows {
	if int(f) >= len(functions) || rows.Grid(format) == nil || format == fp16.TF32 {
		panic("act: unknown function or format")
	}
	fn := &functions[f]
	at := func(x float64) float64 { return fn.at(x, format) }
	r := &Rows{fn: fn, of: rows.Function{Format: format, Some: fn.choose(format), At: at}}
	if acts := rows.Acts(format); acts != nil {
		r.of.Row = [len(functions)]asm.RowAct{
			ReLU: asm.RowKernels().ReLU, GELU: acts.GELU, GELUTanh: acts.GELUTanh, SiLU: acts.SiLU, Tanh: acts.Tanh,
		}[f]
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
type Space struct{ rows *rows.Space }

// NewSpace returns memory for rows of w pixels of 8 numbers.
func NewSpace(w int) *Space { return &Space{rows.NewSpace(w)} }

// Apply sets dst to the function of src, whole pixels of 8 numbers each. The two
// lie apart.
func (r *Rows) Apply(dst, src []float32, w *Space) {
	switch {
	case r.fn == &functions[Identity]:
		copy(dst, src)
	case r.fast:
		fastRow(dst, src)
	default:
		r.of.Apply(dst, src, w.rows)
	}
}
