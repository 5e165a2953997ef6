package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

// pair is a sentence that states a conclusion, with what is printed where it is true and
// where it is false, the two as near to each other as can be.
type pair struct{ says, is, isNot string }

// pairs are all, by what prints them. (The report of check is package oracle's. Those of whole rollouts change the
// folder.)
func pairs(t *testing.T) []pair {
	return slices.Concat(planPairs(), onePairs(t), comparePairs(t), demoPairs(t), studyPairs(t), picturePairs(t),
		filePairs(), probePairs(), endPairs(), peakPairs(), machinePairs(),
		layerPairs(), evaluationPairs(), modelPairs(), kernelPairs(), judgedPairs(), backwardPairs(), quantizerPairs(),
		datasetPairs(t), wholePairs(t), moleculePairs())
}

// TestSentences: each sentence that the command concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	judgeSentences(t, pairs(t), labels, ".")
}

// judgeSentences holds what the source in these folders may print to the pairs, but for labels.
func judgeSentences(t *testing.T, all []pair, labels []string, folders ...string) {
	t.Helper()
	for _, k := range all {
		says := unfolded(k.says)
		if !strings.Contains(unfolded(k.is), says) {
			t.Errorf("does not say %q where it is true:\n%s", k.says, k.is)
		}
		if strings.Contains(unfolded(k.isNot), says) {
			t.Errorf("says %q where it is false:\n%s", k.says, k.isNot)
		}
	}
	everySentence(t, texts(t, folders), all, labels)
}

// printed returns what f prints.
func printed(f func(c *command)) string {
	var out bytes.Buffer
	c := &command{stdout: &out}
	f(c)
	c.ended()
	return out.String()
}

// lines returns what the command prints for people; that it refuses to work is no answer.
func lines(t *testing.T, args ...string) string {
	t.Helper()
	return linesOfVerbs(t, verbs, args...)
}

// linesOfVerbs is lines of a program of these verbs.
func linesOfVerbs(t *testing.T, verbs []verb, args ...string) string {
	t.Helper()
	r := runVerbs(t, verbs, args...)
	if r.stderr != "" {
		t.Errorf("%q: exit code %d, %s", args, r.code, r.stderr)
	}
	return r.stdout
}

func planPairs() []pair {
	plan := func(r planReport) string { return printed(func(c *command) { c.printPlan(&r) }) }
	return []pair{
		{"compiled in", plan(planReport{Compiled: true}), plan(planReport{Why: "float64 mode"})},
		{"not compiled: float64 mode", plan(planReport{Why: "float64 mode"}), plan(planReport{Compiled: true})},
		{"; not compiled 2 s", plan(planReport{Compiled: true, General: 2}), plan(planReport{General: 2})},
		{"compiling pays from step 7 on", plan(planReport{Compiled: true, PaysFrom: 7}),
			plan(planReport{Compiled: true, PaysFrom: -1})},
		{"compiling pays", plan(planReport{Compiled: true, PaysFrom: 7}), plan(planReport{PaysFrom: 7})},
		{"3 operators of", plan(planReport{Dataset: &planDataset{Operators: 3}}), plan(planReport{})},
	}
}

func onePairs(t *testing.T) []pair {
	one := func(r oracle.OneStep) string {
		return printed(func(c *command) { c.printOneStep(&rollout.Case{}, &runReport{OneStep: &r}) })
	}
	layers := func(v ...diff.Number) (r oracle.OneStep) {
		for i, x := range v {
			r.Layers = append(r.Layers, oracle.Layer{Name: string(rune('a' + i)), Diff: diff.Diff{MaxOverStd: x}})
		}
		return r
	}
	tiny := layers(0)
	tiny.Layers[0].MaxAbs = 1e-300 // and its std is 1e300
	nan := diff.Number(0)
	nan /= nan

	f := newFolder(t)
	dir := f.write()
	f.set("operator.use_batch_norm", true)
	ignoring := f.write()
	f = newFolder(t)
	delete(f.json, "produced_by")
	nobody := f.write()
	step := func(dir string, flags ...string) string {
		return lines(t, append([]string{"run", "--one-step", "--case", dir}, flags...)...)
	}
	usual := step(dir)
	return []pair{
		{"the largest difference, 2 of its std, is in b", one(layers(1, 2, 0)), one(layers(2, 1, 0))},
		{"the largest difference, NaN of its std, is in b", one(layers(1, nan, 3)), one(layers(1, 2, 3))},
		{"the largest difference, 1 of its std, is in a", one(layers(1)), one(layers(0))},
		{"3 recorded layers compared; they are equal", one(layers(0, 0, 0)), one(layers(0, 0, nan))},
		{"they are equal", one(layers(0)), one(tiny)},
		{"recorded layer", one(layers(1)), one(oracle.OneStep{})},
		{"NaN or infinite on one side only: 2 elements", one(oracle.OneStep{All: diff.Diff{NonFiniteDiffer: 2}}),
			one(oracle.OneStep{All: diff.Diff{NonFiniteEqual: 2}})},
		{"RMS distance to float64 steps", one(oracle.OneStep{Truth: &oracle.Truth{}}), one(oracle.OneStep{})},
		{"refrun 1, recording 2: ratio 0.5",
			one(oracle.OneStep{Truth: &oracle.Truth{Ours: 1, Recorded: 2, Ratio: 0.5}}), one(oracle.OneStep{})},
		{"the case was recorded in float32, and is compared with tf32 steps", step(dir, "--precision", "tf32"), usual},
		{"the case was recorded in", step(dir, "--precision", "float64"), step(dir, "--precision", "float32")},
		{"the operator's noise was left out", step(dir, "--noise", "none"), step(dir, "--noise", "tape")},
		{"operator.use_batch_norm is ignored, as Spinlock's builder ignores it", step(ignoring), usual},
		{"recorded by ", usual, step(nobody)},
		{"float16 overflow: first at step 2 in c1, 3 elements", strings.Join(
			overflowNotes(&rollout.Overflow{Step: 2, Layer: "c1", Elements: 3}, false), "",
		), strings.Join(overflowNotes(nil, false), "")},
		{"float16 overflow: first at", strings.Join(overflowNotes(&rollout.Overflow{Step: 2}, false), ""),
			strings.Join(overflowNotes(&rollout.Overflow{Step: 2}, true), "")},
		{" since the run was resumed: first at step 2", strings.Join(overflowNotes(&rollout.Overflow{Step: 2}, true),
			""), strings.Join(overflowNotes(&rollout.Overflow{Step: 2}, false), "")},
	}
}
