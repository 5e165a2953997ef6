package main

import (
	"errors"

	"github.com/refrun/refrun/internal/judges/selftest"
	"github.com/refrun/refrun/rollout"
)

// filePairs are those of verify.
func filePairs() []pair {
	verdict := func(v rollout.Verdict) string {
		v.File = "f"
		return printed(func(c *command) { c.printVerdict(&v) })
	}
	good := rollout.Verdict{OK: true, Sealed: true, Kind: "trajectory", States: 3, Digest: "d", Format: "float32"}
	bare, torn, unread, tape := good, good, good, good
	bare.OK, bare.Sealed = false, false
	torn.OK, torn.Differ = false, []string{"state 2"}
	unread.Error = "no such file"
	tape.Kind, tape.Digest = "tape", ""
	return []pair{
		{"f: ok, 3 states, digest d (float32)", verdict(good), verdict(torn)},
		{"f: ok", verdict(good), verdict(bare)},
		{"f: ok", verdict(good), verdict(unread)},
		{"f: ok, 3 steps of a tape", verdict(tape), verdict(good)},
		{"f: DIFFERS: state 2", verdict(torn), verdict(good)},
		{"f: no digest inside: nothing could be verified", verdict(bare), verdict(torn)},
		{"f: NOT VERIFIED: no such file", verdict(unread), verdict(good)},
	}
}

// probePairs are those of probe.
func probePairs() []pair {
	probes := func(files ...string) string { return printed(func(c *command) { c.printProbes(files) }) }
	return []pair{
		{"with the draws of\nnoise.safetensors", probes("p/integers/case.json", "p/integers/noise.safetensors"),
			probes("p/integers/case.json")},
	}
}

// endPairs are those of what ends a run.
func endPairs() []pair {
	return []pair{
		// which it is, TestKill says
		{"; --resume continues it", resumable{errors.New("terminated")}.Error(), errTerminated.Error()},
		{"; the same command goes on", unfinished{errTerminated}.Error(), errTerminated.Error()},
	}
}

// machinePairs are those of what says how this machine computes.
func machinePairs() []pair {
	self := func(failed ...string) string {
		r := selftestISA{&selftest.Report{OK: failed == nil, Failed: failed, Cases: 2}, nil}
		return printed(func(c *command) { c.printSelftest("avx2", r, []int{1}) })
	}
	row := func(wrong uint64) string {
		return printed(func(c *command) { c.printExhaustive(exhaustiveRow{Wrong: wrong}) })
	}
	clean, modified := versionReport{VCS: &vcsReport{Revision: "abc"}},
		versionReport{VCS: &vcsReport{Revision: "abc", Modified: true}}
	const missing = "gelu: known, and not computed by this build"
	return []pair{
		{"all equal", self(), self(missing)},
		{"1 result failed", self(missing), self()},
		{"  FAILED: " + missing, self(missing), self()},
		{"2 results failed", self("a", "b"), self("a")},
		{"1 wrong or undecided", row(1), row(0)},
		{", modified", modified.String(), clean.String()},
	}
}

// peakPairs are those of the rate of this machine.
func peakPairs() []pair {
	rate := func(stable bool) string {
		return printed(func(c *command) { c.printPeak(&benchReport{Stable: stable}) })
	}
	return []pair{
		{"the machine is busy: no two of 20 measurements of this rate agree to 2 %, so every figure below may be " +
			"too low", rate(false), rate(true)},
		{"plain Go, one number at a time", rateOf("purego", false), rateOf("avx2", true)},
		{"float64 fused multiply-adds of the 3x3 kernel, avx2, data in the first cache", rateOf("avx2", true),
			rateOf("purego", false)},
	}
}
