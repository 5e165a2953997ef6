package table

// kernels has a row for each fault of a single kernel, the simplest first: where several explain an output, the first of
// them is named. How each is made is package judge's.
var kernels = []Row{
	{ID: "kernel.maximum-not-subtracted", Name: "the maximum is not subtracted before exp", Verdict: precise, Advice: "subtract each row's maximum: large inputs overflow without it"},
	{ID: "kernel.last-term-dropped", Name: "the last term of the sums is left out", Verdict: logic, Advice: "check the end of the loop over the summed axis"},
	{ID: "kernel.tail-not-summed", Name: "the last part of a sum is left out", Verdict: logic, Advice: "check the mask of the last, partial tile of the summed axis"},
	{ID: "kernel.wrong-dim", Name: "the sum is along another axis", Verdict: logic, Advice: "check dim, and the strides of the input"},
	{ID: "kernel.eps-ignored", Name: "eps is not added", Verdict: precise, Advice: "add eps to the variance before the root"},
	{ID: "kernel.small-term-missing", Name: "a small number is not added", Verdict: logic, Advice: "add the small number: optimizers of graphs take 1e-8 for 0, and near 0 it is not"},
	{ID: "kernel.eps-outside-root", Name: "eps is added to the root, not under it", Verdict: precise, Advice: "add eps to the variance before the root"},
	{ID: "kernel.one-pass-variance", Name: "the variance is mean(x^2) - mean(x)^2", Verdict: precise, Advice: "subtract the mean before squaring, or use Welford's updates: far from 0 the difference cancels"},
	{ID: "kernel.variance-n-minus-1", Name: "the variance is divided by n-1", Verdict: precise, Advice: "divide by n: a norm's variance is the biased one"},
	{ID: "kernel.variance-n", Name: "the variance is divided by n", Verdict: precise, Advice: "divide by n-1, or say correction=0"},
	{ID: "kernel.mean-not-subtracted", Name: "the mean is not subtracted", Verdict: logic, Advice: "subtract the mean before the product with 1/deviation"},
	{ID: "kernel.mean-subtracted", Name: "a mean is subtracted", Verdict: logic, Advice: "rms_norm has no mean: use the root of the mean square alone"},
	{ID: "kernel.weight-missing", Name: "the weight is not applied", Verdict: logic, Advice: "multiply by the weight"},
	{ID: "kernel.weight-plus-one", Name: "the weight is used as 1 + weight", Verdict: logic, Advice: "multiply by the weight itself (Gemma's convention adds 1)"},
	{ID: "kernel.bias-missing", Name: "the bias is not added", Verdict: logic, Advice: "add the bias"},
	{ID: "kernel.groups-of-channels", Name: "each channel is a group", Verdict: logic, Advice: "check num_groups"},
	{ID: "kernel.one-group", Name: "all channels are one group", Verdict: logic, Advice: "check num_groups"},
	{ID: "kernel.scale-missing", Name: "the scores are not scaled", Verdict: logic, Advice: "multiply the scores by scale, 1/sqrt(E) by default"},
	{ID: "kernel.mask-missing", Name: "the mask is not applied", Verdict: logic, Advice: "apply the mask before the softmax"},
	{ID: "kernel.mask-off-by-one", Name: "each query sees one key too many", Verdict: logic, Advice: "compare key <= query, with the offsets of the blocks"},
	{ID: "kernel.mask-strict", Name: "each query sees one key too few", Verdict: logic, Advice: "compare key <= query, with the offsets of the blocks"},
	{ID: "kernel.last-keys-dropped", Name: "the last keys are left out", Verdict: logic, Advice: "check the mask of the last, partial block of keys"},
	{ID: "kernel.online-not-rescaled", Name: "sums are not rescaled when the maximum grows", Verdict: logic, Advice: "multiply the sums so far by exp(old maximum - new maximum)"},
	{ID: "kernel.ignored-targets-counted", Name: "the mean counts ignored targets too", Verdict: logic, Advice: "divide by the number of targets that are not ignore_index"},
	{ID: "kernel.smoothing-missing", Name: "labels are not smoothed", Verdict: logic, Advice: "add label_smoothing times the mean of -log_softmax"},
	{ID: "kernel.ignore-index-missing", Name: "ignored targets have a loss", Verdict: logic, Advice: "write 0 where the target is ignore_index"},
	{ID: "kernel.other-gelu", Name: "the other form of GELU", Verdict: precise, Advice: "check approximate: none is erf, tanh is the approximation"},
	{ID: "kernel.quick-gelu", Name: "x sigmoid(1.702 x)", Verdict: precise, Advice: "compute the function itself, not the quick form of GELU"},
	{ID: "kernel.relu-for-gelu", Name: "ReLU in place of GELU", Verdict: logic, Advice: "compute GELU"},
	{ID: "kernel.scale-twice", Name: "the scores are scaled twice", Verdict: logic, Advice: "scale them once"},
	{ID: "kernel.last-term-twice", Name: "the last term of the sums counts twice", Verdict: logic, Advice: "check the end of the loop over the summed axis"},
	{ID: "kernel.relu-for-silu", Name: "ReLU in place of SiLU", Verdict: logic, Advice: "multiply by sigmoid(x)"},
	{ID: "kernel.sigmoid-for-silu", Name: "sigmoid(x) in place of x sigmoid(x)", Verdict: logic, Advice: "multiply by x"},
	{ID: "kernel.other-pairs", Name: "other numbers are paired", Verdict: logic, Advice: "check interleaved: pairs are i and i + D/2, or neighbours"},
	{ID: "kernel.other-sign", Name: "the rotation is the other way", Verdict: logic, Advice: "rotated x is (-second half, first half)"},
	{ID: "kernel.weight-transposed", Name: "the second operand is transposed", Verdict: logic, Advice: "check the strides of the second operand"},
	{ID: "kernel.operands-in:tf32", Name: "the operands of products are rounded to TF32", Verdict: precise, Advice: "turn TF32 off, or claim it"},
	{ID: "kernel.operands-in:bfloat16", Name: "the operands of products are rounded to bfloat16", Verdict: precise, Advice: "keep the operands in float32"},
	{ID: "kernel.sums-in:bfloat16", Name: "sums are kept in bfloat16", Verdict: precise, Advice: "accumulate in float32, or say that it accumulates in bfloat16"},
	{ID: "kernel.sums-in:float16", Name: "sums are kept in float16", Verdict: precise, Advice: "accumulate in float32, or say that it accumulates in float16"},
	{ID: "kernel.weight-flipped", Name: "the kernel is turned round", Verdict: logic, Advice: "convolutions of networks are correlations: do not flip the kernel"},
	{ID: "kernel.mean-for-sum", Name: "a mean in place of a sum", Verdict: logic, Advice: "do not divide by the number of terms"},
	{ID: "kernel.sum-for-mean", Name: "a sum in place of a mean", Verdict: logic, Advice: "divide by the number of terms"},
	{ID: "kernel.root-forgotten", Name: "the root is forgotten", Verdict: logic, Advice: "take the square root"},
	{ID: "kernel.mask-other-corner", Name: "the mask is aligned to the other corner", Verdict: logic, Advice: "with is_causal query i sees keys up to i, of however many: not up to i + S - L"},
	{ID: "kernel.window-one-too-wide", Name: "the window is one too wide", Verdict: logic, Advice: "check the ends of the window"},
	{ID: "kernel.eps-other", Name: "eps is another number", Verdict: precise, Advice: "check eps: frameworks have other defaults"},
	{ID: "kernel.padding-counted", Name: "padding is counted in the statistics", Verdict: logic, Advice: "divide by the number of elements, and leave lanes beyond the end out of the variance too"},
	{ID: "kernel.term-missing", Name: "a term is not added", Verdict: logic, Advice: "add it"},
	{ID: "kernel.input-rounded", Name: "an input is rounded", Verdict: precise, Advice: "keep the inputs in float32"},
	{ID: "kernel.zeros", Name: "the output is zeros", Verdict: logic, Advice: "check that the kernel writes its output"},
	{ID: "kernel.input-returned", Name: "the output is the input", Verdict: logic, Advice: "check that the kernel runs, and where it writes"},
	{ID: "kernel.store-truncated", Name: "the output is cut off, not rounded", Verdict: precise, Advice: "round to nearest even when storing"},
	{ID: "kernel.root-of-few-bits", Name: "1/deviation has few bits", Verdict: precise, Advice: "refine an approximate reciprocal root by a step of Newton's"},
	{ID: "kernel.all-nan", Name: "the output is NaN everywhere", Verdict: logic, Advice: "look for 0/0, Inf - Inf, and memory that is read before it is written"},
	{ID: "kernel.one-number", Name: "the output is one number everywhere", Verdict: logic, Advice: "check that the kernel reads its input"},
	{ID: "kernel.times", Name: "the output is times a constant", Verdict: logic, Advice: "look for a scale that is applied twice or not at all"},
	{ID: "kernel.part-zeros", Name: "part of the output is zeros", Verdict: logic, Advice: "check the grid, and the mask of the last, partial tile"},
	{ID: "kernel.results-moved", Name: "results are in other places", Verdict: logic, Advice: "check the indices and the strides of what is stored"},

	// a step that alone is rounded; its name ends the ID
	{ID: StepRounded, Name: "the step %s is rounded", Verdict: precise, Advice: "keep that step in float32"},
}

// StepRounded is the ID of the fault that one step is rounded where no right kernel does it.
const StepRounded = "kernel.step-rounded"

// Kernels returns the rows of single kernels.
func Kernels() []Row { return kernels }
