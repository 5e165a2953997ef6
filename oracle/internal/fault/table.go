package fault

import (
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
)

// The kinds of faults.
const (
	logic    = report.FailLogic
	precise  = report.FailPrecision
	random   = report.FailRNG
	rollouts = report.FailRollout
)

// What to look at.
const (
	tanhGELU      = "The device takes the approximation of GELU by tanh: approximate=\"none\" is the exact one, or name gelu_tanh as the activation."
	approximated  = "Look at how the activation is approximated, and in which type its constants are."
	narrowerType  = "Something is kept in a narrower type than claimed: look for a cast that is not in the claim."
	unbiased      = "The variance is divided by N-1: x.var() is unbiased unless told otherwise."
	whereEps      = "Look at where eps is added, its value, and the type of that sum."
	masked        = "Look at the reduction's mask: lanes beyond the end are counted."
	narrowNorm    = "Norms are computed in a half type: their statistics belong into float32."
	cancels       = "The variance is formed as the mean of squares minus the square of the mean, which cancels: take two passes or Welford's method."
	drawFormula   = "Look at the formula that turns uniform numbers into draws, and at its scale."
	narrowDraws   = "The draws are rounded to a half type before they are added, where the claim does not."
	otherDraws    = "Look at seed, offset and the order in which numbers are drawn."
	seeding       = "Look at how the generator is seeded, and at graphs that replay their constants."
	layout        = "Look at the memory layout: strides, NCHW or NHWC, the order of packed weights."
	entersWhere   = "Look at where the noise enters the operator, and how."
	blending      = "Look at the constants and the order of the blend."
	narrowedState = "The state is narrowed between steps, or when it was written: keep and dump it in the claimed type."
	buffers       = "Look at which buffer is read and written when: a swap that is missing, a graph that replays old inputs, a copy that is not awaited."
	padding       = "Look at the padding mode and at the offsets of the halo."
	tails         = "Look at the tail of the kernel: sizes that are no multiple of its block."
	synchronised  = "Look at synchronisation: something is read before it is written."
	tf32Allowed   = "Look at torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32: or claim tf32."
	nearestEven   = "Look at the conversion: it must round to nearest even."
	autocastOn    = "Look at whether autocast was on, and for which device: or claim what was run."
	otherKernels  = "Look at what differs between these steps and the others: a warm-up, a fallback to another device, a kernel that was chosen anew."
	fewProducts   = "Look at the emulation of float32 products by narrower ones: it leaves out too many terms."
	inBetween     = "Look at the conversion: a number passes through a type in between."
	accumulates   = "Look at the accumulator's type, the workspace of split-K, and torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction."
)

// table has a row for each fault of the library, and for those that only a gate sees. A
// name may leave open what the rest of an ID says, such as a format: the row of
// "norm.statistics-in" is that of norm.statistics-in:float16, too. Where one of several
// differs in more than its name, it has a row of its own.
//
// How a fault is made stands in the file that the first word of its ID names.
var table = []trial.Row{
	// activations
	{ID: "act.tanh-gelu", Name: "tanh GELU", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: tanhGELU},
	{ID: "act.sigmoid-gelu", Name: "sigmoid GELU", Verdict: precise, Advice: approximated},
	{ID: "act.erf-gelu", Name: "erf GELU", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: approximated},
	{ID: "act.tanh-gelu-with-coefficients-in-float16", Name: "tanh GELU with coefficients in float16", Verdict: logic, Advice: approximated},
	{ID: "act.tanh-gelu-with-coefficients-in-bfloat16", Name: "tanh GELU with coefficients in bfloat16", Verdict: logic, Advice: approximated},
	{ID: "act.hard-swish", Name: "hard swish", Verdict: precise, Advice: approximated},
	{ID: "act.tanh-by-x-27-x-2-27-9x-2", Name: "tanh by x(27+x^2)/(27+9x^2)", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: approximated},
	{ID: "act.hard-tanh", Name: "hard tanh", Verdict: logic},
	{ID: "act.gelu-with-1-sqrt-2-as-0-7071", Name: "GELU with 1/sqrt 2 as 0.7071", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: approximated},
	{ID: "act.gelu-with-coefficients-in-float16", Name: "GELU with coefficients in float16", Verdict: precise, Advice: approximated},
	{ID: "act.gelu-with-coefficients-in-bfloat16", Name: "GELU with coefficients in bfloat16", Verdict: precise, Advice: approximated},
	{ID: "act.silu-of-1-0001-x", Name: "SiLU of 1.0001 x", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: approximated},
	{ID: "act.tanh-of-1-0001-x", Name: "tanh of 1.0001 x", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: approximated},
	{ID: "act.activation-cut-off-above-2", Name: "activation cut off above 2", Verdict: logic},
	{ID: "act.activation-missing", Name: "activation missing", Verdict: logic},
	{ID: "act.relu-for-the-activation", Name: "relu for the activation", Verdict: logic},
	{ID: "act.gelu-for-the-activation", Name: "gelu for the activation", Verdict: logic},
	{ID: "act.silu-for-the-activation", Name: "silu for the activation", Verdict: logic},
	{ID: "act.tanh-for-the-activation", Name: "tanh for the activation", Verdict: logic},
	{ID: "act.leaky-relu-0-01-for-the-activation", Name: "leaky relu (0.01) for the activation", Verdict: logic},
	{ID: "act.elu-for-the-activation", Name: "elu for the activation", Verdict: logic},
	{ID: "act.sigmoid-for-the-activation", Name: "sigmoid for the activation", Verdict: logic},
	{ID: "act.relu6-for-the-activation", Name: "relu6 for the activation", Verdict: logic},
	{ID: "act.absolute-value-for-the-activation", Name: "absolute value for the activation", Verdict: logic},
	{ID: "act.activation-applied-twice", Name: "activation applied twice", Verdict: logic},
	{ID: "act.where-there-is-no-activation", Name: "%v where there is no activation", Verdict: logic},
	{ID: "act.activation-from-a-table-in-steps-of-1", Name: "activation from a table in steps of 1/%g", Verdict: precise, Advice: approximated},
	{ID: "act.activation-computed-in", Name: "activation computed in %v", Verdict: precise, Rounding: true, Advice: narrowerType},
	// norms
	{ID: "norm.unbiased-variance", Name: "unbiased variance", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: unbiased},
	{ID: "norm.eps-outside-the-square-root", Name: "eps outside the square root", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: whereEps},
	{ID: "norm.eps-missing", Name: "eps missing", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: whereEps},
	{ID: "norm.eps", Name: "eps %.0e", Verdict: precise, Advice: whereEps},
	{ID: "norm.eps:0.0001", Name: "eps 1e-04", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: whereEps},
	{ID: "norm.eps:0.001", Name: "eps 1e-03", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: whereEps},
	{ID: "norm.eps:1e-06", Name: "eps 1e-06", Verdict: precise, Small: true, Probe: evidence.VarianceLadder, Advice: whereEps},
	{ID: "norm.divided-by-the-variance-not-its-root", Name: "divided by the variance, not its root", Verdict: logic},
	{ID: "norm.not-divided-by-the-standard-deviation", Name: "not divided by the standard deviation", Verdict: logic},
	{ID: "norm.mean-not-subtracted", Name: "mean not subtracted", Verdict: logic},
	{ID: "norm.instance-statistics", Name: "instance statistics", Verdict: logic},
	{ID: "norm.layer-statistics", Name: "layer statistics", Verdict: logic},
	{ID: "norm.group-statistics-of-32-groups", Name: "group statistics of 32 groups", Verdict: logic},
	{ID: "norm.group-statistics-of-groups", Name: "group statistics of %d groups", Verdict: logic},
	{ID: "norm.group-statistics-of-channels", Name: "group statistics of %d channels", Verdict: logic},
	{ID: "norm.batch-statistics", Name: "batch statistics", Verdict: logic, Batch: true},
	{ID: "norm.statistics-over-all-samples-together", Name: "statistics over all samples together", Verdict: logic, Batch: true},
	{ID: "norm.running-statistics-of-a-fresh-norm-mean-0-variance-1", Name: "running statistics of a fresh norm (mean 0, variance 1)", Verdict: logic},
	{ID: "norm.tails-of-blocks", Name: "tails of blocks of %d enter the statistics", Verdict: logic, Advice: masked},
	{ID: "norm.tails-to-a-power-of-2", Name: "tails up to a power of 2 enter the statistics", Verdict: logic, Advice: masked},
	{ID: "norm.block-of-zeros", Name: "a block of 128 zeros enters the statistics", Verdict: logic, Advice: masked},
	{ID: "norm.statistics-of-the-sample-before", Name: "statistics of the sample before", Verdict: logic, Batch: true},
	{ID: "norm.statistics-of-the-channel-before", Name: "statistics of the channel before", Verdict: logic},
	{ID: "norm.statistics-over-the-channels-of-each-pixel", Name: "statistics over the channels of each pixel", Verdict: logic},
	{ID: "norm.statistics-of-every-second-row", Name: "statistics of every second row", Verdict: precise},
	{ID: "norm.sums-divided-by-a-count-rounded-up-to-128", Name: "sums divided by a count rounded up to 128", Verdict: logic, Advice: masked},
	{ID: "norm.without-gamma", Name: "norm without gamma", Verdict: logic},
	{ID: "norm.without-beta", Name: "norm without beta", Verdict: logic},
	{ID: "norm.without-gamma-and-beta", Name: "norm without gamma and beta", Verdict: logic},
	{ID: "norm.gamma-applied-twice", Name: "gamma applied twice", Verdict: logic},
	{ID: "norm.beta-applied-twice", Name: "beta applied twice", Verdict: logic},
	{ID: "norm.missing", Name: "norm missing", Verdict: logic},
	{ID: "norm.gamma-and-beta-of-the-next-channel", Name: "gamma and beta of the next channel", Verdict: logic},
	{ID: "norm.gamma-and-beta-of-the-channel-before", Name: "gamma and beta of the channel before", Verdict: logic},
	{ID: "norm.statistics-in", Name: "statistics in %v", Verdict: precise, Small: true, Probe: evidence.AmplitudeLadder, Advice: narrowNorm},
	{ID: "norm.1-sqrt-var-eps-in", Name: "1/sqrt(var+eps) in %v", Verdict: precise, Advice: whereEps},
	{ID: "norm.one-pass-variance-in", Name: "one-pass variance in %v", Verdict: precise, Advice: cancels},
	{ID: "norm.one-pass-variance-in:float32", Name: "one-pass variance in float32", Verdict: precise, Rounding: true, Advice: cancels},
	{ID: "norm.one-pass-variance-of-squares-in", Name: "one-pass variance of squares in %v", Verdict: precise, Advice: cancels},
	{ID: "norm.variance-of-differences-in", Name: "variance of differences in %v", Verdict: precise, Small: true, Probe: evidence.ConstantChannel, Advice: narrowNorm},
	{ID: "norm.statistics-added-up-in", Name: "statistics added up in %v", Verdict: precise, Advice: narrowNorm},
	{ID: "norm.eps-lost-in-a-sum-in", Name: "eps lost in a sum in %v", Verdict: precise, Advice: whereEps},
	{ID: "norm.gamma-and-beta-in", Name: "gamma and beta in %v", Verdict: precise, Advice: narrowNorm},
	{ID: "norm.x-mean-and-its-quotient-in", Name: "x-mean and its quotient in %v", Verdict: precise, Advice: narrowNorm},
	// noise
	{ID: "noise.noise-scale", Name: "noise scale", Verdict: random, Family: true, Small: true, Probe: evidence.ConstantChannel, Advice: drawFormula},
	{ID: "noise.noise-in", Name: "noise in %v", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Advice: narrowDraws},
	{ID: "noise.noise-of-the-step-before", Name: "noise of the step before", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-of-the-next-step", Name: "noise of the next step", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-of-two-steps-before", Name: "noise of two steps before", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-of-the-step-after-the-next", Name: "noise of the step after the next", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-of-the-sample-before", Name: "noise of the sample before", Verdict: random, Batch: true, Advice: otherDraws},
	{ID: "noise.noise-of-the-next-sample", Name: "noise of the next sample", Verdict: random, Batch: true, Advice: otherDraws},
	{ID: "noise.the-same-noise-for-all-samples", Name: "the same noise for all samples", Verdict: random, Batch: true, Advice: seeding},
	{ID: "noise.the-same-noise-for-all-channels", Name: "the same noise for all channels", Verdict: random, Advice: seeding},
	{ID: "noise.noise-of-the-channel-before", Name: "noise of the channel before", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-of-the-next-channel", Name: "noise of the next channel", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-transposed", Name: "noise transposed", Verdict: random, Advice: layout},
	{ID: "noise.noise-of-rows-read-as-columns", Name: "noise of rows read as columns", Verdict: random, Advice: layout},
	{ID: "noise.realizations-have-each-other-noise", Name: "realizations have each other's noise", Verdict: random, Batch: true, Advice: otherDraws},
	{ID: "noise.noise-in-equal-pairs", Name: "noise in equal pairs", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-flipped-left-to-right", Name: "noise flipped left to right", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-flipped-top-to-bottom", Name: "noise flipped top to bottom", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-drawn-channels-last", Name: "noise drawn channels-last", Verdict: random, Advice: layout},
	{ID: "noise.uniform-noise-for-normal", Name: "uniform noise for normal", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.laplace-noise-for-normal", Name: "Laplace noise for normal", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-cut-off-at-2-standard-deviations", Name: "noise cut off at 2 standard deviations", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-cut-off-at-3-standard-deviations", Name: "noise cut off at 3 standard deviations", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-in-steps-of", Name: "noise in steps of %.4g", Verdict: random, Advice: drawFormula},
	{ID: "noise.noise-in-steps-of:1", Name: "noise in steps of 1", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-in-steps-of:0.5", Name: "noise in steps of 0.5", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-in-steps-of:0.4", Name: "noise in steps of 0.4", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.noise-in-steps-of:0.25", Name: "noise in steps of 0.25", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "noise of another distribution", Advice: drawFormula},
	{ID: "noise.mean-of-the-noise", Name: "mean of the noise", Verdict: random, Family: true, Small: true, Least: 0.2, Probe: evidence.ConstantChannel, Advice: otherDraws},
	{ID: "noise.noise-of-the-first-step", Name: "noise of the first step", Verdict: random, Advice: otherDraws},
	{ID: "noise.noise-not-centred-absolute-value", Name: "noise not centred (absolute value)", Verdict: random, Advice: drawFormula},
	{ID: "noise.channel-without-noise", Name: "channel %d without noise", Verdict: random, Small: true, Probe: evidence.ConstantChannel, Many: "one channel without noise", Advice: entersWhere},
	{ID: "noise.noise-stream-off-by-numbers", Name: "noise stream off by %d numbers", Verdict: random, Advice: otherDraws},
	{ID: "noise.activation-after-the-noise", Name: "activation after the noise", Verdict: random, Advice: entersWhere},
	{ID: "noise.multiplicative-noise-in-place-of-additive", Name: "multiplicative noise in place of additive", Verdict: random, Advice: entersWhere},
	{ID: "noise.additive-noise-in-place-of-multiplicative", Name: "additive noise in place of multiplicative", Verdict: random, Advice: entersWhere},
	{ID: "noise.laplace-noise-without-its-sign", Name: "laplace noise without its sign", Verdict: random, Advice: drawFormula},
	{ID: "noise.one-realization-without-noise", Name: "one realization without noise", Verdict: random, Batch: true, Advice: entersWhere},
	{ID: "noise.dropout-missing", Name: "dropout missing", Verdict: random, Advice: entersWhere},
	{ID: "noise.dropout-not-rescaled", Name: "dropout not rescaled", Verdict: random, Advice: drawFormula},
	{ID: "noise.dropout-rescaled-twice", Name: "dropout rescaled twice", Verdict: random, Advice: drawFormula},
	{ID: "noise.dropout-rescaled-by-p-for-1-p", Name: "dropout rescaled by p for 1-p", Verdict: random, Advice: drawFormula},
	{ID: "noise.dropout-keeps-what-it-should-drop", Name: "dropout keeps what it should drop", Verdict: random, Advice: drawFormula},
	{ID: "noise.dropout-keeps-what-it-should-drop-p-and-1-p-swapped", Name: "dropout keeps what it should drop, p and 1-p swapped", Verdict: random, Advice: drawFormula},
	{ID: "noise.dropout-as-in-evaluation-scaled-by-1-p", Name: "dropout as in evaluation, scaled by 1-p", Verdict: random, Advice: drawFormula},
	{ID: "noise.noise-before-the-norm", Name: "noise before the norm", Verdict: random, Whole: true, Advice: entersWhere},
	{ID: "noise.noise-before-the-activation", Name: "noise before the activation", Verdict: random, Whole: true, Advice: entersWhere},
	{ID: "noise.noise-before-the-last-convolution-block", Name: "noise before the last convolution block", Verdict: random, Whole: true, Advice: entersWhere},
	// the rollout
	{ID: "rollout.alpha-wrong", Name: "alpha wrong", Verdict: rollouts, Family: true, Advice: blending},
	{ID: "rollout.dt-wrong", Name: "dt wrong", Verdict: rollouts, Family: true, Advice: blending},
	{ID: "rollout.operator-share-wrong", Name: "operator's share wrong", Verdict: rollouts, Family: true, Advice: blending},
	{ID: "rollout.state-share-wrong", Name: "state's share wrong", Verdict: rollouts, Family: true, Advice: blending},
	{ID: "rollout.state-leaks", Name: "state leaks", Verdict: rollouts, Family: true},
	{ID: "rollout.alpha-or-dt-in", Name: "alpha or dt in %v", Verdict: rollouts, Small: true, Advice: blending},
	{ID: "rollout.alpha-in-and-1-alpha-of-it", Name: "alpha in %v, and 1-alpha of it", Verdict: rollouts, Advice: blending},
	{ID: "rollout.state-in", Name: "state in %v", Verdict: precise, Advice: narrowedState},
	{ID: "rollout.state-read-in", Name: "state read in %v", Verdict: precise, Advice: narrowedState},
	{ID: "rollout.alpha-in-place-of-1-alpha", Name: "alpha in place of 1-alpha", Verdict: rollouts, Advice: blending},
	{ID: "rollout.policy-applied-twice", Name: "policy applied twice", Verdict: rollouts, Advice: blending},
	{ID: "rollout.convex-policy-in-place-of-residual", Name: "convex policy in place of residual", Verdict: rollouts, Advice: blending},
	{ID: "rollout.state-of-another-realization", Name: "state of another realization", Verdict: rollouts, Batch: true},
	{ID: "rollout.realization-stands-still", Name: "realization stands still", Verdict: rollouts, Batch: true, Advice: buffers},
	{ID: "rollout.realizations-change-places", Name: "realizations change places", Verdict: rollouts, Batch: true},
	{ID: "rollout.state-before-the-last-in-the-policy", Name: "state before the last in the policy", Verdict: rollouts, Advice: buffers},
	{ID: "rollout.operator-reads-the-state-before-the-last", Name: "operator reads the state before the last", Verdict: rollouts, Advice: buffers},
	{ID: "rollout.normalization-missing", Name: "normalization missing", Verdict: rollouts},
	{ID: "rollout.min-max-in-place-of-z-score", Name: "min-max in place of z-score", Verdict: rollouts},
	{ID: "rollout.z-score-in-place-of-min-max", Name: "z-score in place of min-max", Verdict: rollouts},
	{ID: "rollout.normalization-of-each-realization-in-place-of-the-batch", Name: "normalization of each realization in place of the batch", Verdict: rollouts, Batch: true},
	{ID: "rollout.normalization-of-the-batch-in-place-of-each-realization", Name: "normalization of the batch in place of each realization", Verdict: rollouts, Batch: true},
	{ID: "rollout.clamp-missing", Name: "clamp missing", Verdict: rollouts},
	{ID: "rollout.clamp-to", Name: "clamp to [%g,%g]", Verdict: rollouts},
	{ID: "rollout.mean-of-each-channel-removed-from-the-state", Name: "mean of each channel removed from the state", Verdict: rollouts},
	{ID: "rollout.mean-removed-from-the-state", Name: "mean removed from the state", Verdict: rollouts},
	{ID: "rollout.state-channels-in-reverse-order", Name: "state's channels in reverse order", Verdict: rollouts},
	{ID: "rollout.state-h-and-w-swapped", Name: "state's H and W swapped", Verdict: rollouts, Advice: layout},
	{ID: "rollout.state-in-steps-of-a-127th-of-its-largest-number", Name: "state in steps of a 127th of its largest number", Verdict: precise, Batch: true, Advice: narrowedState},
	// residual blocks
	{ID: "residual.residual-missing", Name: "residual missing", Verdict: logic},
	{ID: "residual.residual-added-twice", Name: "residual added twice", Verdict: logic},
	{ID: "residual.residual-block-missing", Name: "residual block missing", Verdict: logic},
	{ID: "residual.residual-subtracted", Name: "residual subtracted", Verdict: logic},
	{ID: "residual.residual-block-added-twice", Name: "residual block added twice", Verdict: logic},
	{ID: "residual.residual-sum-halved", Name: "residual sum halved", Verdict: logic},
	{ID: "residual.residual-added-before-the-activation", Name: "residual added before the activation", Verdict: logic},
	{ID: "residual.activation-after-the-residual-sum-too", Name: "activation after the residual sum too", Verdict: logic},
	{ID: "residual.projection-missing", Name: "projection missing", Verdict: logic},
	// convolutions: what is read and written
	{ID: "conv.padding", Name: "%v padding", Verdict: logic, Advice: padding},
	{ID: "conv.padding-of-rows-only", Name: "%v padding of rows only", Verdict: logic, Advice: padding},
	{ID: "conv.padding-of-columns-only", Name: "%v padding of columns only", Verdict: logic, Advice: padding},
	{ID: "conv.halo-row-beyond-the-reads-row-from-there", Name: "halo row beyond the %s reads row %d from there", Verdict: logic, Advice: padding},
	{ID: "conv.halo-column-beyond-the-reads-column-from-there", Name: "halo column beyond the %s reads column %d from there", Verdict: logic, Advice: padding},
	{ID: "conv.kernel-flipped", Name: "kernel flipped", Verdict: logic},
	{ID: "conv.kernel-rows-and-columns-swapped", Name: "kernel rows and columns swapped", Verdict: logic, Advice: layout},
	{ID: "conv.kernel-flipped-top-to-bottom", Name: "kernel flipped top to bottom", Verdict: logic},
	{ID: "conv.kernel-flipped-left-to-right", Name: "kernel flipped left to right", Verdict: logic},
	{ID: "conv.weights-read-as-ic-oc", Name: "weights read as [IC,OC]", Verdict: logic, Advice: layout},
	{ID: "conv.weights-read-as-oc-k-k-ic", Name: "weights read as [OC,K,K,IC]", Verdict: logic, Advice: layout},
	{ID: "conv.weights-stored-as-oc-k-k-ic-read-as-oc-ic-k-k", Name: "weights stored as [OC,K,K,IC] read as [OC,IC,K,K]", Verdict: logic, Advice: layout},
	{ID: "conv.input-channels", Name: "input channels %v", Verdict: logic},
	{ID: "conv.input-channels:reversed", Name: "input channels reversed", Verdict: logic, Advice: layout},
	{ID: "conv.output-channels", Name: "output channels %v", Verdict: logic},
	{ID: "conv.output-channels:reversed", Name: "output channels reversed", Verdict: logic, Advice: layout},
	{ID: "conv.last-input-channel-not-read", Name: "last input channel not read", Verdict: logic},
	{ID: "conv.first-input-channel-not-read", Name: "first input channel not read", Verdict: logic},
	{ID: "conv.input-channels-from-8-on-not-read", Name: "input channels from 8 on not read", Verdict: logic},
	{ID: "conv.input-channels-from-16-on-not-read", Name: "input channels from 16 on not read", Verdict: logic},
	{ID: "conv.second-half-of-the-input-channels-not-read", Name: "second half of the input channels not read", Verdict: logic},
	{ID: "conv.input-channels-of-an-incomplete-block-of-4-not-read", Name: "input channels of an incomplete block of 4 not read", Verdict: logic, Advice: tails},
	{ID: "conv.input-channels-of-an-incomplete-block-of-8-not-read", Name: "input channels of an incomplete block of 8 not read", Verdict: logic, Advice: tails},
	{ID: "conv.first-two-taps-swapped", Name: "first two taps swapped", Verdict: logic, Advice: layout},
	{ID: "conv.last-two-taps-swapped", Name: "last two taps swapped", Verdict: logic, Advice: layout},
	{ID: "conv.first-taps-of-the-first-two-rows-swapped", Name: "first taps of the first two rows swapped", Verdict: logic, Advice: layout},
	{ID: "conv.first-and-last-tap-swapped", Name: "first and last tap swapped", Verdict: logic, Advice: layout},
	{ID: "conv.first-two-rows-of-the-kernel-swapped", Name: "first two rows of the kernel swapped", Verdict: logic, Advice: layout},
	{ID: "conv.first-two-columns-of-the-kernel-swapped", Name: "first two columns of the kernel swapped", Verdict: logic, Advice: layout},
	{ID: "conv.filters-moved-by-half-of-them", Name: "filters moved by half of them", Verdict: logic},
	{ID: "conv.input-channels-from-on-shifted-by-one", Name: "input channels from %d on shifted by one", Verdict: logic},
	{ID: "conv.terms-after-the-last-whole-block-of-left-out", Name: "terms after the last whole block of %d left out", Verdict: logic, Advice: tails},
	{ID: "conv.weights-of-the-first-other-layer-of-that-shape", Name: "weights of the first other layer of that shape", Verdict: logic},
	{ID: "conv.weights-of-the-last-other-layer-of-that-shape", Name: "weights of the last other layer of that shape", Verdict: logic},
	{ID: "conv.window-shifted-by", Name: "window shifted by (%d,%d)", Verdict: logic, Advice: padding},
	{ID: "conv.conv-bias-missing", Name: "conv bias missing", Verdict: logic},
	{ID: "conv.conv-bias-doubled", Name: "conv bias doubled", Verdict: logic},
	{ID: "conv.h-and-w-swapped", Name: "H and W swapped", Verdict: logic, Advice: layout},
	{ID: "conv.channels-last-input-read-as-channels-first", Name: "channels-last input read as channels-first", Verdict: logic, Advice: layout},
	{ID: "conv.channels-first-input-read-as-channels-last", Name: "channels-first input read as channels-last", Verdict: logic, Advice: layout},
	{ID: "conv.kernel-dilated-by-2", Name: "kernel dilated by 2", Verdict: logic},
	{ID: "conv.all-samples-read-the-first", Name: "all samples read the first", Verdict: logic, Batch: true},
	{ID: "conv.bias-of-the-next-channel", Name: "bias of the next channel", Verdict: logic},
	{ID: "conv.bias-of-the-channel-before", Name: "bias of the channel before", Verdict: logic},
	{ID: "conv.samples-mixed-up-each-reads-the-one-before", Name: "samples mixed up: each reads the one before", Verdict: logic, Batch: true},
	{ID: "conv.rows-of-an-incomplete-block-of-not-written", Name: "rows of an incomplete block of %d not written", Verdict: logic, Advice: tails},
	{ID: "conv.columns-of-an-incomplete-block-of-not-written", Name: "columns of an incomplete block of %d not written", Verdict: logic, Advice: tails},
	{ID: "conv.first-row-of-each-block-of-is-the-row-before", Name: "first row of each block of %d is the row before", Verdict: logic, Advice: synchronised},
	{ID: "conv.results-channels", Name: "results' channels %v", Verdict: logic},
	{ID: "conv.results-channels:reversed", Name: "results' channels reversed", Verdict: logic, Advice: layout},
	{ID: "conv.last-channel-result-is-that-of-the-one-before", Name: "last channel's result is that of the one before", Verdict: logic},
	{ID: "conv.last-sample-not-written", Name: "last sample not written", Verdict: logic, Batch: true, Advice: tails},
	{ID: "conv.results-h-and-w-swapped", Name: "results' H and W swapped", Verdict: logic, Advice: layout},
	{ID: "conv.results-moved-by-around-the-edge", Name: "results moved by (%d,%d), around the edge", Verdict: logic},
	{ID: "conv.last-row-not-written", Name: "last row not written", Verdict: logic, Advice: tails},
	{ID: "conv.last-column-not-written", Name: "last column not written", Verdict: logic, Advice: tails},
	// how numbers are rounded
	{ID: "precision.operands-in-tf32", Name: "operands in tf32", Verdict: precise, Rounding: true, Small: true, Probe: evidence.AmplitudeLadder, Advice: tf32Allowed},
	{ID: "precision.operands-in-tf32-ties-away-from-zero", Name: "operands in tf32, ties away from zero", Verdict: precise, Rounding: true, Advice: tf32Allowed},
	{ID: "precision.operands-truncated-to-tf32", Name: "operands truncated to tf32", Verdict: precise, Rounding: true, Advice: tf32Allowed},
	{ID: "precision.operands-in", Name: "operands in %v", Verdict: precise, Rounding: true, Small: true, Probe: evidence.SubnormalLadder},
	{ID: "precision.operands-in:bfloat16", Name: "operands in bfloat16", Verdict: precise, Rounding: true, Small: true, Probe: evidence.AmplitudeLadder},
	{ID: "precision.weights-in", Name: "weights in %v", Verdict: precise, Rounding: true, Small: true, Probe: evidence.AmplitudeLadder},
	{ID: "precision.convolution-inputs-in", Name: "convolution inputs in %v", Verdict: precise, Rounding: true},
	{ID: "precision.operands-truncated-to", Name: "operands truncated to %v", Verdict: precise, Rounding: true, Advice: nearestEven},
	{ID: "precision.weights-truncated-to", Name: "weights truncated to %v", Verdict: precise, Rounding: true, Small: true, TF32: true, Probe: evidence.AmplitudeLadder, Advice: nearestEven},
	{ID: "precision.weights-truncated-to:bfloat16", Name: "weights truncated to bfloat16", Verdict: precise, Rounding: true, Small: true, Probe: evidence.AmplitudeLadder, Advice: nearestEven},
	{ID: "precision.convolution-inputs-truncated-to", Name: "convolution inputs truncated to %v", Verdict: precise, Rounding: true, Advice: nearestEven},
	{ID: "precision.convolution-inputs-truncated-to-bits", Name: "convolution inputs truncated to %d bits", Verdict: precise, Rounding: true, Slow: true, Advice: nearestEven},
	{ID: "precision.convolution-inputs-truncated-to-bits:20", Name: "convolution inputs truncated to 20 bits", Verdict: precise, Rounding: true, Small: true, Slow: true, Needs: "the layers recorded", Advice: nearestEven},
	{ID: "precision.weights-of-8-bits-per-output-channel", Name: "weights of 8 bits per output channel", Verdict: precise},
	{ID: "precision.weights-of-8-bits", Name: "weights of 8 bits", Verdict: precise},
	{ID: "precision.in-place-of-the-claimed-mode", Name: "%v in place of the claimed mode", Verdict: precise, Rounding: true, Whole: true, Advice: autocastOn},
	{ID: "precision.steps-of-another-contract", Name: "%v in %s, in place of the other steps' contract", Verdict: precise, Advice: otherKernels},
	{ID: "precision.three-bfloat16-products-for-one-of-float32", Name: "three bfloat16 products for one of float32", Verdict: precise, Rounding: true, Advice: fewProducts},
	{ID: "precision.two-tf32-products-for-one-of-float32", Name: "two tf32 products for one of float32", Verdict: precise, Rounding: true, Advice: fewProducts},
	{ID: "precision.two-bfloat16-products-for-one-of-float32", Name: "two bfloat16 products for one of float32", Verdict: precise, Rounding: true, Advice: fewProducts},
	{ID: "precision.results-of-stored-in", Name: "results of %s stored in %v", Verdict: precise, Rounding: true, Advice: narrowerType},
	{ID: "precision.all-results-stored-in", Name: "all results stored in %v", Verdict: precise, Rounding: true, Advice: narrowerType},
	{ID: "precision.residual-sum-of-float16-numbers-in-float16", Name: "residual sum of float16 numbers, in float16", Verdict: precise, Rounding: true, Small: true},
	{ID: "precision.results-truncated-when-stored", Name: "results%v truncated when stored", Verdict: precise, Rounding: true, Advice: nearestEven},
	{ID: "precision.results-rounded-up-when-stored", Name: "results%v rounded up when stored", Verdict: precise, Rounding: true, Advice: nearestEven},
	{ID: "precision.results-of-convolutions-rounded-twice-by-more-bits-first", Name: "results of convolutions rounded twice, by %d more bits first", Verdict: precise, Rounding: true, Advice: inBetween},
	{ID: "precision.subnormal-numbers-flushed-to-zero", Name: "subnormal numbers flushed to zero", Verdict: precise, Rounding: true},
	{ID: "precision.accumulator-in-the-half-type", Name: "accumulator in the half type", Verdict: precise, Rounding: true, Slow: true, Advice: accumulates},
	{ID: "precision.accumulator-in-the-half-type-by-blocks", Name: "accumulator in the half type, rounded after each %d terms", Verdict: precise, Rounding: true, Slow: true, Advice: accumulates},
	{ID: "precision.accumulator-in-bfloat16-rounded-after-each-terms", Name: "accumulator in bfloat16, rounded after each %d terms", Verdict: precise, Rounding: true, Slow: true, Advice: accumulates},
	{ID: "precision.partial-sums-in-the-half-type", Name: "%d partial sums in the half type", Verdict: precise, Rounding: true, Slow: true, Advice: accumulates},
}
