package pointwise

import "math"

// The tables of this file are what the tests know of each function of one number: a new one
// has a row in samples and in specials, and in stated if its float64 results have an error.

// sample is a function to be judged: its name and parameters, and a float64 evaluation
// by the standard library with a relative error far below 2^-36. Where that cannot tell
// the rounding, bigref does. The exact functions have a rule instead, but for the sign of
// a zero.
type sample struct {
	name   string
	params map[string]float64
	fast   func(x float64, p map[string]float64) float64
	rule   func(x float64) float64
}

type named = map[string]float64

func of(f func(float64) float64) func(float64, named) float64 {
	return func(x float64, _ named) float64 { return f(x) }
}

func fastSoftplus(x float64, p named) float64 {
	t := p["beta"] * x
	if t > p["threshold"] || t > 700 {
		return x
	}
	return math.Log1p(math.Exp(t)) / p["beta"]
}

func fastSwish(x float64, p named) float64 {
	if t := p["alpha"] * x; t < 0 {
		return x * (math.Exp(t) / (1 + math.Exp(t)))
	}
	return x / (1 + math.Exp(-p["alpha"]*x))
}

func fastELU(x float64, p named) float64 {
	if x > 0 {
		return p["scale"] * x
	}
	return p["alpha"] * p["scale"] * math.Expm1(x)
}

func fastCELU(x float64, p named) float64 {
	if x > 0 {
		return x
	}
	return p["alpha"] * math.Expm1(x/p["alpha"])
}

func fastSoftshrink(l float64) func(float64, named) float64 {
	return of(func(x float64) float64 { return math.Copysign(max(math.Abs(x)-l, 0), x) })
}

func fastLeaky(x float64, p named) float64 {
	if x > 0 {
		return x
	}
	return p["negative_slope"] * x
}

// The product is exact, so the sum is off by one rounding.
func fastHardSigmoid(x float64, p named) float64 {
	return min(max(float64(p["alpha"]*x)+p["beta"], 0), 1)
}

// whole returns the rule that takes x toward zero to a whole number, and one further
// if away says so of what is left.
func whole(away func(n int64, rest float64) bool) func(x float64) float64 {
	return func(x float64) float64 {
		if math.Abs(x) >= 1<<53 {
			return x
		}
		n := int64(x)
		if rest := x - float64(n); away(n, rest) {
			n += int64(math.Copysign(1, rest))
		}
		return float64(n)
	}
}

// between has the zeros of want.
func between(lo, hi float64) func(x float64) float64 {
	return func(x float64) float64 { return min(max(x, lo), hi) }
}

var samples = []sample{
	{"exp", nil, of(math.Exp), nil},
	{"exp2", nil, of(math.Exp2), nil},
	{"expm1", nil, of(math.Expm1), nil},
	{"log", nil, of(math.Log), nil},
	{"log2", nil, of(math.Log2), nil},
	{"log1p", nil, of(math.Log1p), nil},
	{"sqrt", nil, of(math.Sqrt), nil},
	{"rsqrt", nil, of(func(x float64) float64 { return 1 / math.Sqrt(x) }), nil},
	{"reciprocal", nil, of(func(x float64) float64 { return 1 / x }), nil},
	{"square", nil, of(func(x float64) float64 { return x * x }), nil},
	{"sin", nil, of(math.Sin), nil},
	{"cos", nil, of(math.Cos), nil},
	{"tan", nil, of(math.Tan), nil},
	{"atan", nil, of(math.Atan), nil},
	{"erf", nil, of(math.Erf), nil},
	{"abs", nil, nil, func(x float64) float64 { return max(x, -x) }},
	{"neg", nil, nil, func(x float64) float64 { return 0 - x }},
	{"sign", nil, nil, func(x float64) float64 { return x / max(x, -x, 0x1p-150) }},
	{"floor", nil, nil, whole(func(n int64, rest float64) bool { return rest < 0 })},
	{"ceil", nil, nil, whole(func(n int64, rest float64) bool { return rest > 0 })},
	{"trunc", nil, nil, whole(func(n int64, rest float64) bool { return false })},
	{"round", nil, nil, whole(func(n int64, rest float64) bool {
		return math.Abs(rest) > 0.5 || math.Abs(rest) == 0.5 && n%2 != 0
	})},
	{"logical_not", nil, nil, func(x float64) float64 { return 1 - min(max(x, -x)*0x1p150, 1) }},
	{"isnan", nil, nil, func(float64) float64 { return 0 }},
	{"isinf", nil, nil, func(float64) float64 { return 0 }},
	{"sigmoid", nil, of(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }), nil},
	{"softplus", nil, fastSoftplus, nil},
	{"softplus", named{"beta": 0.3, "threshold": inf}, fastSoftplus, nil},
	{"elu", nil, fastELU, nil},
	{"elu", named{"alpha": -0.7, "scale": 1.3}, fastELU, nil},
	{"celu", nil, fastCELU, nil},
	{"celu", named{"alpha": 0.3}, fastCELU, nil},
	{"selu", nil, of(func(x float64) float64 {
		return fastELU(x, named{"scale": 1.0507009873554804934, "alpha": 1.6732632423543772848})
	}), nil},
	{"leaky_relu", nil, fastLeaky, nil},
	{"leaky_relu", named{"negative_slope": -1.7}, fastLeaky, nil},
	{"hardtanh", nil, nil, between(-1, 1)},
	{"hardtanh", named{"min_val": 0.1, "max_val": 6}, nil, between(float64(float32(0.1)), 6)},
	{"clip", nil, nil, between(-inf, inf)},
	{"clip", named{"min": -3}, nil, between(-3, inf)},
	{"clip", named{"min": 2, "max": 1}, nil, func(float64) float64 { return 1 }},
	{"relu6", nil, nil, between(0, 6)},
	{"hardshrink", nil, nil, func(x float64) float64 { return x * min(max(0, math.Ceil(max(x, -x)-0.5)), 1) }},
	{"softshrink", nil, fastSoftshrink(0.5), nil},
	{"softshrink", named{"lambd": 0.01}, fastSoftshrink(float64(float32(0.01))), nil},
	{"hardsigmoid", nil, of(func(x float64) float64 { return min(max(x+3, 0), 6) / 6 }), nil},
	{"hard_sigmoid", nil, fastHardSigmoid, nil},
	{"hard_sigmoid", named{"alpha": 1. / 6, "beta": 0.7}, fastHardSigmoid, nil},
	{"hardswish", nil, of(func(x float64) float64 { return x * (min(max(x+3, 0), 6) / 6) }), nil},
	{"softsign", nil, of(func(x float64) float64 { return x / (1 + math.Abs(x)) }), nil},
	{"swish", nil, fastSwish, nil},
	{"swish", named{"alpha": 1.702}, fastSwish, nil},
	{"swish", named{"alpha": -0.1}, fastSwish, nil},
	{"mish", nil, of(func(x float64) float64 {
		if x > 700 {
			return x
		}
		return x * math.Tanh(math.Log1p(math.Exp(x)))
	}), nil},
	{"log10", nil, of(math.Log10), nil},
	{"sinh", nil, of(math.Sinh), nil},
	{"cosh", nil, of(math.Cosh), nil},
	{"asinh", nil, of(math.Asinh), nil},
	{"acosh", nil, of(math.Acosh), nil},
	{"asin", nil, of(math.Asin), nil},
	{"acos", nil, of(math.Acos), nil},
	{"erfc", nil, of(math.Erfc), nil},
}

// zeroOf returns the zero that an exact function has at x: of x's sign, unless it is here.
func zeroOf(name string, x float64) float64 {
	switch name {
	case "abs", "hardshrink", "sign", "logical_not", "isnan", "isinf":
		return 0
	case "neg":
		return -math.Copysign(0, x)
	case "relu6":
		if x < 0 {
			return 0
		}
	}
	return math.Copysign(0, x)
}

// specials are the table of the package's doc, and values at poles, outside of domains, and
// beyond the range of every format.
var specials = []struct {
	name   string
	params named
	want   [5]float64 // of NaN, -Inf, +Inf, -0, +0
	more   [][2]float64
}{
	{"exp", nil, [5]float64{nan, 0, inf, 1, 1}, [][2]float64{{1e38, inf}, {-1e38, 0}, {800, inf}}},
	{"exp2", nil, [5]float64{nan, 0, inf, 1, 1},
		[][2]float64{{1e38, inf}, {-1e38, 0}, {-3, 0.125}, {1500.5, inf}, {-1500.5, 0}}},
	{"expm1", nil, [5]float64{nan, -1, inf, negZero, 0}, [][2]float64{{1e38, inf}, {-1e38, -1}}},
	{"log", nil, [5]float64{nan, nan, inf, -inf, -inf}, [][2]float64{{1, 0}, {-1, nan}, {-1e-40, nan}}},
	{"log2", nil, [5]float64{nan, nan, inf, -inf, -inf}, [][2]float64{{1, 0}, {0.125, -3}, {0x1p-149, -149}, {-1, nan}}},
	{"log1p", nil, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-1, -inf}, {-2, nan}}},
	{"sqrt", nil, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-1e-40, nan}, {9, 3}}},
	{"rsqrt", nil, [5]float64{nan, nan, 0, -inf, inf}, [][2]float64{{-1, nan}, {16, 0.25}}},
	{"reciprocal", nil, [5]float64{nan, negZero, 0, -inf, inf}, [][2]float64{{-8, -0.125}}},
	{"square", nil, [5]float64{nan, inf, inf, 0, 0}, [][2]float64{{-3, 9}}},
	{"sin", nil, [5]float64{nan, nan, nan, negZero, 0}, nil},
	{"cos", nil, [5]float64{nan, nan, nan, 1, 1}, nil},
	{"tan", nil, [5]float64{nan, nan, nan, negZero, 0}, nil},
	{"atan", nil, [5]float64{nan, -math.Pi / 2, math.Pi / 2, negZero, 0}, [][2]float64{{1e38, math.Pi / 2}}},
	{"erf", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{1e38, 1}, {-9, -1}}},
	{"abs", nil, [5]float64{nan, inf, inf, 0, 0}, nil},
	{"neg", nil, [5]float64{nan, inf, -inf, 0, negZero}, nil},
	{"sign", nil, [5]float64{nan, -1, 1, 0, 0}, [][2]float64{{-0x1p-149, -1}, {0x1p-149, 1}}},
	{"floor", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 0}, {-0.5, -1}, {2.5, 2}}},
	{"ceil", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 1}, {-0.5, negZero}}},
	{"trunc", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.9, 0}, {-0.9, negZero}}},
	{"round", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 0}, {-0.5, negZero}, {1.5, 2}, {-2.5, -2}}},
	{"logical_not", nil, [5]float64{0, 0, 0, 1, 1}, [][2]float64{{0x1p-149, 0}}},
	{"isnan", nil, [5]float64{1, 0, 0, 0, 0}, nil},
	{"isinf", nil, [5]float64{0, 1, 1, 0, 0}, [][2]float64{{math.MaxFloat32, 0}}},
	{"isinf", named{"detect_positive": 0}, [5]float64{0, 1, 0, 0, 0}, nil},
	{"isinf", named{"detect_negative": 0}, [5]float64{0, 0, 1, 0, 0}, nil},
	{"sigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{1e38, 1}, {-1e38, 0}}},
	{"softplus", nil, [5]float64{nan, 0, inf, math.Ln2, math.Ln2}, [][2]float64{{1e30, 1e30}, {-1e38, 0}}},
	{"softplus", named{"beta": 2, "threshold": inf}, [5]float64{nan, 0, inf, math.Ln2 / 2, math.Ln2 / 2},
		[][2]float64{{1e30, 1e30}, {-1e38, 0}}},
	{"elu", nil, [5]float64{nan, -1, inf, negZero, 0}, [][2]float64{{-1e38, -1}, {5, 5}}},
	{"elu", named{"alpha": 0, "scale": 2}, [5]float64{nan, negZero, inf, negZero, 0},
		[][2]float64{{-3, negZero}, {5, 10}}},
	{"elu", named{"alpha": -3}, [5]float64{nan, 3, inf, 0, negZero}, [][2]float64{{-1e38, 3}}},
	{"celu", named{"alpha": 2}, [5]float64{nan, -2, inf, negZero, 0}, [][2]float64{{-1e38, -2}, {5, 5}}},
	{"selu", nil, [5]float64{nan, -seluScaleAlpha, inf, negZero, 0}, [][2]float64{{-1e38, -seluScaleAlpha}}},
	{"leaky_relu", nil, [5]float64{nan, -inf, inf, negZero, 0}, nil},
	{"leaky_relu", named{"negative_slope": 0}, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-3, negZero}}},
	{"leaky_relu", named{"negative_slope": -2}, [5]float64{nan, inf, inf, 0, negZero}, [][2]float64{{-3, 6}}},
	{"hardtanh", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{-3, -1}, {0.5, 0.5}}},
	{"clip", nil, [5]float64{nan, -inf, inf, negZero, 0}, nil},
	{"clip", named{"min": 1, "max": -1}, [5]float64{nan, -1, -1, -1, -1}, [][2]float64{{0.5, -1}}},
	{"relu6", nil, [5]float64{nan, 0, 6, negZero, 0}, [][2]float64{{-0x1p-149, 0}, {7, 6}}},
	{"hardshrink", nil, [5]float64{nan, -inf, inf, 0, 0},
		[][2]float64{{0.5, 0}, {-0.5, 0}, {-0.625, -0.625}, {0.75, 0.75}}},
	{"hardshrink", named{"lambd": -1}, [5]float64{nan, -inf, inf, negZero, 0}, nil},
	{"softshrink", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 0}, {-0.5, negZero}, {-0.625, -0.125}}},
	{"softshrink", named{"lambd": 0}, [5]float64{nan, -inf, inf, negZero, 0},
		[][2]float64{{0x1p-149, 0x1p-149}, {-3, -3}}},
	{"hardsigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{-3, 0}, {3, 1}, {-1.5, 0.25}}},
	{"hard_sigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{1e38, 1}, {-1e38, 0}}},
	{"hard_sigmoid", named{"alpha": 0}, [5]float64{nan, nan, nan, 0.5, 0.5}, nil},
	{"hardswish", nil, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{-3, negZero}, {-4, negZero}, {4, 4}}},
	{"softsign", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{1e38, 1}, {1, 0.5}}},
	{"swish", nil, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{1e38, 1e38}, {-1e38, negZero}}},
	{"swish", named{"alpha": -2}, [5]float64{nan, -inf, 0, negZero, 0}, [][2]float64{{1e38, 0}, {-1e38, -1e38}}},
	{"swish", named{"alpha": 0}, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{3, 1.5}}},
	{"mish", nil, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{1e38, 1e38}, {-1e38, negZero}}},
	{"log10", nil, [5]float64{nan, nan, inf, -inf, -inf}, [][2]float64{{1, 0}, {1000, 3}, {1e10, 10}, {-1, nan}}},
	{"sinh", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{1e38, inf}, {-1e38, -inf}}},
	{"cosh", nil, [5]float64{nan, inf, inf, 1, 1}, [][2]float64{{1e38, inf}, {-1e38, inf}}},
	{"asinh", nil, [5]float64{nan, -inf, inf, negZero, 0}, nil},
	{"acosh", nil, [5]float64{nan, nan, inf, nan, nan}, [][2]float64{{1, 0}, {0.9, nan}, {-3, nan}}},
	{"asin", nil, [5]float64{nan, nan, nan, negZero, 0}, [][2]float64{{1, math.Pi / 2}, {-1, -math.Pi / 2}, {2, nan}}},
	{"acos", nil, [5]float64{nan, nan, nan, math.Pi / 2, math.Pi / 2}, [][2]float64{{1, 0}, {-1, math.Pi}, {2, nan}}},
	{"erfc", nil, [5]float64{nan, 2, 0, 1, 1}, [][2]float64{{1e38, 0}, {-1e38, 2}}},
}

// stated are the errors in float64 of the package's doc, in units of 2^-53, of the functions that
// have one.
var stated = map[string]float64{"exp": 1.1, "exp2": 1.1, "expm1": 8, "log": 1.1, "log2": 3.1, "log1p": 1.1,
	"sqrt": 1, "rsqrt": 2.1, "reciprocal": 1, "square": 1, "sin": 1.7, "cos": 1.7, "tan": 4.5, "atan": 8, "erf": 5.3,
	"sigmoid": 3.2, "softplus": 5.3, "elu": 10.1, "celu": 10.1, "selu": 10.1, "leaky_relu": 1, "softshrink": 1,
	"hardsigmoid": 1.1, "hard_sigmoid": 0, "hardswish": 1.1, "softsign": 2.1, "swish": 4.5, "mish": 8,
	"log10": 3.1, "sinh": 10, "cosh": 3.2, "asinh": 6.6, "acosh": 4.6, "asin": 10.5, "acos": 10.5, "erfc": 4.6}
