package oracle

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/report"
)

// TestTypically: what a picture without a name is said to be typical of, and a neighbour
// of it of which that would be false.
func TestTypically(t *testing.T) {
	type picture struct {
		verdict           report.Verdict
		gate, slice, text string
	}
	say := func(p picture) string {
		return ruling{&report.Report{Verdict: p.verdict, Slice: p.slice}}.usually(report.Finding{
			Gate: p.gate, Verdict: p.verdict, Slice: p.slice, Layer: "narrow.ring", Text: "narrow.ring: " + p.text,
		})
	}
	const off = "errors are large"
	for _, c := range []struct {
		says      string
		is, isNot picture
	}{
		{"an overflow of a half type", picture{report.FailLogic, "structure", "", "state 1 holds NaN"},
			picture{report.FailLogic, "structure", "", "state 1 is state 2 again"}},
		{"an overflow of a half type", picture{report.FailLogic, "structure", "", "state 1 holds +Inf"},
			picture{report.FailLogic, "accuracy", "", "no information"}},
		{"a wrong padding mode", picture{report.FailLogic, "accuracy", "border", off},
			picture{report.FailLogic, "accuracy", "", "errors during a step"}},
		{"a tile that is not synchronised", picture{report.FailLogic, "accuracy", "tile of 8x8 at (8,8)", off},
			picture{report.FailLogic, "accuracy", "", off}},
		{"a tail loop that misses the last elements", picture{report.FailLogic, "accuracy", "row 5", off},
			picture{report.FailLogic, "accuracy", "", "too narrow"}},
		{"a tail loop that misses the last elements", picture{report.FailLogic, "accuracy", "column 5", off},
			picture{report.FailLogic, "probe", "", "the state is NaN at row 3, column 4"}},
		{"packed weights that are wrong above some width", picture{report.FailLogic, "accuracy", "channel 5", off},
			picture{report.FailPrecision, "accuracy", "channel 5", off}},
		{"packed weights that are wrong above some width", picture{
			report.FailLogic, "accuracy", "channel 5 of realization 1", off,
		}, picture{report.FailRNG, "noise", "channel 5", off}},
		{"packed weights that are wrong above some width", picture{report.FailLogic, "accuracy", "channel 5", off},
			picture{report.FailLogic, "accuracy", "element (3,4) of channel 5 of realization 1", off}},
		{"statistics of a norm", picture{report.FailPrecision, "accuracy", "channel 5", off},
			picture{report.FailLogic, "accuracy", "channel 5", off}},
		{"statistics of a norm", picture{report.FailPrecision, "accuracy", "channel 5", off},
			picture{report.FailPrecision, "accuracy", "3x3 pixels at (0,4) of channel 5 of realization 1", off}},
		{"a stride between the samples of a batch", picture{report.FailLogic, "accuracy", "realization 1", off},
			picture{report.FailLogic, "accuracy", "", off}},
		{"results that are cut off instead of rounded", picture{
			report.FailPrecision, "statistics", "", "errors lie on one side",
		}, picture{report.FailPrecision, "statistics", "", off}},
		{"whether TF32 is allowed", picture{report.FailPrecision, "accuracy", "", off},
			picture{report.FailLogic, "accuracy", "", off}},
		{"wrong weights, a wrong layout or a missing operation", picture{report.FailLogic, "accuracy", "", off},
			picture{report.FailPrecision, "accuracy", "", off}},
		{"another seed or offset", picture{report.FailRNG, "noise", "", off}, picture{report.FailLogic, "noise", "", off}},
		{"stored in the wrong place or too late", picture{report.FailRollout, "rollout", "", off},
			picture{report.FailLogic, "rollout", "", off}},
	} {
		if got := say(c.is); !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q: does not say %q", c.is, got, c.says)
		}
		if got := say(c.isNot); strings.Contains(got, c.says) {
			t.Errorf("%+v: says %q", c.isNot, got)
		}
	}
}
