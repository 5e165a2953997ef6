package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// Form says how kernels compute operations that consist of several: the steps between which
// they hold float32 numbers. All of these are right.
type Form struct {
	// Affine is a norm as x*scale + shift, with the mean inside shift, in place of
	// (x - mean)*scale.
	Affine bool `json:"affine,omitempty"`
	// StoredMean is a batch norm whose variance is about the mean as it is stored, as PyTorch's on a CPU.
	StoredMean bool `json:"stored_mean,omitempty"`
	// OnePass is a variance as mean(x^2) - mean(x)^2.
	OnePass bool `json:"one_pass,omitempty"`
	// Online is an attention that divides by the sum of probabilities after its product with
	// the values.
	Online bool `json:"online,omitempty"`
	// BlockKeys is how many keys such an attention takes at a time: the greatest score so
	// far is subtracted. 0 is all.
	BlockKeys int `json:"block_keys,omitempty"`
	// CoarseExp is an attention's exp as 2^i (1 + f - cubic(f)), within 1.1e-4 of it in proportion, as
	// PyTorch computes it for half numbers on a CPU. Lanes is how many numbers its vectors have, 8 or
	// 16: what is left over at the end of a row has exp itself. 0 is none.
	CoarseExp bool `json:"coarse_exp,omitempty"`
	Lanes     int  `json:"lanes,omitempty"`
	// Composed is an activation, a softmax or a deviation in elementary operations, each of whose results may be
	// rounded.
	Composed bool `json:"composed,omitempty"`
	// Expanded is such an activation whose expm1 is made of exp and tanh, as XLA makes it in float16.
	Expanded bool `json:"expanded,omitempty"`
	// Symmetric is a function whose errors are not smaller where it is: a sigmoid as 1/2 + tanh(x/2)/2, or by a rational
	// function about 1/2, as ONNX Runtime's; a softplus as x + log(1 + e^-x) and a mish as x (1 - ...), as OpenVINO's;
	// expm1 as e^x - 1, as PyTorch's when compiled; a fast logarithm of half numbers, as XLA's on GPUs.
	Symmetric bool `json:"symmetric,omitempty"`
	// ByGreater is a norm of two numbers as the greater size times the root of 1 + (less/greater)^2, as JAX's.
	ByGreater bool `json:"by_greater,omitempty"`
	// BiasAfter is a product that is stored before its bias is added, as by PyTorch on GPUs, and of a linear layer
	// everywhere if its input is strided: whichever products are rounded are.
	BiasAfter bool `json:"bias_after,omitempty"`
	// Parts says how the terms of matrix products are divided into parts whose sums are stored in a half format, as cuBLAS
	// does of long products unless PyTorch's allow_bf16_reduced_precision_reduction, or that of fp16, is switched off.
	Parts    string `json:"parts,omitempty"`
	division division
	// Winograd is the size of the tiles, 2 or 4, of a 3 x 3 convolution by Winograd's method; 0 is none.
	Winograd int `json:"winograd,omitempty"`
	// Taps is a transposed convolution that stores each tap's products and adds up what it stored, as
	// PyTorch does on a CPU.
	Taps bool `json:"taps,omitempty"`
	// Backwards is set if it begins with the last tap, as of images whose channels are stored last.
	Backwards bool `json:"backwards,omitempty"`
	// Powers is how whole powers are multiplied out, "one factor after another" or "by squaring"; "" is one
	// function.
	Powers string `json:"powers,omitempty"`
	// Quotients is how whole quotients, and remainders of them, are made: "after a rounding", "of what the remainder
	// leaves" or "of what the remainder leaves, a half away from 0"; "" is exactly.
	Quotients string `json:"quotients,omitempty"`
	// Operands is the format to which the operands of products are rounded first, tf32
	// (to even), "tf32 ties away", "tf32 truncated" or bfloat16, or one of [Emulations]; "" for none. "tf32 but of
	// linear, matmul" leaves those of these operations in float32, as PyTorch's default does, which has TF32 for
	// convolutions alone, and "but of scores", "weighted" or "probabilities" those of an attention's products.
	Operands string `json:"operands,omitempty"`
	// Singles says of single products of a chain, as of libraries that choose a kernel for each, how their operands are
	// rounded where it is another way; singles has it by node: an index to the ways, from 1 on, or 0.
	Singles string `json:"singles,omitempty"`
	singles string
	// Scaled is what an attention scales before the product of query and key, and rounds: "query", "key", "query by
	// log2 e" for an exp of base 2, or "query and key" by the root each, as PyTorch does without a kernel of its own;
	// "" is the scores.
	Scaled string `json:"scaled,omitempty"`
	// Scalars is the format to which numbers that are written in a graph are rounded first, such as 0.1 in
	// x * 0.1: float16 or bfloat16, as by JAX; "" is float32. "float16 but of products" and "bfloat16 but of
	// products" leave those of mul and div in float32, as PyTorch does on a CPU, and "but of products, leaky_relu" those
	// of an activation too.
	Scalars string `json:"scalars,omitempty"`
	// Reciprocal is set if a number is multiplied by the reciprocal of such a scalar, or of the sum of a softmax in
	// elementary operations, rounded once more, and not divided by it, as XLA makes it.
	Reciprocal bool `json:"reciprocal,omitempty"`
	// Weights is the format to which the weights of a resize along each axis are rounded, as PyTorch's are on a CPU.
	Weights string `json:"weights,omitempty"`
	// Positions is how a resize finds the nearest number in float32: "float32 ratio" by i times the ratio of sizes,
	// "float32 scale" by i over the scale; "" is exact.
	Positions string `json:"positions,omitempty"`
	// Sampled is the half format in which a grid sampler computes positions, weights and sums, step by step, as PyTorch's
	// does on a CPU; "" is float32.
	Sampled string `json:"sampled,omitempty"`
	// Copied is a resize that copies along axes whose size stays, and whose nearest number is each twice along those of
	// twice the size, whatever scale is given, as PyTorch does.
	Copied bool `json:"copied,omitempty"`
	// Sized is a resize by a scale whose corners are those of the whole sizes, as ONNX Runtime aligns them.
	Sized bool `json:"sized,omitempty"`
	// Atomic is the format to which each addition to a place that an index names is rounded, as by atomic additions
	// to half numbers and by PyTorch on a CPU, and each of a running sum, as by PyTorch on GPUs.
	Atomic string `json:"atomic,omitempty"`
	// Accumulate is the format in which sums are kept, float16 or bfloat16; "" is float32. It is never found,
	// only claimed: of a kernel that says nothing it is a fault.
	Accumulate string `json:"accumulate,omitempty"`
	// Double is [Question.Double].
	Double bool `json:"double,omitempty"`
	// written is [Question.Written].
	written bool
	// loses is set if OnePass is claimed, and so whatever it loses.
	loses bool
}

// with is a form that has what another has besides.
func (f Form) with(g Form) Form {
	f.Affine, f.OnePass, f.Symmetric = f.Affine || g.Affine, f.OnePass || g.OnePass, f.Symmetric || g.Symmetric
	f.Composed, f.Expanded = f.Composed || g.Composed, f.Expanded || g.Expanded
	f.ByGreater, f.StoredMean = f.ByGreater || g.ByGreater, f.StoredMean || g.StoredMean
	f.BiasAfter, f.Taps, f.Backwards = f.BiasAfter || g.BiasAfter, f.Taps || g.Taps, f.Backwards || g.Backwards
	if g.Online {
		f.Online, f.BlockKeys, f.CoarseExp, f.Lanes = true, g.BlockKeys, g.CoarseExp, g.Lanes
	}
	f.Reciprocal, f.Copied, f.Sized = f.Reciprocal || g.Reciprocal, f.Copied || g.Copied, f.Sized || g.Sized
	f.Scalars, f.Powers = cmp.Or(g.Scalars, f.Scalars), cmp.Or(g.Powers, f.Powers)
	f.Weights, f.Positions, f.Atomic = cmp.Or(g.Weights, f.Weights), cmp.Or(g.Positions, f.Positions),
		cmp.Or(g.Atomic, f.Atomic)
	f.Operands, f.Scaled = cmp.Or(g.Operands, f.Operands), cmp.Or(g.Scaled, f.Scaled)
	f.Sampled, f.Quotients = cmp.Or(g.Sampled, f.Sampled), cmp.Or(g.Quotients, f.Quotients)
	if g.Parts != "" {
		f.Parts, f.division = g.Parts, g.division
	}
	if g.singles != "" {
		f.Singles, f.singles = g.Singles, g.singles
	}
	return f
}

// narrow is the format to which an operation's scalars are rounded first, if they are.
func (f Form) narrow(op graph.Op) (fp16.Format, bool) {
	if f.Scalars == "" {
		return 0, false
	}
	name, but, _ := strings.Cut(f.Scalars, butOf)
	to, is := accumulators[name]
	kept := strings.Split(but, ", ")
	product := op.Name() == "mul" || op.Name() == "div"
	return to, is && !slices.Contains(kept, op.Name()) && !(product && slices.Contains(kept, "products"))
}

const butOf = " but of "

// but is a name of [Form] that leaves out one more operation. Both products of an attention are the operation.
func but(name, op string) string {
	name, others, some := strings.Cut(name, butOf)
	if !some {
		return name + butOf + op
	}
	left := append(strings.Split(others, ", "), op)
	if both := []string{scores, weighted}; slices.Contains(left, scores) && slices.Contains(left, weighted) {
		left = append(besides(left, both), graph.Attention{}.Name())
	}
	return name + butOf + strings.Join(left, ", ")
}

// operand is how the operands of an operation's products are rounded, if they are.
func (f Form) operand(op string, node int) (rounding, bool) {
	name, _, _ := strings.Cut(f.Operands, butOf)
	if node < len(f.singles) && f.singles[node] > 0 {
		to, is := operands[tf32Ways[f.singles[node]-1]]
		return to, is
	}
	to, is := operands[name]
	return to, is && !f.leaves(op)
}

// leaves reports whether the operands of an operation are left out.
func (f Form) leaves(op string) bool {
	_, but, _ := strings.Cut(f.Operands, butOf)
	return slices.Contains(strings.Split(but, ", "), op)
}
