package oracle

import (
	"slices"
	"strings"
	"unicode"

	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/report"
)

// typically says what a finding without a name is usually made of, by what is
// known about its place and kind; text holds the slice and the figures, and no names
// of layers.
func typically(v report.Verdict, gate, text string) string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return says(text, w) })
	}
	switch {
	case gate == "structure" && has("nan", "inf"):
		return "an overflow of a half type, a square or an exponential that is not clamped, or a variance that became negative"
	case gate == "structure" || gate == "probe":
		return "" // its text says what it is
	case strings.HasPrefix(text, "element (") || strings.Contains(text, " pixels at ("):
		return "" // its channel and realization are where it happens to be
	case has("border", "edge", "ring", "halo"):
		return "a wrong padding mode, or of a halo that is read one pixel off"
	case has("tile", "period", "block of"):
		return "a tile that is not synchronised, or of the last, partial tile of an image"
	case has("row", "column"):
		return "a stride, or of a tail loop that misses the last elements"
	case v == report.FailRNG:
		return "another seed or offset, another order of the draws, or a scale"
	case v != report.FailPrecision && has("channel"):
		return "packed weights that are wrong above some width, or of a stride between channels"
	case v == report.FailPrecision && has("channel"):
		return "statistics of a norm that are wrong for channels with a small or an unbalanced spread"
	case has("realization", "sample"):
		return "a stride between the samples of a batch"
	case v == report.FailPrecision && has("bias", "one side", "truncated"):
		return "results that are cut off instead of rounded"
	case v == report.FailPrecision && gate == "conformity":
		return "partial sums that are kept in a narrower type than claimed (split-K, workspace type), or of an operation in another precision"
	case v == report.FailPrecision:
		return "sums or operands in a narrower type than claimed: check the accumulator, the reduction type of split-K, and whether TF32 is allowed"
	case v == report.FailLogic:
		return "wrong weights, a wrong layout or a missing operation"
	case v == report.FailRollout:
		return "states that are stored in the wrong place or too late"
	}
	return ""
}

// says reports whether a text has a word or several, as words of their own: "eps" is in
// neither "keeps" nor "steps". Their plural counts.
func says(text, words string) bool {
	letter := func(s string, at int) bool { return at >= 0 && at < len(s) && unicode.IsLetter(rune(s[at])) }
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(words)
		if end < len(text) && text[end] == 's' {
			end++
		}
		if !letter(text, at-1) && !letter(text, end) {
			return true
		}
		from = at + 1
	}
}

// advice says what to look at for a diagnosis, as a sentence; "" if nothing beyond its
// name, or if it names two faults and that is not the same for both.
func advice(diagnosis string) string {
	same := ""
	for i, name := range strings.Split(diagnosis, match.Either) {
		text := ""
		if c := slices.IndexFunc(causes, func(c cause) bool {
			return slices.ContainsFunc(c.words, func(w string) bool { return says(name, w) })
		}); c >= 0 {
			text = causes[c].text
		}
		if i > 0 && text != same {
			return ""
		}
		same = text
	}
	return same
}

// cause is advice for diagnoses that have one of the words.
type cause struct {
	words []string
	text  string
}

const (
	approximated = "Look at how the activation is approximated, and in which type its constants are."
	otherDraws   = "Look at seed, offset and the order in which numbers are drawn."
)

// causes has the advice, of which the first that fits counts.
var causes = []cause{
	{[]string{"in place of the claimed mode"}, "Look at whether autocast was on, and for which device: or claim what was run."},
	{[]string{"products for one"}, "Look at the emulation of float32 products by narrower ones: it leaves out too many terms."},
	{[]string{"tf32", "TF32"}, "Look at torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32: or claim tf32."},
	{[]string{"accumulator", "partial sums"}, "Look at the accumulator's type, the workspace of split-K, and torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction."},
	{[]string{"coefficients in"}, approximated},
	{[]string{"tanh GELU"}, "The device takes the approximation of GELU by tanh: approximate=\"none\" is the exact one, or name gelu_tanh as the activation."},
	{[]string{"GELU", "SiLU", "swish", "tanh by", "tanh of", "activation from a table"}, approximated},
	{[]string{"unbiased variance"}, "The variance is divided by N-1: x.var() is unbiased unless told otherwise."},
	{[]string{"eps"}, "Look at where eps is added, its value, and the type of that sum."},
	{[]string{"one-pass variance"}, "The variance is formed as the mean of squares minus the square of the mean, which cancels: take two passes or Welford's method."},
	{[]string{"statistics in", "statistics added up", "variance of differences", "1/sqrt", "gamma and beta in", "quotient in"}, "Norms are computed in a half type: their statistics belong into float32."},
	{[]string{"tails of block", "tails up to", "enters the statistics", "rounded up to"}, "Look at the reduction's mask: lanes beyond the end are counted."},
	{[]string{"truncated", "rounded up"}, "Look at the conversion: it must round to nearest even."},
	{[]string{"rounded twice"}, "Look at the conversion: a number passes through a type in between."},
	{[]string{"share one buffer"}, "States are stored by reference: clone each one."},
	{[]string{"stored one step late", "step not made", "old state", "state before the last", "stands still"}, "Look at which buffer is read and written when: a swap that is missing, a graph that replays old inputs, a copy that is not awaited."},
	{[]string{"alpha", "dt wrong", "dt in", "share wrong", "policy"}, "Look at the constants and the order of the blend."},
	{[]string{"state in", "state read in", "state read as", "state quantized", "state kept in"}, "The state is narrowed between steps, or when it was written: keep and dump it in the claimed type."},
	{[]string{"stored in", "computed in"}, "Something is kept in a narrower type than claimed: look for a cast that is not in the claim."},
	{[]string{"padding", "halo", "window shifted"}, "Look at the padding mode and at the offsets of the halo."},
	{[]string{"not written", "left out", "incomplete block"}, "Look at the tail of the kernel: sizes that are no multiple of its block."},
	{[]string{"tile", "row before", "overwritten while"}, "Look at synchronisation: something is read before it is written."},
	{[]string{"noise in float16", "noise in bfloat16"}, "The draws are rounded to a half type before they are added, where the claim does not."},
	{[]string{"noise before", "after the noise", "noise in place", "another way", "no noise", "without noise", "noise missing", "wrong sign", "other sign", "dropout missing", "dropout is off"}, "Look at where the noise enters the operator, and how."},
	{[]string{"other dropout masks"}, otherDraws},
	{[]string{"noise scale", "noise not", "noise cut off", "noise in steps", "another distribution", "uniform noise", "Laplace noise", "without its sign", "a mean", "for normal", "dropout"},
		"Look at the formula that turns uniform numbers into draws, and at its scale."},
	{[]string{"channels-first", "channels-last", "read as", "swapped", "transposed", "reversed", "in another order"}, "Look at the memory layout: strides, NCHW or NHWC, the order of packed weights."},
	{[]string{"same noise", "share their noise", "overlap", "seeded"}, "Look at how the generator is seeded, and at graphs that replay their constants."},
	{[]string{"noise"}, otherDraws},
}
