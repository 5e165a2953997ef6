package oracle

import (
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/report"
)

// alikeName writes a name so that those of one family are the same: other numbers, the other
// half type, other paddings.
func alikeName(name string) string {
	name = strings.NewReplacer("bfloat16", "float16", "circular", "zeros", "reflect", "zeros", "replicate", "zeros", "silu", "relu").Replace(name)
	return regexp.MustCompile(`-?\d+(\.\d+)?(e-\d+)?`).ReplaceAllString(name, "#")
}

// TestAdvice: the names of the faults, by what is advised for them and by nothing else.
// Each fault of the library is among them; the last ones have no advice.
func TestAdvice(t *testing.T) {
	known := map[string]string{}
	for _, c := range []struct {
		advice string
		names  []string
	}{
		{"Look at whether autocast was on, and for which device: or claim what was run.", []string{
			"float16/autocast-cuda in place of the claimed mode", "float16/autocast-cpu in place of the claimed mode",
		}},
		{"Look at the emulation of float32 products by narrower ones: it leaves out too many terms.", []string{
			"three bfloat16 products for one of float32", "two tf32 products for one of float32", "two bfloat16 products for one of float32",
		}},
		{"Look at torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32: or claim tf32.", []string{
			"operands in tf32", "operands in tf32, ties away from zero", "operands truncated to tf32",
		}},
		{"Look at the accumulator's type, the workspace of split-K, and torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction.", []string{
			"accumulator in the half type", "accumulator in the half type, rounded after each 4 terms", "accumulator in bfloat16, rounded after each 1 terms", "2 partial sums in the half type",
		}},
		{"Look at how the activation is approximated, and in which type its constants are.", []string{
			"sigmoid GELU", "erf GELU", "tanh GELU with coefficients in float16", "hard swish", "tanh by x(27+x^2)/(27+9x^2)", "GELU with 1/sqrt 2 as 0.7071", "GELU with coefficients in float16",
			"SiLU of 1.0001 x", "tanh of 1.0001 x", "activation from a table in steps of 1/16", "erf GELU or sigmoid GELU",
		}},
		{"The device takes the approximation of GELU by tanh: approximate=\"none\" is the exact one, or name gelu_tanh as the activation.", []string{
			"tanh GELU",
		}},
		{"The variance is divided by N-1: x.var() is unbiased unless told otherwise.", []string{
			"unbiased variance",
		}},
		{"Look at where eps is added, its value, and the type of that sum.", []string{
			"eps outside the square root", "eps missing", "eps 1e-04", "1/sqrt(var+eps) in float16", "eps lost in a sum in float16",
		}},
		{"The variance is formed as the mean of squares minus the square of the mean, which cancels: take two passes or Welford's method.", []string{
			"one-pass variance in float32", "one-pass variance of squares in float16",
		}},
		{"Norms are computed in a half type: their statistics belong into float32.", []string{
			"statistics in float16", "variance of differences in float16", "statistics added up in float16", "gamma and beta in float16", "x-mean and its quotient in float16",
		}},
		{"Look at the reduction's mask: lanes beyond the end are counted.", []string{
			"tails of blocks of 128 enter the statistics", "tails up to a power of 2 enter the statistics", "a block of 128 zeros enters the statistics", "sums divided by a count rounded up to 128",
		}},
		{"Look at the conversion: it must round to nearest even.", []string{
			"operands truncated to float16", "weights truncated to float16", "convolution inputs truncated to float16", "convolution inputs truncated to 23 bits", "results truncated when stored",
			"results rounded up when stored", "results of convolutions truncated when stored", "results of convolutions rounded up when stored", "results of norms truncated when stored",
			"results of norms rounded up when stored", "results of activations truncated when stored", "results of activations rounded up when stored",
		}},
		{"Look at the conversion: a number passes through a type in between.", []string{
			"results of convolutions rounded twice, by 1 more bits first",
		}},
		{"States are stored by reference: clone each one.", []string{
			"stored states share one buffer",
		}},
		{"Look at which buffer is read and written when: a swap that is missing, a graph that replays old inputs, a copy that is not awaited.", []string{
			"realization stands still", "state before the last in the policy", "operator reads the state before the last", "states stored one step late", "step not made", "operator reads an old state",
			"step from an old state",
		}},
		{"Look at the constants and the order of the blend.", []string{
			"alpha wrong", "dt wrong", "operator's share wrong", "state's share wrong", "alpha or dt in float16", "alpha in float16, and 1-alpha of it", "alpha in place of 1-alpha",
			"policy applied twice", "convex policy in place of residual", "alpha and 1 - alpha swapped", "another policy", "weights of the policy wrong", "alpha 0.35 in place of 0.3",
			"alpha and 1-alpha swapped", "autoregressive policy in place of convex", "residual policy in place of convex",
		}},
		{"The state is narrowed between steps, or when it was written: keep and dump it in the claimed type.", []string{
			"state in float16", "state read in float16", "state in steps of a 127th of its largest number", "state read as bfloat16", "state kept in float16", "state quantized",
		}},
		{"Something is kept in a narrower type than claimed: look for a cast that is not in the claim.", []string{
			"activation computed in float16", "results of convolutions stored in float16", "results of norms stored in float16", "results of activations stored in float16", "results of residual sums stored in float16",
			"all results stored in float16",
		}},
		{"Look at the padding mode and at the offsets of the halo.", []string{
			"zeros padding", "zeros padding of rows only", "zeros padding of columns only", "halo row beyond the first reads row 1 from there", "halo column beyond the first reads column 1 from there",
			"halo row beyond the last reads row 1 from there", "halo column beyond the last reads column 1 from there", "window shifted by (-1,-1)",
		}},
		{"Look at the tail of the kernel: sizes that are no multiple of its block.", []string{
			"input channels of an incomplete block of 4 not read", "terms after the last whole block of 4 left out", "rows of an incomplete block of 4 not written", "columns of an incomplete block of 4 not written",
			"last sample not written", "last row not written", "last column not written", "part of the state is not written",
		}},
		{"Look at synchronisation: something is read before it is written.", []string{
			"first row of each block of 4 is the row before", "state overwritten while it is read",
		}},
		{"The draws are rounded to a half type before they are added, where the claim does not.", []string{
			"noise in float16",
		}},
		{"Look at where the noise enters the operator, and how.", []string{
			"channel 0 without noise", "activation after the noise", "multiplicative noise in place of additive", "additive noise in place of multiplicative", "one realization without noise",
			"dropout missing", "noise before the norm", "noise before the activation", "noise before the last convolution block", "no noise", "noise of the wrong sign", "noise enters in another way",
			"noise missing in some channels", "dropout is off", "noise missing", "noise of the other sign",
		}},
		{"Look at the formula that turns uniform numbers into draws, and at its scale.", []string{
			"noise scale", "uniform noise for normal", "Laplace noise for normal", "noise cut off at 2 standard deviations", "noise in steps of 1", "noise not centred (absolute value)",
			"laplace noise without its sign", "dropout not rescaled", "dropout rescaled twice", "dropout rescaled by p for 1-p", "dropout keeps what it should drop", "dropout keeps what it should drop, p and 1-p swapped",
			"dropout as in evaluation, scaled by 1-p", "dropout of elements, not of channels", "noise scale wrong", "noise scale squared", "noise scale larger by the root of 2", "noise scale differs by channel",
			"dropout with p and 1-p swapped", "dropout factors wrong", "dropout rate wrong", "noise scale changes with the steps", "noise scale of one realization",
			"noise has a mean", "noise of another distribution", "uniform noise", "Laplace noise", "noise scale times sqrt 2", "noise scale divided by sqrt 2", "noise scale doubled (noise added twice)",
			"noise scale times 1.5", "noise with a mean of 0.1",
		}},
		{"Look at the memory layout: strides, NCHW or NHWC, the order of packed weights.", []string{
			"noise transposed", "noise of rows read as columns", "noise drawn channels-last", "state's H and W swapped", "kernel rows and columns swapped", "weights read as [IC,OC]",
			"weights read as [OC,K,K,IC]", "weights stored as [OC,K,K,IC] read as [OC,IC,K,K]", "input channels reversed", "output channels reversed", "first two taps swapped", "last two taps swapped",
			"first taps of the first two rows swapped", "first and last tap swapped", "first two rows of the kernel swapped", "first two columns of the kernel swapped", "H and W swapped",
			"channels-last input read as channels-first", "channels-first input read as channels-last", "results' channels reversed", "results' H and W swapped", "channels in another order",
		}},
		{"Look at how the generator is seeded, and at graphs that replay their constants.", []string{
			"noise seeded by realization",
			"the same noise for all samples", "the same noise for all channels", "the same noise at every step", "the same noise for all realizations", "every engine batch has the same noise",
			"all channels share their noise", "realizations share their noise", "steps share their noise", "seeds overlap",
		}},
		{"Look at seed, offset and the order in which numbers are drawn.", []string{
			"other dropout masks",
			"noise of the step before", "noise of the next step", "noise of two steps before", "noise of the step after the next", "noise of the sample before", "noise of the next sample",
			"noise of the channel before", "noise of the next channel", "realizations have each other's noise", "noise in equal pairs", "noise flipped left to right", "noise flipped top to bottom",
			"mean of the noise", "noise of the first step", "noise stream off by -8 numbers", "noise differs from the specified draws", "another noise stream", "noise of another step",
			"noise of another realization", "noise of another realization and step", "noise shifted in the stream", "noise differs between channels",
			"noise correlated in space",
		}},
		{"", []string{
			"hard tanh", "activation cut off above 2", "activation missing", "relu for the activation", "gelu for the activation", "tanh for the activation", "leaky relu (0.01) for the activation",
			"elu for the activation", "sigmoid for the activation", "relu6 for the activation", "absolute value for the activation", "activation applied twice", "tanh where there is no activation",
			"relu where there is no activation", "gelu where there is no activation", "divided by the variance, not its root", "not divided by the standard deviation", "mean not subtracted",
			"instance statistics", "layer statistics", "group statistics of 32 groups", "group statistics of 2 channels", "batch statistics", "statistics over all samples together",
			"running statistics of a fresh norm (mean 0, variance 1)", "statistics of the sample before", "statistics of the channel before", "statistics over the channels of each pixel",
			"statistics of every second row", "norm without gamma", "norm without beta", "norm without gamma and beta", "gamma applied twice", "beta applied twice", "norm missing",
			"gamma and beta of the next channel", "gamma and beta of the channel before", "state leaks", "state of another realization", "realizations change places", "normalization missing",
			"min-max in place of z-score", "z-score in place of min-max", "normalization of each realization in place of the batch", "normalization of the batch in place of each realization",
			"clamp missing", "clamp to [-1,1]", "mean of each channel removed from the state", "mean removed from the state", "state's channels in reverse order", "residual missing",
			"residual added twice", "residual block missing", "residual subtracted", "residual block added twice", "residual sum halved", "residual added before the activation", "activation after the residual sum too",
			"projection missing", "kernel flipped", "kernel flipped top to bottom", "kernel flipped left to right", "input channels first two", "output channels first two", "input channels shifted by one",
			"output channels shifted by one", "input channels shifted back by one", "output channels shifted back by one", "last input channel not read", "first input channel not read",
			"input channels from 8 on not read", "second half of the input channels not read", "filters moved by half of them", "input channels from 4 on shifted by one", "weights of the first other layer of that shape",
			"weights of the last other layer of that shape", "conv bias missing", "conv bias doubled", "kernel dilated by 2", "all samples read the first", "bias of the next channel",
			"bias of the channel before", "samples mixed up: each reads the one before", "results' channels first two", "results' channels shifted by one", "results' channels shifted back by one",
			"last channel's result is that of the one before", "results moved by (0,1), around the edge", "operands in float16", "weights in float16", "convolution inputs in float16",
			"weights of 8 bits per output channel", "weights of 8 bits", "residual sum of float16 numbers, in float16", "subnormal numbers flushed to zero", "normalization over other realizations",
			"another normalization", "state scaled", "clamp that was not asked for", "step from the start", "two states in each other's place", "two steps in one", "realizations in each other's place",
			"part of the state is another realization's", "a bit has flipped", "part of the state is stale", "realizations share a state", "state stored twice", "start not post-processed",
			"states stored one step early", "state times 1.01", "dt 0.2 in place of 0.1", "operator's output added whole", "weights 0.3 and 0.8, which do not add up to 1", "weights 0.3 and 0.8 of state and output",
			"eps missing or unbiased variance",
		}},
	} {
		for _, name := range c.names {
			known[alikeName(name)] = c.advice
			if got := advice(name); got != c.advice {
				t.Errorf("%s: %q, want %q", name, got, c.advice)
			}
		}
	}
	given := map[string]bool{}
	for _, h := range fault.Library() {
		want, ok := known[alikeName(h.Name)]
		if got := advice(h.Name); !ok || got != want {
			t.Errorf("%s: %q; in the table %v, %q", h.Name, got, ok, want)
		}
	}
	for _, want := range known {
		given[want] = true
	}
	for _, c := range causes {
		if !given[c.text] {
			t.Errorf("%q is advised for no fault of the table", c.text)
		}
	}
}

// TestTypically: what a picture without a name is said to be typical of, and a neighbour
// of it of which that would be false.
func TestTypically(t *testing.T) {
	type picture struct {
		verdict           report.Verdict
		gate, slice, text string
	}
	say := func(p picture) string {
		return ruling{&report.Report{Verdict: p.verdict, Slice: p.slice}}.usually(report.Finding{Gate: p.gate, Verdict: p.verdict, Slice: p.slice, Layer: "narrow.ring", Text: "narrow.ring: " + p.text})
	}
	const off = "errors are large"
	for _, c := range []struct {
		says      string
		is, isNot picture
	}{
		{"an overflow of a half type", picture{report.FailLogic, "structure", "", "state 1 holds NaN"}, picture{report.FailLogic, "structure", "", "state 1 is state 2 again"}},
		{"an overflow of a half type", picture{report.FailLogic, "structure", "", "state 1 holds +Inf"}, picture{report.FailLogic, "accuracy", "", "no information"}},
		{"a wrong padding mode", picture{report.FailLogic, "accuracy", "border", off}, picture{report.FailLogic, "accuracy", "", "errors during a step"}},
		{"a tile that is not synchronised", picture{report.FailLogic, "accuracy", "tile of 8x8 at (8,8)", off}, picture{report.FailLogic, "accuracy", "", off}},
		{"a tail loop that misses the last elements", picture{report.FailLogic, "accuracy", "row 5", off}, picture{report.FailLogic, "accuracy", "", "too narrow"}},
		{"a tail loop that misses the last elements", picture{report.FailLogic, "accuracy", "column 5", off}, picture{report.FailLogic, "probe", "", "the state is NaN at row 3, column 4"}},
		{"packed weights that are wrong above some width", picture{report.FailLogic, "accuracy", "channel 5", off}, picture{report.FailPrecision, "accuracy", "channel 5", off}},
		{"packed weights that are wrong above some width", picture{report.FailLogic, "accuracy", "channel 5 of realization 1", off}, picture{report.FailRNG, "noise", "channel 5", off}},
		{"packed weights that are wrong above some width", picture{report.FailLogic, "accuracy", "channel 5", off}, picture{report.FailLogic, "accuracy", "element (3,4) of channel 5 of realization 1", off}},
		{"statistics of a norm", picture{report.FailPrecision, "accuracy", "channel 5", off}, picture{report.FailLogic, "accuracy", "channel 5", off}},
		{"statistics of a norm", picture{report.FailPrecision, "accuracy", "channel 5", off}, picture{report.FailPrecision, "accuracy", "3x3 pixels at (0,4) of channel 5 of realization 1", off}},
		{"a stride between the samples of a batch", picture{report.FailLogic, "accuracy", "realization 1", off}, picture{report.FailLogic, "accuracy", "", off}},
		{"results that are cut off instead of rounded", picture{report.FailPrecision, "statistics", "", "errors lie on one side"}, picture{report.FailPrecision, "statistics", "", off}},
		{"partial sums that are kept in a narrower type", picture{report.FailPrecision, "conformity", "", off}, picture{report.FailPrecision, "accuracy", "", off}},
		{"whether TF32 is allowed", picture{report.FailPrecision, "accuracy", "", off}, picture{report.FailLogic, "accuracy", "", off}},
		{"wrong weights, a wrong layout or a missing operation", picture{report.FailLogic, "accuracy", "", off}, picture{report.FailPrecision, "accuracy", "", off}},
		{"another seed or offset", picture{report.FailRNG, "noise", "", off}, picture{report.FailLogic, "noise", "", off}},
		{"stored in the wrong place or too late", picture{report.FailRollout, "rollout", "", off}, picture{report.FailLogic, "rollout", "", off}},
	} {
		if got := say(c.is); !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q: does not say %q", c.is, got, c.says)
		}
		if got := say(c.isNot); strings.Contains(got, c.says) {
			t.Errorf("%+v: says %q", c.isNot, got)
		}
	}
}
