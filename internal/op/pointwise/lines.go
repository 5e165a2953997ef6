package pointwise

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
)

// vectors are the kernels of a function: of float64 numbers, and of rows or nil. From far on, of either sign, results
// of 24 bits or fewer are 1 and -1; an infinity where they are not.
type vectors struct {
	some func(a *asm.Act) asm.ActKernel
	row  func(a *asm.RowActs) asm.RowAct
	far  float64
}

// vectored are the functions that have kernels, which evaluate them with a bound of their own.
var vectored = map[string]vectors{
	// 1 - erf 4 is less than 1.55e-8, and from 1 to halfway to the number of 24 bits before it is 2^-25, 2.98e-8.
	"erf": {func(a *asm.Act) asm.ActKernel { return a.Erf }, nil, 4},
	"sigmoid": {
		func(a *asm.Act) asm.ActKernel { return a.Sigmoid }, func(a *asm.RowActs) asm.RowAct { return a.Sigmoid }, inf,
	},
}

// kernel returns the kernel for results of a format, nil if there is none.
func (fn *function) kernel(f fp16.Format) asm.ActKernel {
	v, has := vectored[fn.name]
	if !has || rows.Grid(f) == nil {
		return nil
	}
	a := asm.ActKernels()
	asm.RanHere(fn.name, a != nil)
	if a == nil {
		return nil
	}
	return v.some(a)
}

// line sets dst to the function of src, by a kernel if it is not nil.
func (fn *function) line(kernel asm.ActKernel, dst, src []float64, p *args, f fp16.Format) {
	done := 0
	if fn.name == "leaky_relu" && f == fp16.Float32 { // without calls
		for i, x := range src {
			y := float64(float32(float64(p[0] * x)))
			if x > 0 {
				y = float64(float32(x))
			}
			dst[i] = one(y)
		}
		return
	}
	if kernel != nil {
		at := func(x float64) float64 { return fn.at(x, p, f) }
		if far := vectored[fn.name].far; far < inf {
			near := func(x float64) float64 {
				if math.Abs(x) >= far {
					return math.Copysign(1, x)
				}
				return at(x)
			}
			done = nearby(far, dst, src, func(dst, src []float64) { rows.Vectors(kernel, rows.Grid(f), dst, src, near) })
		} else {
			done = rows.Vectors(kernel, rows.Grid(f), dst, src, at)
		}
	}
	for i, x := range src[done:] {
		dst[done+i] = fn.at(x, p, f)
	}
}

// nearby sets dst to 1 and -1 where eight numbers of src are far or farther, and else leaves them to of, in multiples
// of eight. It returns how many it has done.
func nearby(far float64, dst, src []float64, of func(dst, src []float64)) (done int) {
	away := func(x []float64) bool {
		for _, v := range x[:8] {
			if !(math.Abs(v) >= far) {
				return false
			}
		}
		return true
	}
	for len(src)-done >= 8 {
		n := 0
		for ; len(src)-done-n >= 8 && !away(src[done+n:]); n += 8 {
		}
		if n > 0 {
			of(dst[done:done+n], src[done:done+n])
			done += n
			continue
		}
		for i, v := range src[done : done+8] {
			dst[done+i] = math.Copysign(1, v)
		}
		done += 8
	}
	return done
}

// Lines returns what sets dst to the function of src, as [Unary] does with results of a format. The two are of one
// length, and the same numbers or apart. It is for package plan.
func (f Func) Lines(format fp16.Format) func(dst, src []float64) {
	kernel, p := f.fn.kernel(format), f.in(format)
	return func(dst, src []float64) { f.fn.line(kernel, dst, src, p, format) }
}

// Rows returns what sets dst to the function of src, rows of pixels of 8 numbers which lie apart, as [Unary] does with
// results of a format. Several goroutines may call it. It is for package plan.
func (f Func) Rows(format fp16.Format) func(dst, src []float32) {
	if of := f.ofOperations(format); of != nil {
		return of
	}
	p := f.in(format)
	at := func(x float64) float64 { return f.fn.at(x, p, format) }
	r := &rows.Function{Format: format, Some: f.fn.kernel(format), At: at}
	if acts := rows.Acts(format); acts != nil && r.Some != nil && vectored[f.fn.name].row != nil {
		r.Row = vectored[f.fn.name].row(acts)
	}
	if k := asm.RowKernels(); k != nil && f.fn.name == "hardswish" && format == fp16.Float32 {
		r.Row = k.HardSwish
	}
	spaces := sync.Pool{New: func() any { return rows.NewSpace(0) }}
	return func(dst, src []float32) {
		w := spaces.Get().(*rows.Space)
		r.Apply(dst, src, w)
		spaces.Put(w)
	}
}

// ofOperations returns Rows of a function that operations of rows make, nil for others.
func (f Func) ofOperations(format fp16.Format) func(dst, src []float32) {
	r, p := rows.New(format), f.in(format)
	ends := *p
	switch f.fn.name {
	case "leaky_relu":
		if slope := spread(p[0]); p[0] > 0 && p[0] <= 1 {
			return func(dst, src []float32) { r.Leak(dst, src, &slope) }
		}
		return nil
	case "relu6":
		ends = args{0, 6}
	case "clip", "hardtanh":
	default:
		return nil
	}
	low, high := spread(ends[0]), spread(ends[1])
	return func(dst, src []float32) {
		r.Most(dst, src, &low)
		r.Least(dst, dst, &high)
	}
}

// spread returns a number for each channel of a block.
func spread(v float64) (s [8]float32) {
	for i := range s {
		s[i] = float32(v)
	}
	return s
}
