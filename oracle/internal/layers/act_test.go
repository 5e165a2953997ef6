package layers

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestSiLUByPowersOfTwo: x/(1+2^t) of the rounded t = -x log2 e, which many kernels
// compute in float32, is right at all sizes of x; what is 2^-17 off is not at any.
func TestSiLUByPowersOfTwo(t *testing.T) {
	const n = 4096
	x := tensor.New(fp16.Float64, 1, 1, 1, n)
	for i := range x.Data {
		x.Data[i] = emulate.Single(-86 + 96*(float64(i)+0.37)/n)
	}
	g := &layerGate{u: 0x1p-24, mode: operator.Mode{Precision: fp16.Float32}}
	log2e := emulate.Single(math.Log2E)
	outside, farther := 0, 0
	for a := range g.actAnswers(&operator.Node{Op: operator.OpAct, Act: act.SiLU}, layerValue{Tensor: x}, nil) {
		for i, v := range x.Data {
			e := emulate.Single(math.Exp2(emulate.Single(-v * log2e)))
			y := emulate.Single(v / emulate.Single(1+e))
			if y < a.lo[i] || y > a.hi[i] {
				outside++
			}
			if v < -70 || a.mid[i]+0x1p-17*math.Abs(y) > a.hi[i] { // where an absolute 2^-126 is less
				farther++
			}
		}
	}
	if outside > 0 || farther < n {
		t.Errorf("%d of %d right numbers are outside of what a right device has; of those 2^-17 off, %d are",
			outside, n, farther)
	}
}

// TestActsOfLibraries: what libraries make of activations in float32 is right by one answer,
// at all sizes of x, and what is ten times as far off by none.
func TestActsOfLibraries(t *testing.T) {
	single := emulate.Single
	exp := func(v float64) float64 { return single(math.Exp(v)) }
	log2e := single(math.Log2E)
	power := func(v float64) float64 { return single(math.Exp2(single(v * log2e))) }
	polynomial := func(v float64) float64 { // 7.1.26 of Abramowitz and Stegun
		a := math.Abs(v)
		q, s := single(1/single(1+single(0.3275911*a))), single(1.061405429)
		for _, c := range []float64{-1.453152027, 1.421413741, -0.284496736, 0.254829592} {
			s = single(single(s*q) + single(c))
		}
		return math.Copysign(single(1-single(single(exp(-single(a*a))*q)*s)), v)
	}
	gelu := func(erf func(float64) float64) func(x float64) float64 {
		return func(x float64) float64 { return single(single(x/2) * single(1+erf(single(x*single(math.Sqrt(.5)))))) }
	}
	for _, c := range []struct {
		how, name string
		act       act.Func
		of        func(x float64) float64
	}{
		{"tanh as 2/(1 + e^-2x) - 1", "tanh by e^-2x", act.Tanh,
			func(x float64) float64 { return single(single(2/single(1+power(-2*x))) - 1) }},
		{"", "tanh of an ulp", act.Tanh, func(x float64) float64 { return single(single(math.Tanh(x)) * (1 + 0x1p-23)) }},
		{"", "GELU by a polynomial", act.GELU, gelu(polynomial)},
		{"", "GELU by erf", act.GELU, gelu(func(v float64) float64 { return single(math.Erf(v)) })},
		{"", "GELU by tanh", act.GELUTanh, func(x float64) float64 {
			w := single(single(math.Sqrt(2/math.Pi)) * single(x+single(single(0.044715)*single(single(x*x)*x))))
			return single(single(x/2) * single(1+single(math.Tanh(w))))
		}},
		{"", "GELU by e^2w", act.GELUTanh, func(x float64) float64 {
			w := single(single(math.Sqrt(2/math.Pi)) * single(x+single(single(0.044715)*single(single(x*x)*x))))
			return single(single(x/2) * single(1+single(1-single(2/single(1+power(2*w))))))
		}},
		{"", "SiLU by expf", act.SiLU, func(x float64) float64 { return single(x / single(1+single(exp(-x)*(1+0x1p-22)))) }},
		{"", "SiLU by an inverse", act.SiLU, func(x float64) float64 { return single(x * single(1/single(1+exp(-x)))) }},
		{"SiLU by 2^(-x log2 e) in float32 or an inexact quotient, as fast math has it", "SiLU by powers of 2",
			act.SiLU, func(x float64) float64 { return single(x / single(1+power(-x))) }},
		{"with a logistic function that is a fraction", "SiLU of an absolute error", act.SiLU,
			func(x float64) float64 { return single(x * single(1/(1+math.Exp(-x))+0x1.8p-23)) }},
	} {
		const n = 8192
		x, y, far := tensor.New(fp16.Float64, 1, 1, 64, n/64), tensor.New(fp16.Float64, 1, 1, 64, n/64),
			tensor.New(fp16.Float64, 1, 1, 64, n/64)
		exact := tensor.Like(x)
		for i := range x.Data {
			x.Data[i] = single(-20 + 40*(float64(i)+0.37)/n)
		}
		act.Forward(exact, x, c.act)
		for i, v := range x.Data {
			y.Data[i] = c.of(v)
			far.Data[i] = single(exact.Data[i] + 0x1p-17*max(math.Abs(v), math.Abs(exact.Data[i])))
		}
		g := &layerGate{u: 0x1p-24, mode: operator.Mode{Precision: fp16.Float32}}
		right, wrong, how := false, false, ""
		for a := range g.actAnswers(&operator.Node{Op: operator.OpAct, Act: c.act}, layerValue{Tensor: x}, y) {
			if !right && judge(a, y, fp16.Float32).right() {
				right, how = true, a.how
			}
			wrong = wrong || judge(a, far, fp16.Float32).violations < n/2
		}
		if !right || wrong || how != c.how {
			t.Errorf("%s: right %v, %q; what is 2^-17 off is right as well: %v", c.name, right, how, wrong)
		}
	}
}
