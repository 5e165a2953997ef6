package bench

import (
	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// peakPairs are those of the rate of this machine.
func peakPairs() []clitest.Pair {
	rate := func(stable bool) string {
		return clitest.Printed(func(c *cli.Command) { printPeak(c, &benchReport{Stable: stable}) })
	}
	return []clitest.Pair{
		{Says: "the machine is busy: no two of 20 measurements of this rate agree to 2 %, so every figure below may be " +
			"too low", Is: rate(false), IsNot: rate(true)},
		{Says: "plain Go, one number at a time", Is: rateOf("purego", false), IsNot: rateOf("avx2", true)},
		{Says: "float64 fused multiply-adds of the 3x3 kernel, avx2, data in the first cache", Is: rateOf("avx2", true),
			IsNot: rateOf("purego", false)},
	}
}

func planPairs() []clitest.Pair {
	plan := func(r planReport) string { return clitest.Printed(func(c *cli.Command) { printPlan(c, &r) }) }
	return []clitest.Pair{
		{Says: "compiled in", Is: plan(planReport{Compiled: true}), IsNot: plan(planReport{Why: "float64 mode"})},
		{Says: "not compiled: float64 mode", Is: plan(planReport{Why: "float64 mode"}),
			IsNot: plan(planReport{Compiled: true})},
		{Says: "; not compiled 2 s", Is: plan(planReport{Compiled: true, General: 2}), IsNot: plan(planReport{General: 2})},
		{Says: "compiling pays from step 7 on", Is: plan(planReport{Compiled: true, PaysFrom: 7}),
			IsNot: plan(planReport{Compiled: true, PaysFrom: -1})},
		{Says: "compiling pays", Is: plan(planReport{Compiled: true, PaysFrom: 7}), IsNot: plan(planReport{PaysFrom: 7})},
		{Says: "3 operators of", Is: plan(planReport{Dataset: &planDataset{Operators: 3}}), IsNot: plan(planReport{})},
	}
}
