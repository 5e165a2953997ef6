package oracle

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/diff"
)

// TestSentences: each sentence of a check's text that concludes something is there when
// it is true, and is not when it is false.
func TestSentences(t *testing.T) {
	growth, horizon := diff.Number(1.5), 7
	steps := func(wrong ...bool) (all []StepRow) {
		for i, w := range wrong {
			all = append(all, StepRow{Step: i + 1, R64: 1.21, MaxAbs: 0.5, Violation: w})
		}
		return all
	}
	fail := func(v Verdict, gate string, edit ...func(*Report)) *Report {
		r := &Report{Verdict: v, FirstStep: 1, FirstRealization: -1, Shape: [5]int{1, 4, 1, 4, 4}, Steps: steps(true, false, true),
			Findings: []Finding{{Verdict: v, Gate: gate, Step: 1, Realization: -1, Text: "something is off"}}}
		for _, f := range edit {
			f(r)
		}
		return r
	}
	pass := func(v Verdict, edit ...func(*Report)) *Report {
		r := &Report{Verdict: v, FirstStep: -1, FirstRealization: -1, Claim: "float32/x", Contract: "float32/x", Shape: [5]int{2, 4, 1, 4, 4}, Steps: steps(false, false, false),
			OneStep: StepError{MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: 0.9}, Expected: StepError{MaxAbs: 0.6, MeanAbs: 0.1}}
		for _, f := range edit {
			f(r)
		}
		return r
	}
	known := func(r *Report) { r.Diagnosis, r.Findings[0].Diagnosis = "eps left out", "eps left out" }
	layered := func(r *Report) { r.Layers = []LayerRow{{Name: "a"}} }
	set := func(f func(*Report)) func(*Report) { return f }
	nothing := func(edit ...func(*Report)) *Report {
		r := pass(NoPower, edit...)
		return r
	}
	for _, k := range []struct {
		says      string
		is, isNot *Report
	}{
		{"computes another function than this operator", fail(FailLogic, "accuracy"), fail(FailPrecision, "accuracy")},
		{"computes this operator, but with errors that the claimed arithmetic does not have", fail(FailPrecision, "accuracy", known), fail(FailLogic, "accuracy", known)},
		{"a coarser one could have them", fail(FailPrecision, "conformity"), fail(FailPrecision, "conformity", known)},
		{"The noise is not the one that was specified", fail(FailRNG, "noise"), fail(FailRollout, "rollout")},
		{"not those of a rollout of this operator", fail(FailRollout, "rollout"), fail(FailRNG, "noise")},
		{"The error of that step is 1.1 times what the claim makes one expect", fail(FailLogic, "accuracy"), fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps[0].R64 = diff.Number(math.NaN()) }))},
		{"The error of that step is", fail(FailLogic, "accuracy"), fail(FailLogic, "structure", set(func(r *Report) { r.Findings[0].Excess = diff.Number(math.Inf(1)) }))},
		{"The error of that step is", fail(FailLogic, "accuracy"), fail(FailLogic, "accuracy", set(func(r *Report) { r.FirstStep = 9 }))},
		{"All 3 steps that were looked at show it", fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true, true, true) })), fail(FailLogic, "accuracy")},
		{"that were looked at show it", fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true, true) })), fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true) }))},
		{"2 of 3 steps show it", fail(FailLogic, "accuracy"), fail(FailLogic, "structure")},
		{"The other 2 steps are right", fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true, false, false) })), fail(FailLogic, "accuracy")},
		{"The other 2 steps are right", fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true, false, false) })),
			fail(FailLogic, "accuracy", set(func(r *Report) {
				r.Steps = steps(true, false, false)
				r.Steps[2].R64 = diff.Number(math.NaN()) // nothing of it could be compared
			}))},
		{"a fault that comes and goes", fail(FailLogic, "accuracy", set(func(r *Report) { r.Steps = steps(true, false, false) })),
			fail(FailLogic, "accuracy", known, set(func(r *Report) { r.Steps = steps(true, false, false) }))},
		{"The cause is known: eps left out", fail(FailLogic, "accuracy", known), fail(FailLogic, "accuracy")},
		{"No fault of the library explains it", fail(FailLogic, "accuracy"), fail(FailLogic, "accuracy", known)},
		{"Next: record the layers of one step", fail(FailLogic, "accuracy"), fail(FailLogic, "accuracy", layered)},
		{"Next: record the layers of one step", fail(FailLogic, "accuracy"), fail(FailLogic, "accuracy", set(func(r *Report) { r.FirstLayer = "a" }))},
		{"Next: record the layers of one step", fail(FailLogic, "accuracy"), fail(FailRNG, "noise")},

		{"Every step that was checked is what float32/x gives", pass(PassConforming), pass(PassAccurate, set(func(r *Report) { r.Contract = "float64/x" }))},
		{"Every step that was checked is what float32/x gives", pass(PassConforming), pass(PassConforming, set(func(r *Report) { r.Noise.Stream = unknownNoise }))},
		{"with noise of the specified kind, as exactly as that noise lets it be seen", pass(PassConforming, set(func(r *Report) { r.Noise.Stream = unknownNoise })), pass(PassConforming)},
		{"is as accurate as float32/x or better", pass(PassAccurate, set(func(r *Report) { r.Contract = "float64/x" })), pass(PassConforming)},
		{"by another contract: float64/x", pass(PassAccurate, set(func(r *Report) { r.Contract = "float64/x" })), pass(PassAccurate, set(func(r *Report) { r.Contract = "" }))},
		{"which contract it keeps was not identified", pass(PassAccurate, set(func(r *Report) { r.Contract = "" })), pass(PassAccurate, set(func(r *Report) { r.Contract, r.Pattern = "", "stores conv" }))},
		{"Checked: 3 steps of 2 realizations", pass(PassConforming), fail(FailLogic, "accuracy")},
		{"and 1 recorded layer", pass(PassConforming, layered), pass(PassConforming)},
		{"the RMS error of a step is 0.9 times", pass(PassConforming), pass(PassConforming, set(func(r *Report) { r.OneStep.RMSOverExpected = diff.Number(math.NaN()) }))},
		{"The draws are unknown", pass(PassConforming, set(func(r *Report) { r.Noise.Stream = unknownNoise })), pass(PassConforming)},
		{"This run could not have shown dropout", pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout"}} })), pass(PassConforming)},
		{"the probe impulse would", pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout", Probe: "impulse"}} })),
			pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout"}} }))},
		{"not visible at any size", pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout", Least: diff.Number(math.Inf(1))}} })),
			pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout", Least: 3}} }))},
		{"visible from 3 times its usual size on", pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout", Least: 3}} })),
			pass(PassConforming, set(func(r *Report) { r.Blind = []Blind{{Name: "dropout", Least: diff.Number(math.Inf(1))}} }))},
		{"Left out: filters", pass(PassConforming, set(func(r *Report) { r.Skipped = []string{"filters"} })), pass(PassConforming)},
		{"No fault was found, and none could have been: this is no pass", nothing(), pass(PassConforming)},
		{"No step of the trajectory could be looked at", nothing(), nothing(set(func(r *Report) { r.Findings = []Finding{{Verdict: NoPower, Text: "constant states"}} }))},
		{"Constant states.", nothing(set(func(r *Report) { r.Findings = []Finding{{Verdict: NoPower, Text: "constant states"}} })), nothing()},
		{"first at step 1", fail(FailLogic, "accuracy"), pass(PassConforming)},
		{"realization 2", fail(FailLogic, "accuracy", set(func(r *Report) { r.FirstRealization = 2 })), fail(FailLogic, "accuracy")},
		{"a small difference becomes 1.5 times as large in a step", pass(PassConforming, set(func(r *Report) { r.GrowthPerStep = &growth })), pass(PassConforming)},
		{"from step 7 on a comparison of free rollouts says nothing", pass(PassConforming, set(func(r *Report) { r.Horizon = &horizon })), pass(PassConforming, set(func(r *Report) { r.GrowthPerStep = &growth }))},
		{"one step  largest error", pass(PassConforming), pass(PassConforming, set(func(r *Report) { r.OneStep = StepError{} }))},
		{"; expected 0.6 and 0.1", pass(PassConforming), pass(PassConforming, set(func(r *Report) { r.Expected = StepError{} }))},
		{"pattern  stores conv", pass(PassConforming, set(func(r *Report) { r.Pattern = "stores conv" })), pass(PassConforming)},
		{"(1 more)", fail(FailLogic, "accuracy", set(func(r *Report) {
			for range mostFindings {
				r.Findings = append(r.Findings, r.Findings[0])
			}
		})), fail(FailLogic, "accuracy")},
		{"4 times its limit", fail(FailLogic, "accuracy", set(func(r *Report) { r.Findings[0].Excess = 4 })), fail(FailLogic, "accuracy", set(func(r *Report) { r.Findings[0].Excess = diff.Number(math.Inf(1)) }))},
	} {
		text := func(r *Report) string {
			r.Reason = r.explain()
			return strings.Join(strings.Fields(r.Text()), " ")
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
	small, large := &cuts{c: 1, h: 5, w: 2}, &cuts{c: 1, h: 9, w: 9}
	for _, k := range []struct {
		s    *cuts
		kind sliceKind
		want string
	}{
		{small, inWindow, "tile of 5x2 at (0,0) of realization 3"},
		{large, inWindow, "tile of 8x8 at (0,0) of realization 3"},
		{small, inSpot, "3x2 pixels at (0,0) of channel 0 of realization 3"},
		{large, inSpot, "3x3 pixels at (0,0) of channel 0 of realization 3"},
	} {
		if got := k.s.place(k.kind, 0, 3); got != k.want {
			t.Errorf("%q, want %q", got, k.want)
		}
	}
}
