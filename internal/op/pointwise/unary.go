package pointwise

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// function is one function of one number: its name and parameters, and the steps of
// every operation. limits returns its values at -Inf and +Inf. eval returns an
// evaluation y in float64 of a finite x and, if x and the parameters are numbers of
// the float32 grid, a bound of |y - exact|; without a bound (0, or NaN) y is the
// exact value or rounds as it does. settle returns the exact value rounded to odd for
// such an x. A function without limits has an eval for every number, NaN and the
// infinities too; one without settle never needs it.
type function struct {
	name   string
	params []param
	limits func(p *args) (neg, pos float64)
	eval   func(x float64, p *args) (y, bound float64)
	settle func(x float64, p *args) float64
}

// functions holds every function by its name.
var functions = map[string]*function{}

// register makes functions known. It is for functions init, each beside its evaluations.
func register(all ...function) {
	for i := range all {
		if functions[all[i].name] != nil {
			panic("pointwise: " + all[i].name + " is registered twice")
		}
		functions[all[i].name] = &all[i]
	}
}

// to returns limits that no parameter changes.
func to(neg, pos float64) func(*args) (float64, float64) {
	return func(*args) (float64, float64) { return neg, pos }
}

// plain returns a settle of a function without parameters.
func plain(f func(x float64) float64) func(float64, *args) float64 {
	return func(x float64, _ *args) float64 { return f(x) }
}

// chunk is the number of elements one goroutine takes at a time.
const chunk = 4096

// Unary sets every element of dst to f of the same element of src, rounded once to
// dst.Format. dst and src have the same shape and are the same tensor or do not
// overlap. A Float64 src needs a Float64 dst, as the rounding of the others is proven
// for arguments of float32 precision. Misuse panics.
func Unary(dst, src *tensor.Tensor, f Func) {
	switch {
	case f.fn == nil:
		panic("pointwise: no function")
	case !dst.SameShape(src) || len(dst.Data) != len(src.Data):
		panic("pointwise: shapes differ")
	}
	mustNotNarrow(dst, src)
	p, kernel := f.in(dst.Format), f.fn.kernel(dst.Format)
	n := len(src.Data)
	par.For((n+chunk-1)/chunk, func(i int) {
		lo, hi := i*chunk, min((i+1)*chunk, n)
		f.fn.line(kernel, dst.Data[lo:hi], src.Data[lo:hi], p, dst.Format)
	})
}

// mustNotNarrow refuses a Float64 source with a destination of another floating-point
// format. (Whole numbers are for truths.)
func mustNotNarrow(dst *tensor.Tensor, src ...*tensor.Tensor) {
	for _, s := range src {
		if s.Format == fp16.Float64 && dst.Format != fp16.Float64 && dst.Format != fp16.Int64 {
			panic("pointwise: float64 input needs a float64 output")
		}
	}
}

// at returns the function of x, rounded to f.
func (fn *function) at(x float64, p *args, f fp16.Format) float64 {
	if fn.limits != nil && x-x != 0 {
		neg, pos := fn.limits(p)
		switch {
		case x > 0:
			return f.Round(pos)
		case x < 0:
			return f.Round(neg)
		}
		return fp16.NaN
	}
	y, bound := fn.eval(x, p)
	if f == fp16.Float64 || !(bound > 0) {
		return f.Round(y)
	}
	if y, ok := f.Decide(y, bound); ok {
		return y
	}
	return f.Round(fn.settle(x, p))
}
