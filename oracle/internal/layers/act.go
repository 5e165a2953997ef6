package layers

import (
	"iter"
	"math"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// actAnswers: float32 evaluations of a function of one number.
//
//	relu, none   exact
//	tanh         4 ulp
//	silu         x/(1+e^-x): see siluError; -0 where e^-x overflows, x < -88.7, or
//	             where its inverse is subnormal, x < -87.3
//	gelu         x/2 (1+erf): erf off by 1.5e-7 (formula 7.1.26 of Abramowitz
//	             and Stegun, which vector libraries use) and 20 roundings of
//	             numbers below 1.5, all times x/2; and 4 roundings
//	gelu_tanh    the same with tanh: 4 ulp, its argument off by 6 roundings of
//	             at most 0.45
//
// Where 1+erf cancels, the error is absolute and may be all of the result. An
// input that is known to within b only adds L b, L the greatest slope.
//
// PyTorch 1.13's CPU computes SiLU and tanh-GELU in bfloat16, rounding every
// operation; under its autocast that is an answer too.
func (g *layerGate) actAnswers(n *operator.Node, in layerValue) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		x := in.Tensor
		exact := tensor.Like(x)
		act.Forward(exact, x, n.Act)
		bound, sd := make([]float64, len(x.Data)), make([]float64, len(x.Data))
		slope := 1.0
		for k, v := range exact.Data {
			a, v, lost := math.Abs(x.Data[k])/2, math.Abs(v), 0.0
			switch n.Act {
			case act.ReLU, act.Identity:
				continue
			case act.GELU:
				bound[k], slope = float64(a*(1.5e-7+float64(30*g.u)))+float64(6*g.u*v), 1.129
				if g.u < 0x1p-24 {
					bound[k] = float64(40*g.u*a) + float64(6*g.u*v)
				}
			case act.GELUTanh:
				bound[k], slope = float64(12*g.u*a)+float64(6*g.u*v), 1.13
			case act.SiLU:
				bound[k], slope = g.siluError(x.Data[k])*v, 1.1
				sd[k] = bound[k] / 8 // the share that one ulp has of eight
				if x.Data[k] < -87 {
					bound[k], lost = bound[k]+v, v
				}
			case act.Tanh:
				bound[k] = 8 * g.u * v
			}
			if n.Act == act.SiLU || n.Act == act.Tanh {
				a = 0
			}
			bound[k] += tiny
			sd[k] = max(sd[k], g.u*(a+v)) + lost
		}
		if in.bound != nil {
			for k, b := range in.bound {
				bound[k] += float64(slope * b)
				sd[k] = measure.RootSum(sd[k], slope*in.sd[k])
			}
		}
		if !yield(around(in.how, exact.Data, bound, sd)) {
			return
		}
		if a := g.narrowAct(n.Act, in); a != nil {
			yield(a)
		}
	}
}

// siluError is how far x/(1+e^-x) may be from exact, relative. Many kernels form e^-x as
// 2^t of the rounded t = -x log2 e (Triton, and CUDA's exp inside), which costs half an
// ulp of t and the error of the constant, both times x; their 2^t is off by 2.5 ulp at
// most, the sum by half of one, and a quotient that is not IEEE's by 2.5:
//
//	(ln 2 ulp(t)/2 + c |x| + 5u) e/(1+e) + u + 5u,   e = e^-x
//
// with c = ln 2 |fl(log2 e) - log2 e|, 1.336e-8 for float32. (CUDA C++ Programming Guide,
// "Mathematical Functions"; PTX ISA, ex2.approx and div.full.)
func (g *layerGate) siluError(x float64) float64 {
	c := 1.336e-8
	if g.u < 0x1p-24 {
		c = g.u
	}
	t := math.Abs(x) * math.Log2E
	_, e := math.Frexp(t)
	ulp := 2 * g.u * math.Ldexp(1, e-1)
	share := 1 / (1 + elem.Exp(x)) // e/(1+e)
	return (math.Ln2*ulp/2+float64(c*math.Abs(x))+float64(5*g.u))*share + float64(6*g.u)
}

// narrowAct is an activation whose every operation rounds to the half type, as
// PyTorch 1.13's CPU has it; nil for others.
func (g *layerGate) narrowAct(f act.Func, in layerValue) *answer {
	if g.mode.Autocast != operator.CPU113 || in.bound != nil {
		return nil
	}
	r := g.mode.Precision.Round
	narrow := map[act.Func]func(x float64) float64{
		act.SiLU: func(x float64) float64 { return x / r(1+r(elem.Exp(-x))) },
		act.GELUTanh: func(x float64) float64 {
			cube := r(r(x*x) * x)
			s := r(r(math.Sqrt(2/math.Pi)) * r(x+r(r(0.044715)*cube)))
			return float64(r(x/2) * r(1+r(elem.Tanh(s))))
		},
	}[f]
	if narrow == nil {
		return nil
	}
	y := make([]float64, len(in.Data))
	for k, x := range in.Data {
		y[k] = narrow(x)
	}
	zero := make([]float64, len(y))
	a := around("every operation of the activation rounds to "+g.mode.Precision.String(), y, zero, make([]float64, len(y)))
	g.own(zero, a.sd, y)
	return around(a.how, y, zero, a.sd)
}

// addAnswers: the exact sum, rounded in float32 or not.
func (g *layerGate) addAnswers(p, q layerValue) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		n := len(p.Data)
		y, bound, sd := make([]float64, n), make([]float64, n), make([]float64, n)
		for k := range y {
			y[k] = p.Data[k] + q.Data[k]
		}
		for _, v := range []layerValue{p, q} {
			for k := range v.bound {
				bound[k] += v.bound[k]
				sd[k] = measure.RootSum(sd[k], v.sd[k])
			}
		}
		g.own(bound, sd, y)
		yield(around(join(p.how, q.how), y, bound, sd))
	}
}
