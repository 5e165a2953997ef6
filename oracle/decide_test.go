package oracle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/report"
)

// made returns a report with those findings about a run of ten steps, of which
// those in bad are marked.
func made(bad []int, findings ...report.Finding) *report.Report {
	r := &report.Report{
		FirstStep: -1, FirstRealization: -1, Claim: "claimed", Shape: []int{2, 11, 3, 8, 8}, Findings: findings,
	}
	for t := 1; t <= 10; t++ {
		r.Steps = append(r.Steps, report.StepRow{Step: t, R64: 1, MaxAbs: 0.125})
	}
	for _, t := range bad {
		r.Steps[t-1].Violation, r.Steps[t-1].R64 = true, 400
	}
	return r
}

// decided is what a verdict says in short.
type decided struct {
	verdict          report.Verdict
	step, m          int
	layer, slice, by string
}

func decideMade(r *report.Report) decided {
	ruling{r}.decide(layerOrder{map[string]int{"a": 0, "b": 1, "noisy": 2, "c": 3}, 2})
	return decided{r.Verdict, r.FirstStep, r.FirstRealization, r.FirstLayer, r.Slice, r.Diagnosis}
}

func TestDecideFailures(t *testing.T) {
	general := report.Finding{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: 1, Excess: 9}
	for name, k := range map[string]struct {
		findings []report.Finding
		want     decided
	}{
		"one": {[]report.Finding{general}, decided{report.FailPrecision, 3, 1, "", "", ""}},
		"the earlier step, however small": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 2, Realization: 0, Slice: "row 4", Excess: 1.1}},
			decided{report.FailLogic, 2, 0, "", "row 4", ""}},
		"logic before precision at one step": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 3, Realization: 0, Excess: 2}},
			decided{report.FailLogic, 3, 0, "", "", ""}},
		"a fault with a name before one without": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 3, Realization: 0, Excess: 99},
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: -1, Layer: "b",
				Diagnosis: "gelu-tanh", Excess: 20}},
			decided{report.FailPrecision, 3, 0, "b", "", "gelu-tanh"}},
		"a name found later does not name the first step": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 5, Realization: 0, Diagnosis: "stale tile", Excess: 20}},
			decided{report.FailPrecision, 3, 1, "", "", ""}},
		"a rollout that explains everything before a name": {[]report.Finding{general,
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Diagnosis: "gelu-tanh", Excess: 20},
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0,
				Diagnosis: "states shifted by one", Excess: 2}},
			decided{report.FailRollout, 3, 0, "", "", "states shifted by one"}},
		"weights that fit are less than a name": {[]report.Finding{general,
			{Verdict: report.FailRNG, Gate: "accuracy", Step: 3, Realization: -1, Layer: "noisy",
				Diagnosis: "noise with a mean of 0.1", Excess: 20},
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0,
				Diagnosis: "weights of the policy wrong", Weak: true, Excess: 99}},
			decided{report.FailRNG, 3, 0, "noisy", "", "noise with a mean of 0.1"}},
		"a layer that is wrong by itself refutes a rollout": {[]report.Finding{
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0,
				Diagnosis: "state of another realization", Excess: 99},
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "b", Excess: 2}},
			decided{report.FailLogic, 3, 0, "b", "", ""}},
		"a realization that stands still as the policy has it of zeros": {[]report.Finding{
			{Verdict: report.FailRollout, Gate: "structure", Step: 3, Realization: 1, ID: table.Frozen,
				Diagnosis: "realization stands still", Excess: 99},
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 1, Layer: "b", Excess: 2}},
			decided{report.FailLogic, 3, 1, "b", "", ""}},
		"a step that fits is less than a name": {[]report.Finding{
			{Verdict: report.FailRNG, Gate: "accuracy", Step: 3, Realization: 0, Diagnosis: "noise with a mean of 0.1",
				Excess: 2},
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "dt wrong",
				Weak: true, Excess: 9}},
			decided{report.FailRNG, 3, 0, "", "", "noise with a mean of 0.1"}},
		"the whole run counts as its first step": {[]report.Finding{general,
			{Verdict: report.FailRNG, Gate: "noise", Step: -1, Realization: -1, Excess: 2}},
			decided{report.FailRNG, 3, 1, "", "", ""}},
		"noise without a name before its layer": {[]report.Finding{
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "noisy", Excess: 90},
			{Verdict: report.FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "another noise stream",
				Weak: true, Excess: 2}},
			decided{report.FailRNG, 3, 0, "noisy", "", "another noise stream"}},
		"masks that cannot be known do not outrank a name": {[]report.Finding{
			{Verdict: report.FailRNG, Gate: "noise", Step: 3, Realization: 0,
				Diagnosis: "dropout of elements, not of channels", Weak: true, Excess: 99},
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: 0, Diagnosis: "gelu-tanh",
				Excess: 9}}, decided{report.FailPrecision, 3, 0, "", "", "gelu-tanh"}},
		"another layer refutes it": {[]report.Finding{
			{Verdict: report.FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "another noise stream",
				Weak: true, Excess: 2},
			{Verdict: report.FailPrecision, Gate: "bound", Step: 3, Realization: 0, Layer: "b", Excess: 9}},
			decided{report.FailPrecision, 3, 0, "b", "", ""}},
		"a fault with a name before any noise": {[]report.Finding{
			{Verdict: report.FailRNG, Gate: "noise", Step: 3, Realization: 0,
				Diagnosis: "noise differs from the specified draws", Weak: true, Excess: 99},
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: 0, Diagnosis: "gelu-tanh",
				Excess: 9}}, decided{report.FailPrecision, 3, 0, "", "", "gelu-tanh"}},
		"a rollout with a name before one without": {[]report.Finding{
			{Verdict: report.FailRollout, Gate: "bound", Step: 3, Realization: 0, Excess: 99},
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "alpha swapped",
				Excess: 2}}, decided{report.FailRollout, 3, 0, "", "", "alpha swapped"}},
		"a rollout before a layer": {[]report.Finding{
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "c", Excess: 90},
			{Verdict: report.FailRollout, Gate: "bound", Step: 3, Realization: 0, Excess: 2}},
			decided{report.FailRollout, 3, 0, "c", "", ""}},
		"structure before all": {[]report.Finding{
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 0, Excess: 2},
			{Verdict: report.FailLogic, Gate: "structure", Step: 3, Realization: 1, Excess: 2}},
			decided{report.FailLogic, 3, 1, "", "", ""}},
		"noise before a name of the operator's": {[]report.Finding{
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 3, Realization: 0, Diagnosis: "bias missing", Excess: 30},
			{Verdict: report.FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "noise of the step before", Excess: 3}},
			decided{report.FailRNG, 3, 0, "", "", "noise of the step before"}},
		"the first layer in order of execution": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "c", Excess: 90},
			{Verdict: report.FailPrecision, Gate: "statistics", Step: 3, Realization: 0, Layer: "b",
				Slice: "channel 2", Excess: 2}},
			decided{report.FailPrecision, 3, 0, "b", "channel 2", ""}},
		"layers of a later step show the first": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "bound", Step: 7, Realization: 1, Layer: "b", Excess: 90}},
			decided{report.FailLogic, 3, 1, "b", "", ""}},
		"layers know the layer better than a residual": {[]report.Finding{
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: 0, Layer: "c", Diagnosis: "tf32",
				Excess: 30},
			{Verdict: report.FailPrecision, Gate: "bound", Step: 3, Realization: 0, Layer: "a", Excess: 2}},
			decided{report.FailPrecision, 3, 0, "a", "", "tf32"}},
		"the place that another finding knows": {[]report.Finding{general,
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 3, Realization: 1, Slice: "channel 2"},
			{Verdict: report.FailRollout, Gate: "rollout", Step: 3, Realization: 1, Diagnosis: "stale"}},
			decided{report.FailRollout, 3, 1, "", "channel 2", "stale"}},
		"no place in the state for one in a layer": {[]report.Finding{
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 3, Realization: 1, Slice: "channel 2"},
			{Verdict: report.FailLogic, Gate: "bound", Step: 3, Realization: 1, Layer: "a"}},
			decided{report.FailLogic, 3, 1, "a", "", ""}},
		"no power, and yet a fault": {[]report.Finding{{Verdict: report.NoPower, Gate: "structure", Step: -1}, general},
			decided{report.FailPrecision, 3, 1, "", "", ""}},
		"no step at all": {[]report.Finding{
			{Verdict: report.FailRNG, Gate: "noise", Step: -1, Realization: -1},
		}, decided{report.FailRNG, -1, -1, "", "", ""}},
	} {
		r := made(nil, k.findings...)
		r.Contract = "claimed" // which a gate said too early
		if got := decideMade(r); got != k.want {
			t.Errorf("%s: %+v, want %+v", name, got, k.want)
		}
		if len(r.Findings) != len(k.findings) || r.Findings[0].Verdict != k.want.verdict {
			t.Errorf("%s: findings %+v: want all %d, the deciding one first", name, r.Findings, len(k.findings))
		}
	}
}

func TestDecidePasses(t *testing.T) {
	for name, k := range map[string]struct {
		edit func(*report.Report)
		want report.Verdict
	}{
		"the claim":      {func(r *report.Report) { r.Contract = "claimed" }, report.PassConforming},
		"another":        {func(r *report.Report) { r.Contract = "claimed, fused" }, report.PassAccurate},
		"unknown":        {func(r *report.Report) {}, report.PassAccurate},
		"nothing to see": {func(r *report.Report) { r.Contract, r.Steps = "claimed", nil }, report.NoPower},
		"only layers": {func(r *report.Report) {
			r.Contract, r.Steps, r.Layers = "claimed", nil, []report.LayerRow{{}}
		}, report.NoPower},
		"blind": {func(r *report.Report) {
			r.Contract, r.Findings = "claimed", []report.Finding{{Verdict: report.NoPower}}
		}, report.NoPower},
		"unjudged": {
			func(r *report.Report) { r.Contract, r.Unjudged = "claimed", []string{"layers of b"} }, report.NoPower,
		},
		"blind to a name": {func(r *report.Report) { r.Contract, r.Blind = "claimed", []report.Blind{{Name: "eps"}} },
			report.PassConforming},
	} {
		r := made(nil)
		k.edit(r)
		want := decided{verdict: k.want, step: -1, m: -1}
		if got := decideMade(r); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestReason: the reason says what is wrong, where, how large, and what to do,
// in whole sentences.
func TestReason(t *testing.T) {
	for name, k := range map[string]struct {
		r    *report.Report
		want []string
	}{
		"a rare fault": {made([]int{7}, report.Finding{
			Verdict: report.FailLogic, Gate: "accuracy", Step: 7, Realization: 1, Slice: "rows 0-7",
			Text: "80 of 192 elements are wrong",
		}), []string{"another function than this operator, first at step 7 of realization 1, rows 0-7. " +
			"80 of 192 elements are wrong. ",
			"The error of that step is 20 times what the claim makes one expect (RMS; its largest is 0.125).",
			"The other 9 steps are right: a fault that comes and goes", "record the layers of one step"}},
		"an unknown precision": {made([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, report.Finding{
			Verdict: report.FailPrecision, Gate: "accuracy", Step: 1, Realization: 0, Text: "Re is 3.",
		}), []string{"errors that the claimed arithmetic does not have; a coarser one could have them, first at step 1",
			"Re is 3. ", "All 10 steps that were looked at show it.", "No fault of the library explains it",
			"sums or operands in a narrower type"}},
		"a known one": {made([]int{1, 2}, report.Finding{
			Verdict: report.FailPrecision, Gate: "accuracy", Step: 1, Realization: 0, Layer: "b", Diagnosis: "some fault",
		}), []string{", in b. ", "2 of 10 steps show it.", "The cause is known: some fault"}},
		"advice": {made(nil, report.Finding{
			Verdict: report.FailPrecision, Gate: "accuracy", Step: 1, Realization: 0, Diagnosis: "operands in tf32",
			Advice: "Look at torch.backends.cudnn.allow_tf32.",
		}), []string{"The cause is known: operands in tf32. Look at torch.backends.cudnn.allow_tf32"}},
		"noise": {made(nil, report.Finding{
			Verdict: report.FailRNG, Gate: "noise", Step: -1, Realization: -1, Text: "slope 0",
		}), []string{"The noise is not the one that was specified. Slope 0.", "seed"}},
		"a pass": {func() *report.Report {
			r := made(nil)
			r.Contract, r.OneStep.RMSOverExpected, r.OneStep.MaxAbs = "claimed", 1.02, 0.5
			r.Blind = []report.Blind{
				{Name: "eps outside sqrt", Least: 2, Probe: "ladder"}, {Name: "NaN swallowed", Least: 1, Probe: "nan"},
			}
			r.Skipped = []string{"the rest"}
			return r
		}(), []string{
			"is what claimed gives.", "Checked: 10 steps of 2 realizations; the RMS error of a step is 1.02 times what",
			"could not have shown eps outside sqrt, NaN swallowed; the probe ladder, nan would", " Left out: the rest.",
		}},
		"another contract": {
			func() *report.Report { r := made(nil); r.Contract = "fused"; return r }(),
			[]string{"as accurate as claimed or better, but by another contract: fused."},
		},
		"another operator": {func() *report.Report {
			r := made([]int{1},
				report.Finding{Verdict: report.FailLogic, Gate: "accuracy", Step: 1, Realization: 0, Text: "far off"})
			r.Stranger = "these may be other weights"
			return r
		}(), []string{"No fault of the library explains it: these may be other weights."}},
		"NaN": {made([]int{7}, report.Finding{
			Verdict: report.FailLogic, Gate: "structure", Step: 7, Realization: 1, Text: "state 7 holds NaN",
		}), []string{
			"State 7 holds NaN. The error of that step is 20 times what the claim makes one expect (RMS; its largest " +
				"is 0.125). No fault of the library explains it by itself; such a picture is typical of an overflow",
		}},
		"no power": {made(nil, report.Finding{Verdict: report.NoPower, Text: "the field is constant"}),
			[]string{"this is no pass. The field is constant. Next: "}},
	} {
		ruling{k.r}.decide(layerOrder{noise: -1})
		for _, want := range k.want {
			if !strings.Contains(k.r.Reason, want) {
				t.Errorf("%s: no %q in\n%s", name, want, k.r.Reason)
			}
		}
		if strings.Contains(k.r.Reason, "..") || strings.Contains(k.r.Reason, "  ") ||
			strings.Contains(k.r.Reason, " .") || !strings.HasSuffix(k.r.Reason, ".") {
			t.Errorf("%s: no whole sentences: %s", name, k.r.Reason)
		}
	}
}

// TestEmptyLists: what is not there is an empty list or null in JSON, and never missing.
func TestEmptyLists(t *testing.T) {
	var b bytes.Buffer
	empty := &report.Report{FirstStep: -1}
	ruling{empty}.decide(layerOrder{noise: -1})
	if err := render.WriteJSON(&b, empty); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"blind": []`, `"findings": []`, `"steps": []`, `"horizon": null`,
		`"growth_per_step": null`, `"verdict": "NO-POWER"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

// TestNamedIsNotBlind: what a run showed is not among what it could not have shown, by its own name or by that of many.
func TestNamedIsNotBlind(t *testing.T) {
	r := made([]int{3}, report.Finding{
		Verdict: report.FailRNG, Gate: "accuracy", Step: 3, Realization: -1, ID: "noise.laplace-noise-for-normal",
		Diagnosis: "Laplace noise for normal", Excess: 9,
	}, report.Finding{Verdict: report.FailPrecision, Gate: "accuracy", Step: 3, Realization: -1,
		ID: "norm.unbiased-variance", Diagnosis: "unbiased variance", Excess: 8})
	r.Blind = []report.Blind{{Name: "noise of another distribution"}, {Name: "GELU by tanh"}, {Name: "unbiased variance"}}
	decideMade(r)
	if len(r.Blind) != 1 || r.Blind[0].Name != "GELU by tanh" {
		t.Errorf("blind: %v: want what has no name among the findings", r.Blind)
	}
}
