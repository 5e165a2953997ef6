package oracle

import (
	"slices"
	"strings"
	"unicode"

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
		return "an overflow of a half type, a square or an exponential that is not clamped, " +
			"or a variance that became negative"
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
	case v == report.FailPrecision:
		return "sums or operands in a narrower type than claimed: " +
			"check the accumulator, the reduction type of split-K, and whether TF32 is allowed"
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
