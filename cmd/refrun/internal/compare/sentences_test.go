package compare

import (
	"math"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/rollout"
)

// comparePairs are those of compare.
func comparePairs(t *testing.T) []clitest.Pair {
	inf := diff.Number(math.Inf(1))
	// steps is a comparison of states that lie so far apart, of their std.
	steps := func(apart ...diff.Number) string {
		out := &comparison{Diff: diff.Diff{At: -1}}
		for _, r := range apart {
			out.PerStep = append(out.PerStep, diff.Diff{RMSOverStd: r})
		}
		out.judge()
		return clitest.Printed(func(c *cli.Command) { printComparison(c, out) })
	}
	of := func(a, b string, flags ...string) string {
		return lines(t, append([]string{"compare", a, b}, flags...)...)
	}
	nan := math.NaN()
	one, near := clitest.Row1(t, "F32", 1, 2), clitest.Row1(t, "F32", 1, 2.5)
	digits, again := clitest.Row1(t, "F64", 1, 1.12345), clitest.Row1(t, "F64", 1, 1)
	five := func(states int) string {
		return clitest.Save(t, "x.safetensors", clitest.Zeros(t, "x", "F32", 1, states, 1, 1, 1))
	}
	many, fewer := five(mostSteps+1), five(mostSteps)
	const chaos = "the pair is chaotic"
	grows := steps(0, 1e-3, 1e-2, 1e-1, 1)
	return []clitest.Pair{
		{Says: "the difference grows 10x a step until it is as large as the states: " + chaos, Is: grows,
			IsNot: steps(0, 1e-3, 1e-2, 1e-1)},
		{Says: chaos, Is: grows, IsNot: steps(0, 1e-3, 1e-3, 1e-3)},  // stays
		{Says: chaos, Is: grows, IsNot: steps(0, 1, 1, 1)},           // as large at once
		{Says: chaos, Is: grows, IsNot: steps(0, 1e-3, 1e-2, inf)},   // a NaN appears
		{Says: chaos, Is: grows, IsNot: steps(0, 1e-6, 1.1e-6, 0.5)}, // jumps
		{Says: chaos, Is: steps(0, 1e-3, 1e-2, 1e-1, 1), IsNot: ""},  // as above, alone
		{Says: " (element 1)", Is: of(near, one), IsNot: of(one, one)},
		{Says: "not finite          1 differ, 1 equal and left out",
			Is: of(clitest.Row1(t, "F32", nan, nan), clitest.Row1(t, "F32", nan, 2)), IsNot: of(near, one)},
		{Says: "not finite ", Is: of(clitest.Row1(t, "F32", 1, nan), clitest.Row1(t, "F32", 1, nan)), IsNot: of(one, one)},
		{Says: "32769 states are more than 32768: they are compared as a whole, not step by step", Is: of(many, many),
			IsNot: of(fewer, fewer)},
		{Says: "32769 states of 1 channels are more than 32768: there are no figures by channel", Is: of(many, many),
			IsNot: of(fewer, fewer)},
		{Says: "FAILED: max-abs 0.5 exceeds 0.4", Is: of(near, one, "--max-abs", "0.4"), IsNot: of(near, one, "--max-abs",
			"0.5")},
		{Says: "FAILED: mean-abs", Is: of(near, one, "--mean-abs", "0"), IsNot: of(one, one, "--mean-abs", "0")},
		{Says: "FAILED: max-abs 0.12345", Is: of(digits, again, "--max-abs", "0.1234"), IsNot: of(digits, again, "--max-abs",
			"0.1235")},
		{Says: "exceeds 0.123", Is: of(digits, again, "--max-abs", "0.123"), IsNot: of(digits, again, "--max-abs", "0.1235")},
		{Says: "max-abs 0.123 exceeds 0.12\n", Is: of(digits, again, "--max-abs", "0.12"), IsNot: of(digits, again,
			"--max-abs", "0.1234")},
	}
}

// filePairs are those of verify.
func filePairs() []clitest.Pair {
	verdict := func(v rollout.Verdict) string {
		v.File = "f"
		return clitest.Printed(func(c *cli.Command) { printVerdict(c, &v) })
	}
	good := rollout.Verdict{OK: true, Sealed: true, Kind: "trajectory", States: 3, Digest: "d", Format: "float32"}
	bare, torn, unread, tape := good, good, good, good
	bare.OK, bare.Sealed = false, false
	torn.OK, torn.Differ = false, []string{"state 2"}
	unread.Error = "no such file"
	tape.Kind, tape.Digest = "tape", ""
	return []clitest.Pair{
		{Says: "f: ok, 3 states, digest d (float32)", Is: verdict(good), IsNot: verdict(torn)},
		{Says: "f: ok", Is: verdict(good), IsNot: verdict(bare)},
		{Says: "f: ok", Is: verdict(good), IsNot: verdict(unread)},
		{Says: "f: ok, 3 steps of a tape", Is: verdict(tape), IsNot: verdict(good)},
		{Says: "f: DIFFERS: state 2", Is: verdict(torn), IsNot: verdict(good)},
		{Says: "f: no digest inside: nothing could be verified", Is: verdict(bare), IsNot: verdict(torn)},
		{Says: "f: NOT VERIFIED: no such file", Is: verdict(unread), IsNot: verdict(good)},
	}
}
