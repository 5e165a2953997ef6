package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/refrun/refrun/internal/selftest"
	"github.com/refrun/refrun/operator"
)

var selftestVerb = verb{
	name:    "selftest",
	summary: "compute known answers on this machine",
	help: `Computes every operation in every number format, and rollouts in every mode,
on several numbers of threads and groupings of realizations, and compares the
digests with the ones that this version knows: they are the same on every
machine. Exit code 1 if one differs.

With --exhaustive, also every activation function on all 65,536 numbers of each
half type and all 2^32 of float32, against an evaluation with a proven error,
and on a million random numbers against one of 768 bits: some 20 minutes.

example: refrun selftest --json`,
	run: selfTest,
}

// selftestISA is the outcome for one instruction set.
type selftestISA struct {
	*selftest.Report
	Kernels []string `json:"kernels"` // what ran
}

func selfTest(c *command) error {
	all := c.flags.Bool("exhaustive", false, "also all inputs of the activation functions; takes long")
	if err := c.parse(0); err != nil {
		return err
	}
	start := time.Now()
	threads := threadCounts(runtime.GOMAXPROCS(0))
	report, err := selftest.Run(threads)
	if err != nil {
		return err
	}
	out := struct {
		OK       bool                   `json:"ok"`
		Contract string                 `json:"contract"`
		Build    string                 `json:"build"`
		Threads  []int                  `json:"threads"`
		Seconds  float64                `json:"seconds"`
		ISA      map[string]selftestISA `json:"isa"`
		All      []exhaustiveRow        `json:"exhaustive,omitempty"`
	}{report.OK, operator.Contract, build(), threads, time.Since(start).Seconds(),
		map[string]selftestISA{c.isa: {report, []string{"plain Go"}}}, nil}
	c.printf("contract %s, %s\n", out.Contract, out.Build)
	for _, f := range report.Failed {
		c.printf("  differs: %s\n", f)
	}
	c.printf("%-8s %d known answers, %d computations with %s threads: ", c.isa, report.Cases, report.Runs, strings.Trim(strings.ReplaceAll(fmt.Sprint(threads), " ", ", "), "[]"))
	if report.OK {
		c.printf("all equal\ndigest   %s\n", report.Digest)
	} else {
		c.printf("%s differ\n", plural(len(report.Failed), "result"))
	}
	if *all {
		var ok bool
		if out.All, ok, err = c.exhaustive(); err != nil {
			return err
		}
		out.OK = out.OK && ok
	}
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	if !out.OK {
		return errFailed
	}
	return nil
}

// threadCounts returns 1, 2, a number that divides nothing, and n itself.
func threadCounts(n int) []int {
	counts := []int{1, 2, 7}
	if n != 1 && n != 2 && n != 7 {
		counts = append(counts, n)
	}
	return counts
}

// build says what the compiler was told: the platform, its level and the tags.
func build() string {
	s := runtime.GOOS + "/" + runtime.GOARCH
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, b := range info.Settings {
		switch b.Key {
		case "GOAMD64", "GOARM64":
			s += ", " + b.Key + "=" + b.Value
		case "-tags":
			s += ", tags " + b.Value
		}
	}
	return s
}
