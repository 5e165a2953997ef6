package about

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/selftest"
)

var Selftest = cli.Verb{
	Name:    "selftest",
	Summary: "does this machine compute the known answers?",
	Help: `Computes every operation in every number format, and rollouts in every mode, with
several numbers of threads and groupings of realizations; with --threads, with that
number alone. It compares their digests with those that this version has: they are
the same on every machine. Exit code 1 if one differs.

With --exhaustive, also every activation function on all 65,536 numbers of each
half type and all 2^32 of float32, against an evaluation with a proven error,
and on a million random numbers against one of 768 bits: some 20 minutes.

example: refrun selftest --json`,
	Run: selfTest,
}

// selftestISA is the outcome for one instruction set.
type selftestISA struct {
	*selftest.Report
	Kernels []string `json:"kernels"` // what ran
}

func selfTest(c *cli.Command) error {
	all := c.Flags.Bool("exhaustive", false, "also all inputs of the activation functions; takes long")
	c.Judges()
	if err := c.Parse(0); err != nil {
		return err
	}
	start := time.Now()
	isas := []string{c.Isa}
	if c.EveryISA {
		isas = asm.ISAs()
	}
	out := struct {
		OK       bool                   `json:"ok"`
		Contract string                 `json:"contract"`
		Build    string                 `json:"build"`
		Threads  []int                  `json:"threads"`
		Seconds  float64                `json:"seconds"`
		ISA      map[string]selftestISA `json:"isa"`
		All      []exhaustiveRow        `json:"exhaustive,omitempty"`
	}{true, graph.Contract, cli.Build(), threadCounts(c.Flags, runtime.GOMAXPROCS(0)), 0, map[string]selftestISA{}, nil}
	c.Printf("contract %s, %s\n", out.Contract, out.Build)
	for _, isa := range isas {
		if err := asm.Use(isa); err != nil {
			return err
		}
		asm.Forget()
		report, err := selftest.Run(out.Threads)
		if err != nil {
			return err
		}
		out.OK = out.OK && report.OK
		out.ISA[isa] = selftestISA{report, asm.Kernels()}
		printSelftest(c, isa, out.ISA[isa], out.Threads)
	}
	if err := asm.Use(isas[0]); err != nil {
		return err
	}
	out.Seconds = time.Since(start).Seconds()
	if *all {
		rows, ok, err := exhaustive(c)
		if err != nil {
			return err
		}
		out.All, out.OK = rows, out.OK && ok
	}
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	if !out.OK {
		return cli.ErrFailed
	}
	return nil
}

// printSelftest prints what one instruction set gave.
func printSelftest(c *cli.Command, isa string, r selftestISA, threads []int) {
	for _, f := range r.Failed {
		c.Printf("  FAILED: %s\n", f)
	}
	c.Printf("%-8s %d known answers, %d computations with %s threads: ",
		isa, r.Cases, r.Runs, strings.Trim(strings.ReplaceAll(fmt.Sprint(threads), " ", ", "), "[]"))
	if r.OK {
		c.Printf("all equal\n")
	} else {
		c.Printf("%s failed\n", cli.Plural(len(r.Failed), "result"))
	}
	c.Printf("         digest %s\n", r.Digest)
	c.Printf("         graphs of %d operations: digest %s\n", r.Operations, r.OperationsDigest)
	c.Printf("         ran %s\n", strings.Join(r.Kernels, "; "))
}

// threadCounts returns 1, 2, a number that divides nothing, and n itself; n alone if --threads has asked for it.
func threadCounts(flags *flag.FlagSet, n int) []int {
	counts := []int{1, 2, 7}
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "threads" {
			counts = nil
		}
	})
	if !slices.Contains(counts, n) {
		counts = append(counts, n)
	}
	return counts
}
