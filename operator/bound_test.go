package operator

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// errorOf bounds the distance, in any element of a block's output, between an
// evaluation in arithmetic of unit roundoff u (PyTorch's, in any summation
// order) and the exact value, from standard rounding-error analysis (N. Higham,
// "Accuracy and Stability of Numerical Algorithms", 2002). It follows one
// number, the largest error of any element, through the block. The factors in
// it are rounded-up counts of operations and slopes, said where they stand; it
// covers the blocks that are recorded, with instance norm, whose statistics
// PyTorch sums in float64.
func errorOf(m module, x, skip *tensor.Tensor, u float64) float64 {
	e := &analysis{u: u, pass: &Pass{Mode: graph.Mode{Precision: fp16.Float64}}}
	y := x.Clone()
	y.Format = fp16.Float64
	switch b := m.(type) {
	case *upsampleBlock:
		y, err := e.through(y, 0, b.up)
		if skip != nil {
			s := skip.Clone()
			s.Format = fp16.Float64
			if b.sum {
				y = joined(nil, e.pass.Mode, graph.Addition, y, s)
				err += u * largest(y)
			} else {
				y = joined(nil, e.pass.Mode, graph.Cat{Axis: 1}, y, s)
			}
		}
		_, err = e.through(y, err, b.conv)
		return err
	case *residualBlock:
		path, ep := e.through(y, 0, b.blocks...)
		short, es := y, 0.0
		if b.projection != nil {
			short, es = e.through(y, 0, b.projection)
		}
		return ep + es + u*(largest(path)+largest(short))
	}
	_, err := e.through(y, 0, m)
	return err
}

type analysis struct {
	u    float64
	pass *Pass
}

// gamma is Higham's gamma_n = nu/(1-nu).
func (a *analysis) gamma(n int) float64 {
	nu := float64(n) * a.u
	return nu / (1 - nu)
}

// through returns the value of x through modules, in float64, and the bound on
// the error there if x itself carries the error e.
func (a *analysis) through(x *tensor.Tensor, e float64, modules ...module) (*tensor.Tensor, float64) {
	for _, m := range modules {
		visitAll(func(l layer) {
			y, err := forwardOf(l, a.pass, x, nil)
			if err != nil {
				panic(err)
			}
			e = a.layer(l, x, y, e)
			x = y
		}, m)
	}
	return x, e
}

func (a *analysis) layer(l layer, x, y *tensor.Tensor, e float64) float64 {
	u := a.u
	switch l := l.(type) {
	case *conv2d:
		// |error| <= gamma_(n+1) sum|x||w| + e sum|w|, sums over the window.
		s := l.weight.Shape
		abs := func(v []float64) []float64 {
			out := make([]float64, len(v))
			for i, x := range v {
				out[i] = math.Abs(x)
			}
			return out
		}
		var bias []float64
		if l.bias != nil {
			bias = abs(l.bias.Data)
		}
		w := tensor.Of(fp16.Float32, abs(l.weight.Data), s[0], s[1], s[2], s[3])
		in := tensor.Of(fp16.Float64, abs(x.Data), x.N(), x.C(), x.H(), x.W())
		sum, ones := tensor.Like(y), tensor.Like(y)
		one := tensor.Like(in)
		for i := range one.Data {
			one.Data[i] = 1
		}
		terms := s[1] * s[2] * s[3]
		if l.transposed {
			k, k1 := conv.NewTransposedKernel(w, bias), conv.NewTransposedKernel(w, nil)
			conv.Transposed(sum, in, k, l.geometry)
			conv.Transposed(ones, one, k1, l.geometry)
			terms = s[0] * s[2] * s[3]
		} else {
			conv.Forward(sum, in, conv.NewKernel(w, bias), l.geometry)
			conv.Forward(ones, one, conv.NewKernel(w, nil), l.geometry)
		}
		return (a.gamma(terms+1)*largest(sum) + e*largest(ones)) * (1 + 16*u)
	case *normalization:
		if l.kind != "instance" {
			panic("no analysis of this norm")
		}
		// With s = |gamma|/sqrt(var+eps), an error e of the inputs moves
		// x^ by at most s e (2 + max|x^|) to first order; statistics and the
		// affine map cost a few u of the terms of x*a + (beta - mean*a).
		plain := tensor.Like(x)
		norm.Instance(plain, x, nil, nil, epsilon)
		scale, shift, xhat := 0.0, 0.0, largest(plain)
		hw := x.H() * x.W()
		for n := range x.N() {
			for c := range x.C() {
				mean, sq := 0.0, 0.0
				for _, v := range x.Plane(n, c) {
					mean += v / float64(hw)
				}
				for _, v := range x.Plane(n, c) {
					sq += (v - mean) * (v - mean) / float64(hw)
				}
				s := math.Abs(l.weight.Data[c]) / math.Sqrt(sq+epsilon)
				scale = max(scale, s)
				shift = max(shift, s*math.Abs(mean)+math.Abs(l.bias.Data[c]))
			}
		}
		if scale*e > 0x1p-6 {
			return math.Inf(1) // the first-order formula no longer holds
		}
		return 1.1*scale*e*(2+xhat) + 8*u*(scale*largest(x)+shift)
	case *activation:
		// Slopes are at most 1.13 (GELU). PyTorch's float32 GELU uses an
		// approximation of erf with an absolute error of 3.7e-7; everything
		// else is a few ulp.
		own := 4 * u * (largest(x) + largest(y))
		if l.f == act.GELU && u > 0x1p-50 {
			own += 3.7e-7
		}
		return 1.13*e + own
	case *resample:
		// Weights are non-negative and sum to 1.
		if l.mode == "nearest" {
			return e
		}
		return e + 8*u*largest(x)
	}
	return e
}
