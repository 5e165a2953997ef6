package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

// TestSentences: each sentence that plan, run --one-step and compare conclude with is there
// when it is true, and is not when it is false. (Those of study are in TestStudyStory, of
// check in package oracle, of verify in TestVerifyAll and TestVerifyVerb.)
func TestSentences(t *testing.T) {
	plan := func(r planReport) string {
		var out bytes.Buffer
		(&command{stdout: &out}).printPlan(&r)
		return out.String()
	}
	one := func(r oracle.OneStep) string {
		var out bytes.Buffer
		(&command{stdout: &out}).printOneStep(&rollout.Case{}, &runReport{OneStep: &r})
		return out.String()
	}
	layers := func(v ...oracle.Number) (r oracle.OneStep) {
		for i, x := range v {
			r.Layers = append(r.Layers, oracle.Layer{Name: string(rune('a' + i)), Diff: oracle.Diff{MaxOverStd: x}})
		}
		return r
	}
	nan := oracle.Number(0)
	nan /= nan
	for _, k := range []struct{ says, is, isNot string }{
		{"compiled in", plan(planReport{Compiled: true}), plan(planReport{Why: "float64 mode"})},
		{"not compiled: float64 mode", plan(planReport{Why: "float64 mode"}), plan(planReport{Compiled: true})},
		{"compiling pays from step 7 on", plan(planReport{Compiled: true, PaysFrom: 7}), plan(planReport{Compiled: true, PaysFrom: -1})},
		{"compiling pays", plan(planReport{Compiled: true, PaysFrom: 7}), plan(planReport{PaysFrom: 7})},
		{"3 operators of", plan(planReport{Dataset: &planDataset{Operators: 3}}), plan(planReport{})},
		{"the largest difference, 2 of its std, is in b", one(layers(1, 2, 0)), one(layers(2, 1, 0))},
		{"the largest difference, NaN of its std, is in b", one(layers(1, nan, 3)), one(layers(1, 2, 3))},
		{"3 recorded layers compared; they are equal", one(layers(0, 0, 0)), one(layers(0, 0, nan))},
		{"recorded layer", one(layers(1)), one(oracle.OneStep{})},
		{"NaN or infinite on one side only: 2 elements", one(oracle.OneStep{All: oracle.Diff{NonFiniteDiffer: 2}}), one(oracle.OneStep{All: oracle.Diff{NonFiniteEqual: 2}})},
		{"RMS distance to float64 steps", one(oracle.OneStep{Truth: &oracle.Truth{}}), one(oracle.OneStep{})},
	} {
		if !strings.Contains(k.is, k.says) {
			t.Errorf("does not say %q where it is true:\n%s", k.says, k.is)
		}
		if strings.Contains(k.isNot, k.says) {
			t.Errorf("says %q where it is false:\n%s", k.says, k.isNot)
		}
	}
}
