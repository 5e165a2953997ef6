package layers

import (
	"iter"
	"math"

	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// actAnswers: float32 evaluations of a function of one number, z = x/sqrt(2),
// w = sqrt(2/pi) |x + 0.044715 x^3|, t = tanh(w); errors of libraries are those that
// vendors state (CUDA C++ Programming Guide, HIP math API), n ulp being (2n+1)u:
//
//	relu, none   exact
//	tanh         2 ulp; or 2/(1+e^-2x) - 1, of which the quotient is off as SiLU's is,
//	             and the difference rounds
//	silu         x/(1+e^-x) of an e^-x that is 2 ulp off and a quotient, or a product with an
//	             inverse, that is IEEE's; or by powers of 2, see siluError. -0 where e^-x overflows, x < -88.7, or
//	             where its inverse is subnormal or nearly, x < -86.6 (ln 2^125). Or with
//	             a logistic function that is a fraction of polynomials, as ONNX Runtime's
//	             is, off by 4u of 1 wherever it is
//	gelu         x/2 (1+erf z): erf is off by 13u (formula 7.1.26 of Abramowitz and
//	             Stegun, which vector libraries use, has 2.5u and its roundings), and by
//	             1.5u |z| erf'(z) for the rounding of z and of its constant
//	gelu_tanh    x/2 (1+tanh w): 13u as 1 - 2/(1+e^2w), 5u w (1-t^2) for six roundings of w
//
// Where 1+erf cancels, the error is absolute and may be all of the result. An
// input that is known to within b only adds L b, L the greatest slope.
//
// PyTorch 1.13's CPU computes SiLU and tanh-GELU in bfloat16, rounding every
// operation; under its autocast that is an answer too.
//
// Of a SiLU that is not recorded nothing tells how it was formed: the narrower of its
// evaluations is none of its answers.
func (g *layerGate) actAnswers(n *operator.Node, in layerValue, got *tensor.Tensor) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		x := in.Tensor
		exact := tensor.Like(x)
		act.Forward(exact, x, n.Act)
		all := g.evaluations(n.Act)
		if n.Act == act.SiLU && got == nil {
			all = all[1:]
			all[0].how = ""
		}
		for _, e := range all {
			if !yield(g.evaluated(e, in, exact.Data)) {
				return
			}
		}
		if a := g.narrowAct(n.Act, in); a != nil {
			yield(a)
		}
	}
}

// evaluation is a way in which kernels compute a function: how far they may be from its
// value y at x, and the standard deviation of that.
type evaluation struct {
	how   string
	slope float64 // the greatest of the function
	off   func(x, y float64) (bound, sd float64)
}

func (g *layerGate) evaluations(f act.Func) []evaluation {
	u := g.u
	usual := func(x, y float64) float64 { return u * (math.Abs(x)/2 + math.Abs(y)) }
	switch f {
	case act.GELU:
		return []evaluation{{"", 1.129, func(x, y float64) (float64, float64) {
			z := math.Abs(x) / math.Sqrt2
			return u*math.Abs(x)/2*(13+float64(1.5*z*2/math.Sqrt(math.Pi)*elem.Exp(-z*z))) +
				float64(2*u*math.Abs(y)), usual(x, y)
		}}}
	case act.GELUTanh:
		return []evaluation{{"", 1.13, func(x, y float64) (float64, float64) {
			w := math.Sqrt(2/math.Pi) * math.Abs(x+float64(0.044715*x*x*x))
			t := elem.Tanh(w)
			return u*math.Abs(x)/2*(13+float64(5*w*(1-float64(t*t)))) + float64(2*u*math.Abs(y)), usual(x, y)
		}}}
	case act.SiLU:
		silu := func(relative func(x float64) float64) func(x, y float64) (float64, float64) {
			return func(x, y float64) (float64, float64) {
				v := math.Abs(y)
				bound := relative(x) * v
				sd := max(bound/8, u*v) // the share that one ulp has of eight
				if x < -86.6 {
					return bound + v, sd + v
				}
				return bound, sd
			}
		}
		return []evaluation{{"", 1.1, silu(func(x float64) float64 { return float64(5*u/(1+elem.Exp(x))) + float64(3*u) })},
			{"SiLU by 2^(-x log2 e) in float32 or an inexact quotient, as fast math has it", 1.1, silu(g.siluError)},
			{"with a logistic function that is a fraction", 1.1, func(x, y float64) (float64, float64) {
				return u * (4*math.Abs(x) + math.Abs(y)), u * (math.Abs(x) + math.Abs(y))
			}}}
	case act.Tanh:
		return []evaluation{{"", 1, func(x, y float64) (float64, float64) { return 5 * u * math.Abs(y), u * math.Abs(y) }},
			{"tanh as 2/(1 + e^-2x) - 1", 1, func(x, y float64) (float64, float64) {
				bound := float64(g.siluError(2*x)*(1+y)) + float64(u*math.Abs(y))
				return bound, bound / 4
			}}}
	}
	return []evaluation{{"", 1, func(x, y float64) (float64, float64) { return 0, 0 }}}
}

// evaluated is the answer of devices that evaluate a function like that.
func (g *layerGate) evaluated(e evaluation, in layerValue, exact []float64) *answer {
	bound, sd := make([]float64, len(exact)), make([]float64, len(exact))
	for k, y := range exact {
		if bound[k], sd[k] = e.off(in.Data[k], y); bound[k] > 0 {
			bound[k] += tiny
		}
	}
	for k, b := range in.bound {
		bound[k] += float64(e.slope * b)
		sd[k] = measure.RootSum(sd[k], e.slope*in.sd[k])
	}
	return around(join(in.how, e.how), exact, bound, sd)
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
