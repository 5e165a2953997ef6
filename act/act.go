// Package act holds the activation functions, applied element by element:
//
//	relu       max(x, 0)
//	gelu       x/2 (1 + erf(x/sqrt 2))
//	gelu_tanh  x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//	silu       x / (1 + e^-x)
//	tanh       tanh x
//	none       x
//
// 1/sqrt 2 and sqrt(2/pi) are the real numbers and 0.044715 is the decimal
// (D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", 2016). The result is
// the exact value for the stored x, rounded once to the destination's format,
// and in a Float64 destination the float64 evaluation, whose error each
// function states.
//
// Special arguments, in every format:
//
//	           NaN  -Inf  +Inf   -0   +0   result underflows
//	relu       NaN   +0   +Inf   -0   +0   +0
//	gelu       NaN   -0   +Inf   -0   +0   -0 for x < 0
//	gelu_tanh  NaN   -0   +Inf   -0   +0   -0 for x < 0
//	silu       NaN   -0   +Inf   -0   +0   -0 for x < 0
//	tanh       NaN   -1    +1    -0   +0   sign kept
//	none       NaN  -Inf  +Inf   -0   +0   sign kept
//
// In use:
//
//	x := tensor.FromFloat32(numbers, n)
//	y := tensor.New(fp16.Float16, n)
//	act.Forward(y, x, act.GELU)
package act

import (
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// Func names an activation function; its method String returns the name that [Parse] reads.
type Func = act.Func

// The activation functions.
const (
	Identity = act.Identity
	ReLU     = act.ReLU
	GELU     = act.GELU
	GELUTanh = act.GELUTanh
	SiLU     = act.SiLU
	Tanh     = act.Tanh
)

// Parse returns the function of that name: none, relu, gelu, gelu_tanh, silu (also swish)
// or tanh. Any other name is an error that lists them.
func Parse(name string) (Func, error) { return act.Parse(name) }

// Forward sets every element of dst to f of the same element of src, rounded to dst.Format.
// dst and src have the same shape and are the same tensor or do not overlap. A Float64 src
// needs a Float64 dst, as the rounding of the others is proven for arguments of float32
// precision. Misuse panics.
func Forward(dst, src *tensor.Tensor, f Func) { act.Forward(dst, src, f) }
