package oracle

import (
	"strings"
	"testing"
)

// made returns a report with those findings about a run of ten steps, of which
// those in bad are marked.
func made(bad []int, findings ...Finding) *Report {
	r := &Report{FirstStep: -1, FirstRealization: -1, Claim: "claimed", Shape: [5]int{2, 11, 3, 8, 8}, Findings: findings}
	for t := 1; t <= 10; t++ {
		r.Steps = append(r.Steps, StepRow{Step: t, R64: 1, MaxAbs: 0.125})
	}
	for _, t := range bad {
		r.Steps[t-1].Violation, r.Steps[t-1].R64 = true, 400
	}
	return r
}

// decided is what a verdict says in short.
type decided struct {
	verdict          Verdict
	step, m          int
	layer, slice, by string
}

func decideMade(r *Report) decided {
	r.decide(layerOrder{map[string]int{"a": 0, "b": 1, "noisy": 2, "c": 3}, 2})
	return decided{r.Verdict, r.FirstStep, r.FirstRealization, r.FirstLayer, r.Slice, r.Diagnosis}
}

func TestDecideFailures(t *testing.T) {
	general := Finding{Verdict: FailPrecision, Gate: "accuracy", Step: 3, Realization: 1, Excess: 9}
	for name, k := range map[string]struct {
		findings []Finding
		want     decided
	}{
		"one": {[]Finding{general}, decided{FailPrecision, 3, 1, "", "", ""}},
		"the earlier step, however small": {[]Finding{general,
			{Verdict: FailLogic, Gate: "accuracy", Step: 2, Realization: 0, Slice: "row 4", Excess: 1.1}}, decided{FailLogic, 2, 0, "", "row 4", ""}},
		"logic before precision at one step": {[]Finding{general,
			{Verdict: FailLogic, Gate: "accuracy", Step: 3, Realization: 0, Excess: 2}}, decided{FailLogic, 3, 0, "", "", ""}},
		"a fault with a name before one without": {[]Finding{general,
			{Verdict: FailLogic, Gate: "accuracy", Step: 3, Realization: 0, Excess: 99},
			{Verdict: FailPrecision, Gate: "filter", Step: 3, Realization: -1, Layer: "b", Diagnosis: "gelu-tanh", Excess: 20}},
			decided{FailPrecision, 3, 0, "b", "", "gelu-tanh"}},
		"a name found later does not name the first step": {[]Finding{general,
			{Verdict: FailLogic, Gate: "filter", Step: 5, Realization: 0, Diagnosis: "stale tile", Excess: 20}},
			decided{FailPrecision, 3, 1, "", "", ""}},
		"a rollout that explains everything before a name": {[]Finding{general,
			{Verdict: FailPrecision, Gate: "filter", Step: 3, Diagnosis: "gelu-tanh", Excess: 20},
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "states shifted by one", Excess: 2}},
			decided{FailRollout, 3, 0, "", "", "states shifted by one"}},
		"weights that fit are less than a name": {[]Finding{general,
			{Verdict: FailRNG, Gate: "filter", Step: 3, Realization: -1, Layer: "noisy", Diagnosis: "noise with a mean of 0.1", Excess: 20},
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "weights of the policy wrong", Excess: 99}},
			decided{FailRNG, 3, 0, "noisy", "", "noise with a mean of 0.1"}},
		"a layer that is wrong by itself refutes a rollout": {[]Finding{
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "state of another realization", Excess: 99},
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "b", Excess: 2}},
			decided{FailLogic, 3, 0, "b", "", ""}},
		"a realization that stands still as the policy has it of zeros": {[]Finding{
			{Verdict: FailRollout, Gate: "structure", Step: 3, Realization: 1, Diagnosis: frozen, Excess: 99},
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 1, Layer: "b", Excess: 2}},
			decided{FailLogic, 3, 1, "b", "", ""}},
		"a step that fits is less than a name": {[]Finding{
			{Verdict: FailRNG, Gate: "filter", Step: 3, Realization: 0, Diagnosis: "noise with a mean of 0.1", Excess: 2},
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "dt wrong", Excess: 9}},
			decided{FailRNG, 3, 0, "", "", "noise with a mean of 0.1"}},
		"the whole run counts as its first step": {[]Finding{general,
			{Verdict: FailRNG, Gate: "noise", Step: -1, Realization: -1, Excess: 2}},
			decided{FailRNG, 3, 1, "", "", ""}},
		"noise without a name before its layer": {[]Finding{
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "noisy", Excess: 90},
			{Verdict: FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "another noise stream", Excess: 2}},
			decided{FailRNG, 3, 0, "noisy", "", "another noise stream"}},
		"masks that cannot be known do not outrank a name": {[]Finding{
			{Verdict: FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "dropout of elements, not of channels", Excess: 99},
			{Verdict: FailPrecision, Gate: "filter", Step: 3, Realization: 0, Diagnosis: "gelu-tanh", Excess: 9}}, decided{FailPrecision, 3, 0, "", "", "gelu-tanh"}},
		"another layer refutes it": {[]Finding{
			{Verdict: FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "another noise stream", Excess: 2},
			{Verdict: FailPrecision, Gate: "bound", Step: 3, Realization: 0, Layer: "b", Excess: 9}}, decided{FailPrecision, 3, 0, "b", "", ""}},
		"a fault with a name before any noise": {[]Finding{
			{Verdict: FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "noise differs from the specified draws", Excess: 99},
			{Verdict: FailPrecision, Gate: "filter", Step: 3, Realization: 0, Diagnosis: "gelu-tanh", Excess: 9}}, decided{FailPrecision, 3, 0, "", "", "gelu-tanh"}},
		"a rollout with a name before one without": {[]Finding{
			{Verdict: FailRollout, Gate: "bound", Step: 3, Realization: 0, Excess: 99},
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Diagnosis: "alpha swapped", Excess: 2}}, decided{FailRollout, 3, 0, "", "", "alpha swapped"}},
		"a rollout before a layer": {[]Finding{
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "c", Excess: 90},
			{Verdict: FailRollout, Gate: "bound", Step: 3, Realization: 0, Excess: 2}}, decided{FailRollout, 3, 0, "c", "", ""}},
		"structure before all": {[]Finding{
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 0, Excess: 2},
			{Verdict: FailLogic, Gate: "structure", Step: 3, Realization: 1, Excess: 2}}, decided{FailLogic, 3, 1, "", "", ""}},
		"noise before a name of the operator's": {[]Finding{
			{Verdict: FailLogic, Gate: "filter", Step: 3, Realization: 0, Diagnosis: "bias missing", Excess: 30},
			{Verdict: FailRNG, Gate: "noise", Step: 3, Realization: 0, Diagnosis: "noise of the step before", Excess: 3}},
			decided{FailRNG, 3, 0, "", "", "noise of the step before"}},
		"the first layer in order of execution": {[]Finding{general,
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 0, Layer: "c", Excess: 90},
			{Verdict: FailPrecision, Gate: "statistics", Step: 3, Realization: 0, Layer: "b", Slice: "channel 2", Excess: 2}},
			decided{FailPrecision, 3, 0, "b", "channel 2", ""}},
		"layers of a later step show the first": {[]Finding{general,
			{Verdict: FailLogic, Gate: "bound", Step: 7, Realization: 1, Layer: "b", Excess: 90}},
			decided{FailLogic, 3, 1, "b", "", ""}},
		"layers know the layer better than a residual": {[]Finding{
			{Verdict: FailPrecision, Gate: "filter", Step: 3, Realization: 0, Layer: "c", Diagnosis: "tf32", Excess: 30},
			{Verdict: FailPrecision, Gate: "bound", Step: 3, Realization: 0, Layer: "a", Excess: 2}},
			decided{FailPrecision, 3, 0, "a", "", "tf32"}},
		"the place that another finding knows": {[]Finding{general,
			{Verdict: FailLogic, Gate: "accuracy", Step: 3, Realization: 1, Slice: "channel 2"},
			{Verdict: FailRollout, Gate: "rollout", Step: 3, Realization: 1, Diagnosis: "stale"}}, decided{FailRollout, 3, 1, "", "channel 2", "stale"}},
		"no place in the state for one in a layer": {[]Finding{
			{Verdict: FailLogic, Gate: "accuracy", Step: 3, Realization: 1, Slice: "channel 2"},
			{Verdict: FailLogic, Gate: "bound", Step: 3, Realization: 1, Layer: "a"}}, decided{FailLogic, 3, 1, "a", "", ""}},
		"no power, and yet a fault": {[]Finding{{Verdict: NoPower, Gate: "structure", Step: -1}, general}, decided{FailPrecision, 3, 1, "", "", ""}},
		"no step at all":            {[]Finding{{Verdict: FailRNG, Gate: "noise", Step: -1, Realization: -1}}, decided{FailRNG, -1, -1, "", "", ""}},
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
		edit func(*Report)
		want Verdict
	}{
		"the claim":       {func(r *Report) { r.Contract = "claimed" }, PassConforming},
		"another":         {func(r *Report) { r.Contract = "claimed, fused" }, PassAccurate},
		"unknown":         {func(r *Report) {}, PassAccurate},
		"nothing to see":  {func(r *Report) { r.Contract, r.Steps = "claimed", nil }, NoPower},
		"only layers":     {func(r *Report) { r.Contract, r.Steps, r.Layers = "claimed", nil, []LayerRow{{}} }, NoPower},
		"blind":           {func(r *Report) { r.Contract, r.Findings = "claimed", []Finding{{Verdict: NoPower}} }, NoPower},
		"blind to a name": {func(r *Report) { r.Contract, r.Blind = "claimed", []Blind{{Name: "eps"}} }, PassConforming},
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
		r    *Report
		want []string
	}{
		"a rare fault": {made([]int{7}, Finding{Verdict: FailLogic, Gate: "accuracy", Step: 7, Realization: 1, Slice: "rows 0-7", Text: "80 of 192 elements are wrong"}),
			[]string{"another function than this operator, first at step 7 of realization 1, rows 0-7. 80 of 192 elements are wrong. ",
				"The error of that step is 20 times what the claim makes one expect (RMS; its largest is 0.125).", "The other 9 steps are right: a fault that comes and goes", "record the layers of one step"}},
		"an unknown precision": {made([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Finding{Verdict: FailPrecision, Gate: "conformity", Step: 1, Realization: 0, Text: "Re is 3."}),
			[]string{"errors that the claimed arithmetic does not have; a coarser one could have them, first at step 1", "Re is 3. ", "All 10 steps that were looked at show it.", "No fault of the library explains it", "partial sums"}},
		"a known one": {made([]int{1, 2}, Finding{Verdict: FailPrecision, Gate: "filter", Step: 1, Realization: 0, Layer: "b", Diagnosis: "some fault"}),
			[]string{", in b. ", "2 of 10 steps show it.", "The cause is known: some fault"}},
		"advice": {made(nil, Finding{Verdict: FailPrecision, Gate: "filter", Step: 1, Realization: 0, Diagnosis: "operands in tf32"}),
			[]string{"The cause is known: operands in tf32. Look at torch.backends.cudnn.allow_tf32"}},
		"noise": {made(nil, Finding{Verdict: FailRNG, Gate: "noise", Step: -1, Realization: -1, Text: "slope 0"}), []string{"The noise is not the one that was specified. Slope 0.", "seed"}},
		"a pass": {func() *Report {
			r := made(nil)
			r.Contract, r.OneStep.RMSOverExpected, r.OneStep.MaxAbs = "claimed", 1.02, 0.5
			r.Blind = []Blind{{Name: "eps outside sqrt", Least: 2, Probe: "ladder"}, {Name: "NaN swallowed", Least: 1, Probe: "nan"}}
			r.Skipped = []string{"the rest"}
			return r
		}(), []string{"is what claimed gives.", "Checked: 10 steps of 2 realizations; the RMS error of a step is 1.02 times what", "could not have shown eps outside sqrt, NaN swallowed; the probe ladder, nan would", " Left out: the rest."}},
		"another contract": {func() *Report { r := made(nil); r.Contract, r.Pattern = "fused", "stores act only"; return r }(), []string{"as accurate as claimed or better, but by another contract: fused. The device stores act only."}},
		"another operator": {func() *Report {
			r := made([]int{1}, Finding{Verdict: FailLogic, Gate: "accuracy", Step: 1, Realization: 0, Text: "far off"})
			r.stranger = "these may be other weights"
			return r
		}(), []string{"No fault of the library explains it: these may be other weights."}},
		"NaN": {made([]int{7}, Finding{Verdict: FailLogic, Gate: "structure", Step: 7, Realization: 1, Text: "state 7 holds NaN"}),
			[]string{"State 7 holds NaN. The error of that step is 20 times what the claim makes one expect (RMS; its largest is 0.125). No fault of the library explains it by itself; such a picture is typical of an overflow"}},
		"no power": {made(nil, Finding{Verdict: NoPower, Text: "the field is constant"}), []string{"this is no pass. The field is constant. Next: "}},
	} {
		k.r.decide(layerOrder{noise: -1})
		for _, want := range k.want {
			if !strings.Contains(k.r.Reason, want) {
				t.Errorf("%s: no %q in\n%s", name, want, k.r.Reason)
			}
		}
		if strings.Contains(k.r.Reason, "..") || strings.Contains(k.r.Reason, "  ") || strings.Contains(k.r.Reason, " .") || !strings.HasSuffix(k.r.Reason, ".") {
			t.Errorf("%s: no whole sentences: %s", name, k.r.Reason)
		}
	}
}
