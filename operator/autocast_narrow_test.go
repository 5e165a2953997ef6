package operator

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// Kernels of PyTorch 1.13 that compute in the half type: every operation
// rounds. They are not autocast's doing, and the numerical contract does not
// follow them; written down here, they explain to the last bit what PyTorch
// returned.

// narrowAnswer returns what such a kernel returns for a layer, in half format f,
// or nil if the device has none for it.
func (d device) narrowAnswer(l layer, x *tensor.Tensor, f fp16.Format) []float64 {
	if !d.narrow {
		return nil
	}
	switch l := l.(type) {
	case *activation:
		switch l.f {
		case act.SiLU:
			return narrowly(f, x.Data, narrowSiLU)
		case act.GELUTanh:
			return narrowly(f, x.Data, narrowGELUTanh)
		}
	case *resample:
		if l.mode == "bilinear" {
			return narrowBilinear(x, l.factor, f)
		}
	}
	return nil
}

// narrowly applies a function whose operations round by r.
func narrowly(f fp16.Format, xs []float64, g func(r func(float64) float64, x float64) float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = g(f.Round, x)
	}
	return out
}

func narrowSiLU(r func(float64) float64, x float64) float64 {
	return r(x / r(1+r(elem.Exp(-x))))
}

func narrowGELUTanh(r func(float64) float64, x float64) float64 {
	cube := r(r(x*x) * x)
	s := r(r(math.Sqrt(2/math.Pi)) * r(x+r(r(0.044715)*cube)))
	return r(r(x/2) * r(1+r(elem.Tanh(s))))
}

// narrowBilinear interpolates along the width, then along the height. The scale
// is a half number, the source coordinate float32, its two weights halves.
func narrowBilinear(x *tensor.Tensor, factor int, f fp16.Format) []float64 {
	r, single := f.Round, fp16.Float32.Round
	axis := func(i, side int) (at, next int, w0, w1 float64) {
		s := single(single(r(1/float64(factor))*(float64(i)+0.5)) - 0.5)
		s = max(s, 0)
		at = min(int(s), side-1)
		w1 = r(s - float64(at))
		return at, min(at+1, side-1), r(1 - w1), w1
	}
	mix := func(a, wa, b, wb float64) float64 { return r(r(float64(a*wa)) + r(float64(b*wb))) }
	h, w := x.H()*factor, x.W()*factor
	var out []float64
	for p := range x.N() * x.C() {
		in := x.Plane(p/x.C(), p%x.C())
		for i := range h {
			y0, y1, v0, v1 := axis(i, x.H())
			for j := range w {
				x0, x1, u0, u1 := axis(j, x.W())
				top := mix(in[y0*x.W()+x0], u0, in[y0*x.W()+x1], u1)
				bottom := mix(in[y1*x.W()+x0], u0, in[y1*x.W()+x1], u1)
				out = append(out, mix(top, v0, bottom, v1))
			}
		}
	}
	return out
}
