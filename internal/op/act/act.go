// Package act computes the activation functions, which the public package act defines: on tensors
// ([Forward], [ForwardFast], [Approximate]), and, for package plan, which computes images in blocks
// of 8 channels, on rows and lines ([Rows], [Space], [Lines], [FastLines] and [FastSingles]).
package act

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Func names an activation function.
type Func uint8

// The activation functions.
const (
	Identity Func = iota
	ReLU
	GELU
	GELUTanh
	SiLU
	Tanh
)

// function is one activation: its name, its limits at -Inf and +Inf, and, for
// a finite x, the three steps of every operation. eval returns an evaluation y
// in float64 and, if x is a number of the float32 grid, a bound of |y - exact|;
// settle returns the exact value rounded to odd for such an x. A function
// without settle is exact as evaluated. kernel does what eval and the guard do,
// for many x; a function without one runs in plain Go.
type function struct {
	name         string
	atNeg, atPos float64
	eval         func(x float64) (y, bound float64)
	settle       func(x float64) float64
	kernel       func(a *asm.Act) asm.ActKernel
}

var (
	inf     = math.Inf(1)
	negZero = math.Copysign(0, -1)
)

var functions = [...]function{
	Identity: {"none", -inf, inf, identity, nil, func(a *asm.Act) asm.ActKernel { return a.Identity }},
	ReLU:     {"relu", 0, inf, relu, nil, func(a *asm.Act) asm.ActKernel { return a.ReLU }},
	GELU:     {"gelu", negZero, inf, gelu, exact.GELU, func(a *asm.Act) asm.ActKernel { return a.GELU }},
	GELUTanh: {"gelu_tanh", negZero, inf, geluTanh, exact.GELUTanh, func(a *asm.Act) asm.ActKernel { return a.GELUTanh }},
	SiLU:     {"silu", negZero, inf, silu, exact.SiLU, func(a *asm.Act) asm.ActKernel { return a.SiLU }},
	Tanh:     {"tanh", -1, 1, tanh, exact.Tanh, func(a *asm.Act) asm.ActKernel { return a.Tanh }},
}

// All returns the functions.
func All() (all []Func) {
	for f := range functions {
		all = append(all, Func(f))
	}
	return all
}

// Parse returns the function of that name: none, relu, gelu, gelu_tanh, silu
// (also swish) or tanh. Any other name is an error that lists them.
func Parse(name string) (Func, error) {
	if name == "swish" {
		return SiLU, nil
	}
	var names []string
	for f := range functions {
		if functions[f].name == name {
			return Func(f), nil
		}
		names = append(names, functions[f].name)
	}
	return 0, fmt.Errorf("unknown activation %.60q: want one of %s, swish", name, strings.Join(names, ", "))
}

// String returns the name that Parse reads.
func (f Func) String() string {
	if int(f) < len(functions) {
		return functions[f].name
	}
	return fmt.Sprintf("Func(%d)", uint8(f))
}

// chunk is the number of elements one goroutine takes at a time.
const chunk = 4096

// Forward sets every element of dst to f of the same element of src, rounded
// to dst.Format. dst and src have the same shape and are the same tensor or do
// not overlap. A Float64 src needs a Float64 dst, as the rounding of the
// others is proven for arguments of float32 precision. Misuse panics.
func Forward(dst, src *tensor.Tensor, f Func) {
	tensor.Require("act", -1, dst, src)
	if !dst.SameShape(src) {
		panic("act: shapes differ")
	}
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("act: float64 input needs a float64 output")
	}
	if int(f) >= len(functions) {
		panic("act: unknown function")
	}
	fn := &functions[f]
	kernel := fn.choose(dst.Format)
	n := len(src.Data)
	par.For((n+chunk-1)/chunk, func(i int) {
		lo, hi := i*chunk, min((i+1)*chunk, n)
		done := fn.vectors(kernel, dst.Data[lo:hi], src.Data[lo:hi], dst.Format)
		fn.apply(dst.Data[lo+done:hi], src.Data[lo+done:hi], dst.Format)
	})
}

// Lines returns what sets dst to the function of src, as Forward does with results of a
// format other than Float64. The two are of one length, and the same numbers or apart.
func Lines(f Func, format fp16.Format) func(dst, src []float64) {
	if int(f) >= len(functions) || format == fp16.Float64 {
		panic("act: unknown function or format")
	}
	fn := &functions[f]
	kernel := fn.choose(format)
	return func(dst, src []float64) {
		done := fn.vectors(kernel, dst, src, format)
		fn.apply(dst[done:], src[done:], format)
	}
}

// apply is Forward for one piece of the data, element by element.
func (fn *function) apply(dst, src []float64, f fp16.Format) {
	for i, x := range src {
		dst[i] = fn.at(x, f)
	}
}

// at returns the function of x.
func (fn *function) at(x float64, f fp16.Format) float64 {
	switch {
	case x-x == 0:
		y, bound := fn.eval(x)
		if f != fp16.Float64 {
			var ok bool
			if y, ok = f.Decide(y, bound); !ok {
				y = f.Round(fn.settle(x))
			}
		}
		return y
	case x > 0:
		return f.Round(fn.atPos)
	case x < 0:
		return f.Round(fn.atNeg)
	}
	return fp16.NaN
}
