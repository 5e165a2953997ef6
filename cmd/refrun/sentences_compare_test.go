package main

import (
	"math"
	"testing"

	"github.com/refrun/refrun/diff"
)

// comparePairs are those of compare.
func comparePairs(t *testing.T) []pair {
	inf := diff.Number(math.Inf(1))
	// steps is a comparison of states that lie so far apart, of their std.
	steps := func(apart ...diff.Number) string {
		out := &comparison{Diff: diff.Diff{At: -1}}
		for _, r := range apart {
			out.PerStep = append(out.PerStep, diff.Diff{RMSOverStd: r})
		}
		out.judge()
		return printed(func(c *command) { c.printComparison(out) })
	}
	of := func(a, b string, flags ...string) string {
		return lines(t, append([]string{"compare", a, b}, flags...)...)
	}
	nan := math.NaN()
	one, near := row1(t, "F32", 1, 2), row1(t, "F32", 1, 2.5)
	digits, again := row1(t, "F64", 1, 1.12345), row1(t, "F64", 1, 1)
	five := func(states int) string {
		return save(t, "x.safetensors", zeros(t, "x", "F32", 1, states, 1, 1, 1))
	}
	many, fewer := five(mostSteps+1), five(mostSteps)
	const chaos = "the pair is chaotic"
	grows := steps(0, 1e-3, 1e-2, 1e-1, 1)
	return []pair{
		{"the difference grows 10x a step until it is as large as the states: " + chaos, grows, steps(0, 1e-3, 1e-2, 1e-1)},
		{chaos, grows, steps(0, 1e-3, 1e-3, 1e-3)},  // stays
		{chaos, grows, steps(0, 1, 1, 1)},           // as large at once
		{chaos, grows, steps(0, 1e-3, 1e-2, inf)},   // a NaN appears
		{chaos, grows, steps(0, 1e-6, 1.1e-6, 0.5)}, // jumps
		{chaos, steps(0, 1e-3, 1e-2, 1e-1, 1), ""},  // as above, alone
		{" (element 1)", of(near, one), of(one, one)},
		{"not finite          1 differ, 1 equal and left out",
			of(row1(t, "F32", nan, nan), row1(t, "F32", nan, 2)), of(near, one)},
		{"not finite ", of(row1(t, "F32", 1, nan), row1(t, "F32", 1, nan)), of(one, one)},
		{"32769 states are more than 32768: they are compared as a whole, not step by step", of(many, many),
			of(fewer, fewer)},
		{"32769 states of 1 channels are more than 32768: there are no figures by channel", of(many, many), of(fewer, fewer)},
		{"FAILED: max-abs 0.5 exceeds 0.4", of(near, one, "--max-abs", "0.4"), of(near, one, "--max-abs", "0.5")},
		{"FAILED: mean-abs", of(near, one, "--mean-abs", "0"), of(one, one, "--mean-abs", "0")},
		{"FAILED: max-abs 0.12345", of(digits, again, "--max-abs", "0.1234"), of(digits, again, "--max-abs", "0.1235")},
		{"exceeds 0.123", of(digits, again, "--max-abs", "0.123"), of(digits, again, "--max-abs", "0.1235")},
		{"max-abs 0.123 exceeds 0.12\n", of(digits, again, "--max-abs", "0.12"), of(digits, again, "--max-abs", "0.1234")},
	}
}
