package oracle

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// TestSentences: each sentence of a check's text that concludes something is there when
// it is true, and is not when it is false.
func TestSentences(t *testing.T) {
	growth, horizon := diff.Number(1.5), 7
	steps := func(wrong ...bool) (all []report.StepRow) {
		for i, w := range wrong {
			all = append(all, report.StepRow{Step: i + 1, R64: 1.21, MaxAbs: 0.5, Violation: w})
		}
		return all
	}
	fail := func(v report.Verdict, gate string, edit ...func(*report.Report)) *report.Report {
		r := &report.Report{Verdict: v,
			FirstStep: 1, FirstRealization: -1, Shape: []int{1, 4, 1, 4, 4}, Steps: steps(true, false, true),
			Findings: []report.Finding{{Verdict: v, Gate: gate, Step: 1, Realization: -1, Text: "something is off"}}}
		for _, f := range edit {
			f(r)
		}
		return r
	}
	pass := func(v report.Verdict, edit ...func(*report.Report)) *report.Report {
		r := &report.Report{Verdict: v, FirstStep: -1, FirstRealization: -1, Claim: "float32/x", Contract: "float32/x",
			Shape: []int{2, 4, 1, 4, 4}, Steps: steps(false, false, false), OneStep: report.StepError{
				MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: 0.9,
			}, Expected: report.StepError{MaxAbs: 0.6, MeanAbs: 0.1}}
		for _, f := range edit {
			f(r)
		}
		return r
	}
	known := func(r *report.Report) { r.Diagnosis, r.Findings[0].Diagnosis = "eps left out", "eps left out" }
	unjudged := func(r *report.Report) { r.Unjudged = []string{"layers of b"} }
	layered := func(r *report.Report) { r.Layers = []report.LayerRow{{Name: "a"}} }
	set := func(f func(*report.Report)) func(*report.Report) { return f }
	nothing := func(edit ...func(*report.Report)) *report.Report {
		r := pass(report.NoPower, edit...)
		return r
	}
	for _, k := range []struct {
		says      string
		is, isNot *report.Report
	}{
		{"computes another function than this operator", fail(report.FailLogic, "accuracy"),
			fail(report.FailPrecision, "accuracy")},
		{"computes this operator, but with errors that the claimed arithmetic does not have",
			fail(report.FailPrecision, "accuracy", known), fail(report.FailLogic, "accuracy", known)},
		{"a coarser one could have them", fail(report.FailPrecision, "accuracy"),
			fail(report.FailPrecision, "accuracy", known)},
		{"The noise is not the one that was specified", fail(report.FailRNG, "noise"), fail(report.FailRollout, "rollout")},
		{"not those of a rollout of this operator", fail(report.FailRollout, "rollout"), fail(report.FailRNG, "noise")},
		{
			"The error of that step is 1.1 times what the claim makes one expect", fail(report.FailLogic, "accuracy"),
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.Steps[0].R64 = diff.Number(math.NaN()) })),
		},
		{"The error of that step is", fail(report.FailLogic, "accuracy"), fail(report.FailLogic, "structure",
			set(func(r *report.Report) { r.Findings[0].Excess = diff.Number(math.Inf(1)) }))},
		{"The error of that step is", fail(report.FailLogic, "accuracy"),
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.FirstStep = 9 }))},
		{"All 3 steps that were looked at show it", fail(report.FailLogic, "accuracy",
			set(func(r *report.Report) { r.Steps = steps(true, true, true) })), fail(report.FailLogic, "accuracy")},
		{"that were looked at show it", fail(
			report.FailLogic, "accuracy", set(func(r *report.Report) { r.Steps = steps(true, true) }),
		), fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.Steps = steps(true) }))},
		{"2 of 3 steps show it", fail(report.FailLogic, "accuracy"), fail(report.FailLogic, "structure")},
		{"The other 2 steps are right", fail(report.FailLogic, "accuracy",
			set(func(r *report.Report) { r.Steps = steps(true, false, false) })), fail(report.FailLogic, "accuracy")},
		{"The other 2 steps are right",
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.Steps = steps(true, false, false) })),
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) {
				r.Steps = steps(true, false, false)
				r.Steps[2].R64 = diff.Number(math.NaN()) // nothing of it could be compared
			}))},
		{"a fault that comes and goes",
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.Steps = steps(true, false, false) })),
			fail(report.FailLogic, "accuracy", known, set(func(r *report.Report) { r.Steps = steps(true, false, false) }))},
		{"The cause is known: eps left out", fail(report.FailLogic, "accuracy", known), fail(report.FailLogic, "accuracy")},
		{"No fault of the library explains it", fail(report.FailLogic, "accuracy"),
			fail(report.FailLogic, "accuracy", known)},
		{"Next: record the layers of one step", fail(report.FailLogic, "accuracy"),
			fail(report.FailLogic, "accuracy", layered)},
		{"Next: record the layers of one step", fail(report.FailLogic, "accuracy"),
			fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.FirstLayer = "a" }))},
		{"Next: record the layers of one step", fail(report.FailLogic, "accuracy"), fail(report.FailRNG, "noise")},

		{"Every step that was checked is what float32/x gives", pass(report.PassConforming),
			pass(report.PassAccurate, set(func(r *report.Report) { r.Contract = "float64/x" }))},
		{"Every step that was checked is what float32/x gives", pass(report.PassConforming),
			pass(report.PassConforming, set(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise }))},
		{"with noise of the specified kind, as exactly as that noise lets it be seen", pass(report.PassConforming,
			set(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise })), pass(report.PassConforming)},
		{"is as accurate as float32/x or better", pass(report.PassAccurate,
			set(func(r *report.Report) { r.Contract = "float64/x" })), pass(report.PassConforming)},
		{"by another contract: float64/x", pass(
			report.PassAccurate, set(func(r *report.Report) { r.Contract = "float64/x" }),
		), pass(report.PassAccurate, set(func(r *report.Report) { r.Contract = "" }))},
		{"which contract it keeps was not identified", pass(
			report.PassAccurate, set(func(r *report.Report) { r.Contract = "" }),
		), pass(report.PassAccurate, set(func(r *report.Report) { r.Contract = "stores conv" }))},
		{"Checked: 3 steps of 2 realizations", pass(report.PassConforming), fail(report.FailLogic, "accuracy")},
		{"and 1 recorded layer", pass(report.PassConforming, layered), pass(report.PassConforming)},
		{"the RMS error of a step is 0.9 times", pass(report.PassConforming), pass(report.PassConforming,
			set(func(r *report.Report) { r.OneStep.RMSOverExpected = diff.Number(math.NaN()) }))},
		{"; from exact arithmetic with the claim's operands, the RMS error of a step is 1.4 times",
			pass(report.PassAccurate, set(func(r *report.Report) { r.OneStep.RMSOverExpected = 1.4 })),
			pass(report.PassConforming, set(func(r *report.Report) { r.OneStep.RMSOverExpected = 1.4 }))},
		{"from exact arithmetic with the claim's operands", pass(report.PassAccurate,
			set(func(r *report.Report) { r.OneStep.RMSOverExpected = 1.4 })), pass(report.PassAccurate)},
		{"The draws are unknown", pass(report.PassConforming,
			set(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise })), pass(report.PassConforming)},
		{"This run could not have shown dropout", pass(report.PassConforming,
			set(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout"}} })), pass(report.PassConforming)},
		{"the probe impulse would", pass(report.PassConforming,
			set(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout", Probe: "impulse"}} })),
			pass(report.PassConforming, set(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout"}} }))},
		{"not visible at any size", pass(report.PassConforming, set(func(r *report.Report) {
			r.Blind = []report.Blind{{Name: "dropout", Least: diff.Number(math.Inf(1))}}
		})),
			pass(report.PassConforming, set(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout", Least: 3}} }))},
		{"visible from 3 times its usual size on", pass(report.PassConforming,
			set(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout", Least: 3}} })),
			pass(report.PassConforming, set(func(r *report.Report) {
				r.Blind = []report.Blind{{Name: "dropout", Least: diff.Number(math.Inf(1))}}
			}))},
		{"Left out: filters", pass(report.PassConforming,
			set(func(r *report.Report) { r.Skipped = []string{"filters"} })), pass(report.PassConforming)},
		{"Not judged: layers of b.", pass(report.NoPower, unjudged), pass(report.NoPower)},
		{"No fault was found in what was judged: this is no pass", pass(report.NoPower, unjudged), nothing()},
		{"No fault was found, and a small one would not have shown in the states: this is no pass", nothing(),
			pass(report.PassConforming)},
		{"Nor did what was recorded of layers show one: 2 outputs",
			nothing(set(func(r *report.Report) { r.Layers = make([]report.LayerRow, 2) })), nothing()},
		{"record the layers of a step, or let", nothing(),
			nothing(set(func(r *report.Report) { r.Layers = make([]report.LayerRow, 2) }))},
		{"more steps or pixels), or let the device run",
			nothing(set(func(r *report.Report) { r.Layers = make([]report.LayerRow, 2) })), nothing()},
		{"No step of the trajectory could be looked at", nothing(), nothing(set(func(r *report.Report) {
			r.Findings = []report.Finding{{Verdict: report.NoPower, Text: "constant states"}}
		}))},
		{"Constant states.", nothing(set(func(r *report.Report) {
			r.Findings = []report.Finding{{Verdict: report.NoPower, Text: "constant states"}}
		})), nothing()},
		{"first at step 1", fail(report.FailLogic, "accuracy"), pass(report.PassConforming)},
		{"realization 2", fail(report.FailLogic, "accuracy", set(func(r *report.Report) { r.FirstRealization = 2 })),
			fail(report.FailLogic, "accuracy")},
		{"a small difference becomes 1.5 times as large in a step", pass(report.PassConforming,
			set(func(r *report.Report) { r.GrowthPerStep = &growth })), pass(report.PassConforming)},
		{"from step 7 on a comparison of free rollouts says nothing", pass(
			report.PassConforming, set(func(r *report.Report) { r.Horizon = &horizon }),
		), pass(report.PassConforming, set(func(r *report.Report) { r.GrowthPerStep = &growth }))},
		{"one step  largest error", pass(report.PassConforming),
			pass(report.PassConforming, set(func(r *report.Report) { r.OneStep = report.StepError{} }))},
		{"; expected 0.6 and 0.1", pass(report.PassConforming),
			pass(report.PassConforming, set(func(r *report.Report) { r.Expected = report.StepError{} }))},
		{"(1 more)", fail(report.FailLogic, "accuracy", set(func(r *report.Report) {
			for range 5 { // which the text shows
				r.Findings = append(r.Findings, r.Findings[0])
			}
		})), fail(report.FailLogic, "accuracy")},
		{"4 times its limit", fail(
			report.FailLogic, "accuracy", set(func(r *report.Report) { r.Findings[0].Excess = 4 }),
		), fail(report.FailLogic, "accuracy",
			set(func(r *report.Report) { r.Findings[0].Excess = diff.Number(math.Inf(1)) }))},
	} {
		text := func(r *report.Report) string {
			r.Reason = ruling{r}.explain()
			return strings.Join(strings.Fields(render.Text(r)), " ")
		}
		says := strings.Join(strings.Fields(k.says), " ")
		if got := text(k.is); !strings.Contains(got, says) {
			t.Errorf("does not say %q where it is true:\n%s", says, got)
		}
		if got := text(k.isNot); strings.Contains(got, says) {
			t.Errorf("says %q where it is false:\n%s", says, got)
		}
	}
}

// TestTileOfSmallImages: places are called by the size that they have.
func TestTileOfSmallImages(t *testing.T) {
	small, large := &measure.Cuts{C: 1, H: 5, W: 2}, &measure.Cuts{C: 1, H: 9, W: 9}
	for _, k := range []struct {
		s    *measure.Cuts
		kind measure.SliceKind
		want string
	}{
		{small, measure.InWindow, "tile of 5x2 at (0,0) of realization 3"},
		{large, measure.InWindow, "tile of 8x8 at (0,0) of realization 3"},
		{small, measure.InSpot, "3x2 pixels at (0,0) of channel 0 of realization 3"},
		{large, measure.InSpot, "3x3 pixels at (0,0) of channel 0 of realization 3"},
	} {
		if got := k.s.Place(k.kind, 0, 3); got != k.want {
			t.Errorf("%q, want %q", got, k.want)
		}
	}
}
