package about

import (
	"errors"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/judges/selftest"
)

func modelPairs() []clitest.Pair {
	said := func(o modelInfo) string { return clitest.Printed(func(c *cli.Command) { printModel(c, o) }) }
	return []clitest.Pair{
		{Says: "an unknown program", Is: said(modelInfo{}), IsNot: said(modelInfo{Producer: "pytorch"})},
		{Says: "open         size 0 of x; with --input the rest is said", Is: said(modelInfo{Open: "size 0 of x"}),
			IsNot: said(modelInfo{Supported: true})},
		{Says: "unsupported  Loop", Is: said(modelInfo{reasons: []string{"Loop"}}), IsNot: said(modelInfo{Supported: true})},
		{Says: "parameters   5\nFLOPs        8 in one evaluation", Is: said(modelInfo{Supported: true, Parameters: 5,
			FLOPs: 8}),
			IsNot: said(modelInfo{Parameters: 5, FLOPs: 8})},
		{Says: "not judged   prod: check skips what has them",
			Is:    said(modelInfo{Supported: true, NotJudged: []string{"prod"}}),
			IsNot: said(modelInfo{Supported: true})},
		{Says: "operations   2:", Is: said(modelInfo{Supported: true, Nodes: 2}), IsNot: said(modelInfo{Nodes: 2})},
	}
}

// endPairs are those of what ends a run.
func endPairs() []clitest.Pair {
	return []clitest.Pair{
		// which it is, TestKill says
		{Says: "; --resume continues it", Is: cli.Resumable{Err: errors.New("terminated")}.Error(),
			IsNot: cli.ErrTerminated.Error()},
		{Says: "; the same command goes on", Is: cli.Unfinished{Err: cli.ErrTerminated}.Error(),
			IsNot: cli.ErrTerminated.Error()},
	}
}

// machinePairs are those of what says how this machine computes.
func machinePairs() []clitest.Pair {
	self := func(failed ...string) string {
		r := selftestISA{&selftest.Report{OK: failed == nil, Failed: failed, Cases: 2}, nil}
		return clitest.Printed(func(c *cli.Command) { printSelftest(c, "avx2", r, []int{1}) })
	}
	row := func(wrong uint64) string {
		return clitest.Printed(func(c *cli.Command) { printExhaustive(c, exhaustiveRow{Wrong: wrong}) })
	}
	clean, modified := versionReport{VCS: &vcsReport{Revision: "abc"}},
		versionReport{VCS: &vcsReport{Revision: "abc", Modified: true}}
	const missing = "gelu: known, and not computed by this build"
	return []clitest.Pair{
		{Says: "all equal", Is: self(), IsNot: self(missing)},
		{Says: "1 result failed", Is: self(missing), IsNot: self()},
		{Says: "  FAILED: " + missing, Is: self(missing), IsNot: self()},
		{Says: "2 results failed", Is: self("a", "b"), IsNot: self("a")},
		{Says: "1 wrong or undecided", Is: row(1), IsNot: row(0)},
		{Says: ", modified", Is: modified.String(), IsNot: clean.String()},
	}
}
