package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// GLU sets dst to a sigmoid(b), element by element, rounded once to dst.Format, where a and
// b are the first and the second half of src along an axis. dst and src do not overlap. A
// Float64 src needs a Float64 dst. Misuse panics.
func GLU(dst, src *tensor.Tensor, axis int) {
	if axis < 0 || axis >= len(src.Shape) || len(dst.Shape) != len(src.Shape) {
		panic("pointwise: no such axis")
	}
	inner := 1 // numbers that lie beside each other in a half
	for k, d := range src.Shape {
		half := d
		if k == axis {
			half = d / 2
		}
		if dst.Shape[k] != half || k == axis && d%2 != 0 {
			panic("pointwise: shapes differ")
		}
		if k >= axis {
			inner *= half
		}
	}
	mustNotNarrow(dst, src)
	n := len(dst.Data)
	if len(src.Data) != 2*n {
		panic("pointwise: data length does not match the shape")
	}
	par.For((n+chunk-1)/chunk, func(k int) {
		for i := k * chunk; i < min((k+1)*chunk, n); i++ {
			at := i + i/inner*inner
			dst.Data[i] = gated.at(src.Data[at], src.Data[at+inner], dst.Format)
		}
	})
}

var gated = operation{"glu", gate, exact.Gate}

// gate evaluates a/(1 + e^-b), for b < 0 as a e^b/(1 + e^b).
//
// The sigmoid is good to 3.1 U, see there, and the last step adds 1. Where e^b underflows, for
// b < -700, the result is 0 in every format but Float64, beside any a of float32.
func gate(a, b float64) (y, bound float64) {
	switch {
	case a != a || b != b:
		return nan, 0
	case a == 0 && b-b == 0, a-a != 0 && b-b == 0, b > 0 && b-b != 0:
		return a, 0 // of the exact sigmoid, which is not 0, or 1
	case b-b != 0:
		return float64(a * 0), 0
	case b == 0:
		return a / 2, 0
	}
	e := elem.Exp(-math.Abs(b))
	if b < 0 {
		y, bound = within(float64(a*(e/(1+e))), 4.2)
	} else {
		y, bound = within(a/(1+e), 4.2)
	}
	if b < -700 {
		bound = 0x1p-800
	}
	return y, bound
}
