package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// limits is what is known of a function of one number as kernels compute it in float32.
type limits struct {
	// steep is the most by which the function moves where its input moves by 1, for functions that
	// fall and rise; 0 for those that only do one, whose ends of an interval say it.
	steep float64
	// off bounds the error of a kernel for an exact input x, where y is the result. The rounding
	// of the result is among it. Nil is none.
	off func(x, y float64) float64
	// part is that of e^|x| which the result is where it is large: where e^|x| overflows, so may the result. 0 is none.
	part float64
}

// relative is an error of so many u of the result.
func relative(times float64) func(x, y float64) float64 {
	return func(x, y float64) float64 { return float64(times*u) * math.Abs(y) }
}

// exponential is the relative error of e^x. A library is within 2 ulp, 5u. Kernels compute it as
// 2^t with t the rounded product of x and the float32 number next to log2 e, which is 1.336e-8 low
// in proportion: a half ulp of t is up to u|x|, and the rest 0.224 u|x|.
func exponential(x float64) float64 { return (5 + 1.224*math.Abs(x)) * u }

// logistic is the relative error of 1/(1 + e^-x), with a division of 2.5 ulp.
func logistic(x, y float64) float64 { return exponential(x)*(1-y) + 7*u }

// minusOne is the error of a multiple y of e^x - 1 below 0, where kernels subtract, and of one of x above.
func minusOne(x, y float64) float64 {
	off := 3.0 * u
	if x < 0 {
		off += exponential(x) * max(1, -elem.Exp(x)/elem.Expm1(x))
	}
	return off * math.Abs(y)
}

// tiny is where e^-x is no float32 number any more: 1/(1 + e^-x) is 0 there.
const tiny = -87.3

func logisticOff(x, y float64) float64 {
	if x < tiny {
		return math.Abs(y)
	}
	return logistic(x, y) * math.Abs(y)
}

// swishOff is the error of x/(1 + e^-t), t = alpha x, which the share y/x tells: t is rounded once more
// than in silu.
func swishOff(x, y float64) float64 {
	share := y / x
	switch {
	case x == 0 || share == 1:
		return 9 * u * math.Abs(y)
	case !(share > 0x1p-126) || share > 1:
		return math.Abs(y)
	}
	t := elem.Log(share / (1 - share))
	return (logistic(t, share) + float64(u*math.Abs(t))*(1-share) + u) * math.Abs(y)
}

// kernels are the functions. The errors of libraries are those that vendors state (CUDA C++
// Programming Guide, mathematical functions; HIP's math API), the greater of them, for the default
// accuracy: not for fast math.
var kernels = map[string]limits{
	"floor": {}, "ceil": {}, "round": {}, "trunc": {}, "hardshrink": {}, // which never fall: their ends say it
	"isnan": {}, "isinf": {}, "logical_not": {}, "hard_sigmoid": {}, // whose parameters say more: see limitsOf
	"abs": {steep: 1}, "neg": {}, "relu": {}, "clip": {}, "hardtanh": {}, "relu6": {}, "sign": {}, "none": {},
	"square": {steep: -1, off: relative(1)},
	"exp":    {off: func(x, y float64) float64 { return exponential(x) * y }},
	// as e^(x ln 2), as XLA has it: the product is rounded, and float32's ln 2 is 0.05 u off
	"exp2":       {off: func(x, y float64) float64 { return (5 + 1.05*math.Ln2*math.Abs(x)) * u * y }},
	"expm1":      {off: func(x, y float64) float64 { return exponential(min(x, 0)) * math.Abs(y) }},
	"log":        {off: relative(6)},
	"log2":       {off: relative(6)},
	"log10":      {off: relative(6)},
	"log1p":      {off: relative(6)},
	"asin":       {off: relative(6)},
	"acos":       {off: relative(6)},
	"asinh":      {off: relative(8)},
	"acosh":      {off: relative(10)},
	"sinh":       {off: func(x, y float64) float64 { return (exponential(x) + 5*u) * math.Abs(y) }, part: .5},
	"cosh":       {off: func(x, y float64) float64 { return (exponential(x) + 5*u) * y }, part: .5},
	"sqrt":       {off: relative(3)},
	"rsqrt":      {off: relative(5)},
	"reciprocal": {off: relative(3)},
	// the next number that it has
	"coarse_exp": {off: func(x, y float64) float64 { return (128 + 1.224*math.Abs(x)) * u * y }},
	"sin":        {steep: 1, off: relative(5)},
	"cos":        {steep: 1, off: relative(5)},
	"tan":        {off: relative(10)},
	"atan":       {off: relative(6)},
	"atan2":      {off: relative(6)},
	// 7.1.26 of Abramowitz and Stegun, which is 1.5e-7 off: 2.5u. About 0, where 1 is subtracted, 1/(1 + px) has errors
	// of 2u, by which the polynomial moves 3.4 times as far, its own steps 4.2u, and e^-x^2 1.5u. PyTorch's compiled erf
	// is up to 9.5u off.
	"erf": {off: func(x, y float64) float64 { return 15 * u }},
	// By erf, or by a function of its own: the rounding of x^2 in its e^-x^2 is at most 2x^2 u, of a number below 0 in
	// what is left to 2, and 16u for the rest is set, not derived.
	"erfc": {steep: 1.13, off: func(x, y float64) float64 {
		off := max(16*u*y, 15*u*max(0, min(1, 1-math.Abs(x))))
		if tail := min(y, 2-y); tail > 0 {
			off = max(off, 16*u*y+float64(2*x*x*u)*tail)
		}
		return off
	}},
	"sigmoid":     {off: logisticOff},
	"softplus":    {off: func(x, y float64) float64 { return (exponential(min(x, 0)) + 8*u) * math.Abs(y) }},
	"elu":         {off: minusOne},
	"celu":        {off: minusOne},
	"selu":        {off: minusOne},
	"leaky_relu":  {off: relative(1)},
	"softshrink":  {off: relative(1)},
	"hardsigmoid": {off: func(x, y float64) float64 { return within(y, 2*u*(math.Abs(x)+3)/6) }},
	"hardswish":   {steep: 1.5, off: func(x, y float64) float64 { return 4 * u * math.Abs(x) }},
	"softsign":    {off: relative(4)},
	"swish":       {steep: 1.1, off: swishOff},
	// by tanh(log(1 + e^x)): of an e^x that is no normal number a polynomial is as coarse as the least ones
	"mish": {steep: 1.1, off: func(x, y float64) float64 {
		if x < tiny {
			return math.Abs(y)
		}
		return (exponential(min(x, 0)) + 16*u) * math.Abs(y)
	}},
	// through the logistic function too, as 2/(1 + e^-2x) - 1
	"tanh": {off: func(x, y float64) float64 { return 6 * u * max(math.Abs(y), .5) }},
	"silu": {steep: 1.1, off: func(x, y float64) float64 {
		if x < tiny {
			return math.Abs(y)
		}
		return (logistic(x, y/x) + u) * math.Abs(y)
	}},
	// 1/2 + tanh(x/2)/2: half of what tanh is off by, and the sum's rounding; a rational function's own error
	// is below u, and beyond 18 it may be held there, where 1/(1 + e^18) is 1.5e-8
	"symmetric sigmoid": {off: func(x, y float64) float64 { return 4 * u }},
	"symmetric silu":    {steep: 1.1, off: func(x, y float64) float64 { return 4*u*math.Abs(x) + u*math.Abs(y) }},
	// e^x - 1, as PyTorch's compiled one: what e^x is off by does not become smaller near 0
	"symmetric expm1": {off: func(x, y float64) float64 { return exponential(x)*(y+1) + u*math.Abs(y) }},
	// by lg2.approx of PTX, 2^-21.41 off between 1/2 and 2 and 3 ulp beyond, as XLA takes it for half numbers on GPUs
	"symmetric log":   {off: func(x, y float64) float64 { return max(7*u*math.Abs(y), math.Ln2*0x1.82p-22) }},
	"symmetric swish": {steep: 1.1, off: func(x, y float64) float64 { return 4*u*math.Abs(x) + u*math.Abs(y) }},
	// x + log(1 + e^-x), as OpenVINO has it: below 0 the logarithm is |x| + y
	"symmetric softplus": {off: func(x, y float64) float64 {
		return exponential(x) + 6*u*(math.Abs(x)+y) + u*y
	}},
	// x (1 - 2/((1 + e^x)^2 + 1)): two roundings that are squared, of the square, of the sum, and a division of 2.5 ulp
	"symmetric mish": {steep: 1.1, off: func(x, y float64) float64 {
		return math.Abs(x)*(11*u+2*exponential(min(x, 0))*elem.Exp(min(x, 0))) + u*math.Abs(y)
	}},
	// x/2 (1 + erf z), z = x/sqrt 2: below 0 the sum cancels. PyTorch 2.9's own erf, in vectors on a
	// CPU, is up to 11.8u off in GELU.
	"gelu": {steep: 1.13, off: func(x, y float64) float64 {
		z := math.Abs(x) / math.Sqrt2
		return .5*math.Abs(x)*u*(13+1.5*z*2/math.Sqrt(math.Pi)*elem.Exp(-z*z)) + 2*u*math.Abs(y)
	}},
	"gelu_tanh": {steep: 1.13, off: func(x, y float64) float64 {
		w := math.Sqrt(2/math.Pi) * math.Abs(x+0.044715*x*x*x)
		t := elem.Tanh(w)
		return .5*math.Abs(x)*u*(6+5*w*(1-t*t)) + 2*u*math.Abs(y)
	}},
}

// within is an error of a result from 0 to 1, which has none where it is cut off.
func within(y, off float64) float64 {
	if y == 0 || y == 1 {
		return 0
	}
	return off
}

// nameOf is a function's name in kernels.
func nameOf(op graph.Op) string {
	if a, is := op.(graph.Act); is && a.Func == act.GELUTanh {
		return "gelu_tanh"
	} else if is && a.Func == act.Identity {
		return "none"
	}
	return op.Name()
}

// limitsOf returns what is known of a function with its parameters.
func limitsOf(op graph.Op) (limits, bool) {
	k, ok := kernels[nameOf(op)]
	if f, is := op.(graph.Unary); is && f.Name() == "hard_sigmoid" {
		p := f.Params()
		alpha, beta := math.Abs(p["alpha"]), math.Abs(p["beta"])
		// the product's rounding and the sum's, or those of hardsigmoid's x + beta/alpha and its product
		k.off = func(x, y float64) float64 { return within(y, 2*u*(float64(alpha*math.Abs(x))+beta)) }
	}
	return k, ok
}

// function bounds a function of one number.
func function(op graph.Op, in ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	name := nameOf(op)
	k, ok := limitsOf(op)
	if !ok {
		if in.r == nil && v.Format == fp16.Int64 {
			return []ball{{v: v, exact: true}}, nil
		}
		return nil, fmt.Errorf("%s: %w", name, errNotJudged)
	}
	if v.Format == fp16.Int64 {
		return []ball{{v: v, exact: true}}, nil
	}
	out := ball{v: v, exact: k.off == nil}
	if k.off != nil {
		out.r, out.sigma = fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	} else if in.r != nil {
		out.r = fresh(fp16.Float64, v.Shape...)
	}
	var lo, hi *tensor.Tensor
	if in.r != nil && k.steep == 0 && !grows[name] {
		var err error
		below, above := moved(in, -1), moved(in, +1)
		if lo, err = one(op, below); err != nil {
			return nil, err
		}
		if hi, err = one(op, above); err != nil {
			return nil, err
		}
		release(below, above)
	}
	greatest := math.MaxFloat32
	if acc.double {
		greatest = math.MaxFloat64
	}
	for i, y := range v.Data {
		x := in.v.Data[i]
		single := float64(float32(y)) == y
		if k.off != nil && y-y == 0 && x-x == 0 && !(single && oneRounding[name]) {
			e := k.off(x, y)
			out.sigma.Data[i] = typical * e // a flush, which is all or nothing, is simulated apart
			if acc.keeps && subnormal(y) {
				out.sigma.Data[i] += typical * acc.loses(y)
			}
			// at 0 kernels have 0, 1 and 1/2, and not all the number next to softplus's ln 2
			if out.r.Data[i] = e + acc.loses(y); x == 0 && single {
				out.r.Data[i], out.sigma.Data[i] = 0, 0
			}
			if grows[name] && !acc.double && y >= leastNormal && y < leastPower {
				out.r.Data[i], out.sigma.Data[i] = max(out.r.Data[i], y), y
			}
			if whole := math.Abs(y) / k.part; k.part > 0 && whole > greatest {
				out.r.Data[i] = whole
			}
			if name == "coarse_exp" { // which is computed as here, but for its argument's rounding
				out.sigma.Data[i] = exponential(x) * y
			}
		}
		if in.r == nil {
			continue
		}
		var e float64
		switch r := in.r.Data[i]; {
		case r == 0:
		case k.steep < 0: // square
			e = float64(2*math.Abs(x)*r) + float64(r*r)
		case k.steep > 0:
			e = k.steep * r
		case grows[name]: // e^r - 1 <= r + r^2 up to 1
			if e = y * r * (1 + r); r > 1 {
				e = y * elem.Exp(r)
			}
		default:
			if e = max(math.Abs(hi.Data[i]-y), math.Abs(lo.Data[i]-y)); e != e {
				e = math.Inf(1)
			}
		}
		out.r.Data[i] += e * (1 + 0x1p-20)
	}
	release(lo, hi)
	return []ball{out}, nil
}

// leastPower is 2^-125.5: below it n is -126 in e^x = 2^n e^r, r within half of ln 2, and libraries that make 2^n of
// twice 2^(n-1), as OpenVINO, have 0.
const leastPower = math.Sqrt2 * 0x1p-126

// grows are functions that grow as e^x.
var grows = map[string]bool{"exp": true, "coarse_exp": true}

// oneRounding lists functions that devices compute with one rounding, and so without an error where the result is a
// float32 number. A root is not one: Triton computes it as x times the reciprocal root, so that the root of 9 may be
// next to 3.
var oneRounding = map[string]bool{"square": true, "leaky_relu": true}

// moved returns one end of each interval.
func moved(b ball, way float64) *tensor.Tensor {
	t := fresh(fp16.Float64, b.v.Shape...)
	for i, v := range b.v.Data {
		t.Data[i] = v + way*b.r.Data[i]
	}
	return t
}
