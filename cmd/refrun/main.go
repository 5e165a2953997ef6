// Command refrun steps stochastic neural operators on the CPU with correctly
// rounded arithmetic, and compares rollouts recorded elsewhere with it.
package main

import (
	"io"
	"os"

	"github.com/refrun/refrun/cmd/refrun/internal/about"
	"github.com/refrun/refrun/cmd/refrun/internal/bench"
	"github.com/refrun/refrun/cmd/refrun/internal/check"
	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/compare"
	"github.com/refrun/refrun/cmd/refrun/internal/dataset"
	"github.com/refrun/refrun/cmd/refrun/internal/kernel"
	"github.com/refrun/refrun/cmd/refrun/internal/molecule"
	"github.com/refrun/refrun/cmd/refrun/internal/run"
	"github.com/refrun/refrun/cmd/refrun/internal/serve"
	"github.com/refrun/refrun/cmd/refrun/internal/study"
)

var verbs = []cli.Verb{
	run.Demo, run.Verb, compare.Verify, check.Verb, kernel.Verb, molecule.Verb, check.Probe, study.Verb, compare.Verb,
	about.Selftest, bench.Verb, bench.Plan, dataset.Verb, about.Info, serve.Verb, about.Man, about.Completion,
	about.Version,
}

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

// realMain is main, without the process.
func realMain(args []string, stdout, stderr io.Writer) int {
	return cli.Main(verbs, args, stdout, stderr)
}
