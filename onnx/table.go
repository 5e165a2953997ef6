package onnx

import (
	"sort"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// operations says how each of ONNX's operations is mapped.
var operations map[string]mapping

func init() {
	operations = map[string]mapping{
		// one number at a time
		"Abs": unary("abs"), "Neg": unary("neg"), "Sign": unary("sign"), "Floor": unary("floor"), "Ceil": unary("ceil"),
		"Round": unary("round"),
		"Sqrt":  unary("sqrt"), "Reciprocal": unary("reciprocal"), "Exp": unary("exp"), "Log": unary("log"),
		"Erf": unary("erf"),
		"Sin": unary("sin"), "Cos": unary("cos"), "Tan": unary("tan"), "Atan": unary("atan"),
		"Asin": unary("asin"), "Acos": unary("acos"), "Sinh": unary("sinh"), "Cosh": unary("cosh"), "Asinh": unary("asinh"),
		"Acosh":   unary("acosh"),
		"Sigmoid": unary("sigmoid"), "Softsign": unary("softsign"), "Mish": unary("mish"),
		"HardSwish": unary("hardswish"), "Softplus": opSoftplus,
		"Elu": unary("elu", "alpha", "alpha", 1.0), "Celu": unary("celu", "alpha", "alpha", 1.0),
		"LeakyRelu": unary("leaky_relu", "alpha", "negative_slope", 0.01),
		"Selu": unary("elu", "alpha", "alpha", float32Number(1.67326319217681884765625), "gamma", "scale",
			float32Number(1.05070102214813232421875)),
		"HardSigmoid": unary("hard_sigmoid", "alpha", "alpha", 0.2, "beta", "beta", 0.5),
		"Tanh":        activation(act.Tanh), "Relu": activation(act.ReLU), "Gelu": opGelu, "Swish": opSwish,
		"Clip": opClip, "Not": truth(unary("logical_not")), "IsNaN": truth(unary("isnan")), "IsInf": truth(opIsInf),
		"ThresholdedRelu": opThresholdedRelu,
		// two, and more
		"Add": wrapping(pairwise(pointwise.Add)), "Sub": wrapping(pairwise(pointwise.Sub)),
		"Mul": wrapping(pairwise(pointwise.Mul)), "Div": opDiv, "Mod": opMod, "Pow": opPow, "PRelu": opPRelu,
		"Equal": truth(pairwise(pointwise.Equal)), "Less": truth(pairwise(pointwise.Less)),
		"Greater":     truth(pairwise(pointwise.Greater)),
		"LessOrEqual": truth(pairwise(pointwise.LessEqual)), "GreaterOrEqual": truth(pairwise(pointwise.GreaterEqual)),
		"And": truth(pairwise(pointwise.And)), "Or": truth(pairwise(pointwise.Or)), "Xor": truth(pairwise(pointwise.Xor)),
		"Max": each(pointwise.Maximum), "Min": each(pointwise.Minimum), "Sum": wrapping(opSum),
		"Mean": opMean, "Where": opWhere, "Cast": opCast, "CastLike": opCastLike, "QuantizeLinear": opQuantize,
		"DequantizeLinear": opDequantize, "DynamicQuantizeLinear": opDynamicQuantize,
		// what moves numbers
		"Identity": opIdentity, "Dropout": opDropout, "Reshape": opReshape, "Flatten": opFlatten,
		"Transpose": opTranspose, "Squeeze": opSqueeze, "Unsqueeze": opUnsqueeze,
		"Expand": opExpand, "Tile": opTile, "Concat": opConcat, "Split": opSplit, "Slice": opSlice, "Pad": opPad,
		"DepthToSpace": opDepthToSpace, "SpaceToDepth": opSpaceToDepth, "Trilu": opTrilu,
		"Gather": opGather, "GatherElements": opGatherElements, "GatherND": opGatherND,
		"ScatterElements": opScatterElements, "Scatter": opScatterElements, "ScatterND": opScatterND,
		"OneHot": opOneHot,
		// what is known
		"Constant": opConstant, "ConstantOfShape": opConstantOfShape, "Shape": opShape, "Size": opSize,
		"Range": opRange, "EyeLike": opEyeLike, "NonZero": opNonZero, "Compress": opCompress, "Unique": opUnique,
		"MelWeightMatrix": opMelWeightMatrix, "If": opIf, "Scan": opScan, "Loop": opLoop,
		// sums, orders, norms
		"ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"), "ReduceProd": reduction("prod"),
		"ReduceMax": reduction("amax"), "ReduceMin": reduction("amin"), "ReduceLogSumExp": reduction("logsumexp"),
		"ReduceLogSum": opReduceLogSum,
		"ReduceL1":     norms(1), "ReduceL2": norms(2), "ReduceSumSquare": opReduceSumSquare,
		"ArgMax": argMax(false), "ArgMin": argMax(true), "TopK": opTopK, "CumSum": opCumSum,
		"Softmax": softmax(false), "LogSoftmax": softmax(true), "Hardmax": opHardmax,
		"LayerNormalization": opLayerNorm, "RMSNormalization": opRMSNorm, "SimplifiedLayerNormalization": opRMSNorm,
		"InstanceNormalization": opInstanceNorm, "GroupNormalization": opGroupNorm,
		"BatchNormalization": opBatchNorm, "MeanVarianceNormalization": opMeanVariance,
		"LpNormalization": opLpNormalization,
		// products
		"Conv": opConv, "ConvTranspose": opConvTranspose, "Gemm": opGemm, "MatMul": opMatMul, "Einsum": opEinsum,
		"Attention": opAttention, "RotaryEmbedding": opRotary, "DFT": opDFT, "STFT": opSTFT,
		"MatMulInteger": opMatMulInteger, "ConvInteger": opConvInteger, "QLinearMatMul": opQLinearMatMul,
		"QLinearConv": opQLinearConv,
		// steps in time
		"RNN": opRNN, "LSTM": opLSTM, "GRU": opGRU,
		// windows
		"MaxPool": opMaxPool, "AveragePool": opAveragePool, "GlobalAveragePool": global("mean"),
		"GlobalMaxPool": global("amax"), "LpPool": opLpPool, "GlobalLpPool": opGlobalLpPool, "Resize": opResize,
		"Upsample": opUpsample, "GridSample": opGridSample, "LRN": opLRN, "ReverseSequence": opReverseSequence,
		// lists of tensors
		"SequenceConstruct": opSequenceConstruct, "SequenceEmpty": opSequenceEmpty, "SequenceAt": opSequenceAt,
		"SequenceInsert": opSequenceInsert,
		"SequenceErase":  opSequenceErase, "SequenceLength": opSequenceLength,
		"ConcatFromSequence": opConcatFromSequence, "SplitToSequence": opSplitToSequence,
	}
	for _, all := range []map[string]mapping{quantizedOperations(), fusedOperations(), attentions()} {
		for name, f := range all {
			operations[microsoft+name] = f
		}
	}
}

// microsoft comes before the names of ONNX Runtime's own operations.
const microsoft = "com.microsoft."

// Operations returns the names of ONNX's operations that are read, sorted, and of ONNX Runtime's own. Of some not all
// attributes are.
func Operations() []string {
	var names []string
	for name := range operations {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func float32Number(v float64) float64 { return float64(float32(v)) }

// one returns a single output.
func one(v int) []int { return []int{v} }

// unary maps a function of one number. Of its parameters follow ONNX's name, the graph's and
// the default.
func unary(name string, parameters ...any) mapping {
	return func(c *call) []int { return c.unary(name, parameters) }
}

func (c *call) unary(name string, parameters []any) []int {
	given := map[string]float64{}
	for i := 0; i < len(parameters); i += 3 {
		given[parameters[i+1].(string)] = c.float(parameters[i].(string), float32Number(parameters[i+2].(float64)))
	}
	return one(c.function(name, given, c.arg(0)))
}

// activation maps one of package act.
func activation(f act.Func) mapping {
	return func(c *call) []int { return one(c.add(graph.Act{Func: f}, c.arg(0))) }
}

// pairwise maps an operation on two numbers.
func pairwise(op pointwise.Op) mapping {
	return func(c *call) []int { return one(c.add(graph.Binary{Of: op}, c.arg(0), c.arg(1))) }
}

// truth maps what gives truths.
func truth(f mapping) mapping {
	return func(c *call) []int {
		out := f(c)
		for _, v := range out {
			c.as(v, Bool)
		}
		return out
	}
}

// wrapping maps what leaves the range of whole numbers: of types shorter than 64 bits the low
// bits count.
func wrapping(f mapping) mapping {
	return func(c *call) []int {
		out := f(c)
		for k, v := range out {
			if d := c.dtype(v); c.err == nil && d.whole() && dtypes[d].bits < 64 {
				out[k] = c.as(c.add(graph.Cast{Dtype: d.String()}, v), d)
			}
		}
		return out
	}
}

// each maps an operation on two numbers that ONNX has on any number of them.
func each(op pointwise.Op) mapping {
	return func(c *call) []int {
		v := c.arg(0)
		for i := 1; i < len(c.in); i++ {
			v = c.add(graph.Binary{Of: op}, v, c.arg(i))
		}
		return one(v)
	}
}
