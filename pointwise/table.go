package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
)

// functions is the table of all functions of one number. A new one is a row here, an
// evaluation with its bound, the settlement in internal/exact, and a judge.
var functions = []function{
	{"exp", nil, to(0, inf), exp, plain(exact.Exp)},
	{"exp2", nil, to(0, inf), exp2, plain(exact.Exp2)},
	{"expm1", nil, to(-1, inf), expm1, plain(exact.Expm1)},
	{"log", nil, to(nan, inf), log, plain(exact.Log)},
	{"log2", nil, to(nan, inf), log2, plain(exact.Log2)},
	{"log1p", nil, to(nan, inf), log1p, plain(exact.Log1p)},
	{"sqrt", nil, nil, sqrt, nil},
	{"rsqrt", nil, to(nan, 0), rsqrt, plain(exact.Rsqrt)},
	{"reciprocal", nil, nil, reciprocal, nil},
	{"square", nil, nil, square, nil},
	{"sin", nil, to(nan, nan), sin, plain(exact.Sin)},
	{"cos", nil, to(nan, nan), cos, plain(exact.Cos)},
	{"tan", nil, to(nan, nan), tan, plain(exact.Tan)},
	{"atan", nil, to(-math.Pi/2, math.Pi/2), atan, plain(settleAtan)},
	{"erf", nil, to(-1, 1), erf, plain(exact.Erf)},

	{"abs", nil, nil, abs, nil},
	{"neg", nil, nil, neg, nil},
	{"sign", nil, nil, sign, nil},
	{"floor", nil, nil, floor, nil},
	{"ceil", nil, nil, ceil, nil},
	{"trunc", nil, nil, trunc, nil},
	{"round", nil, nil, round, nil},
	{"logical_not", nil, nil, logicalNot, nil},

	{"sigmoid", nil, to(0, 1), sigmoid, plain(exact.Sigmoid)},
	{"softplus", []param{{"beta", 1, positive}, {"threshold", 20, extended}}, to(0, inf), softplus, settleSoftplus},
	{"elu", []param{{"alpha", 1, number}, {"scale", 1, number}}, eluLimits, elu, settleELU},
	{"celu", []param{{"alpha", 1, positive}}, celuLimits, celu, settleCELU},
	{"selu", nil, to(-seluScaleAlpha, inf), selu, plain(exact.SELU)},
	{"leaky_relu", []param{{"negative_slope", 0.01, number}}, nil, leakyReLU, nil},
	{"hardtanh", []param{{"min_val", -1, extended}, {"max_val", 1, extended}}, nil, clip, nil},
	{"clip", []param{{"min", -inf, extended}, {"max", inf, extended}}, nil, clip, nil},
	{"relu6", nil, nil, relu6, nil},
	{"hardsigmoid", nil, nil, hardsigmoid, settleHardsigmoid},
	{"hard_sigmoid", []param{{"alpha", 0.2, number}, {"beta", 0.5, number}}, nil, hardSigmoid, settleHardSigmoid},
	{"hardswish", nil, nil, hardswish, settleHardswish},
	{"softsign", nil, to(-1, 1), softsign, settleSoftsign},
	{"mish", nil, to(negZero, inf), mish, plain(exact.Mish)},
}
