package run

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

// demoPairs are those of the demo: what it says of its case as it is, and of the same
// with one fact changed.
func demoPairs(t *testing.T) []clitest.Pair {
	tell := func(change func(*rollout.Case, *demoReport)) string {
		cs := &rollout.Case{ProducedBy: "PyTorch"}
		cs.Operator.NumLayers, cs.Operator.Normalization, cs.Operator.Activation, cs.Operator.NoiseType = 4, "instance",
			"gelu", "gaussian"
		two := 2
		r := &demoReport{
			Table: []demoRow{{1, 3e-7, 3e-7}, {2, 3e-7, 6e-7}, {3, 3e-7, 4e-5}},
			Far:   []demoFarRow{{10, 2e-6}, {60, 0.4}},
			Checks: []demoCheck{
				{What: "largest", demoFigure: &demoFigure{Got: 5e-6, Limit: 1e-5}, OK: true},
				{What: "check of a device", Verdict: "FAIL-ROLLOUT", FirstStep: &two, Diagnosis: "it is stale", OK: true},
			},
			runReport: &runReport{OneStep: &oracle.OneStep{Noise: "torch-cpu:1.13"}},
		}
		change(cs, r)
		return clitest.Printed(func(c *cli.Command) { printDemo(c, cs, &rollout.States{Data: []float64{1}}, r) })
	}
	is := tell(func(*rollout.Case, *demoReport) {})
	report := func(change func(r *demoReport)) string {
		return tell(func(_ *rollout.Case, r *demoReport) { change(r) })
	}
	operator := func(change func(cs *rollout.Case)) string {
		return tell(func(cs *rollout.Case, _ *demoReport) { change(cs) })
	}
	nan := diff.Number(0)
	nan /= nan
	wrong := report(func(r *demoReport) { r.Table[2].OneStep = 2e-6 })
	still := report(func(r *demoReport) { r.Table[2].Path = 5e-7 })
	near := report(func(r *demoReport) { r.Far[1].MeanAbs = 0.2 })
	none := -1
	quiet := report(func(r *demoReport) { r.Checks[1].FirstStep, r.Checks[1].Diagnosis = &none, "" })
	failed := report(func(r *demoReport) { r.Checks[0].Got, r.Checks[0].OK = 1.001e-5, false })
	return []clitest.Pair{
		{Says: "A stochastic CNN operator (4 layers, instance norm, GELU, Gaussian noise), recorded by\nPyTorch:", Is: is,
			IsNot: operator(func(cs *rollout.Case) { cs.Operator.Activation = "relu" })},
		{Says: "A CNN operator (4 layers, instance norm, GELU), recorded by",
			Is: operator(func(cs *rollout.Case) { cs.Operator.NoiseType = "" }), IsNot: is},
		{Says: "stochastic", Is: is, IsNot: operator(func(cs *rollout.Case) { cs.Operator.NoiseType = "" })},
		{Says: "draws PyTorch's random\nnumbers bit for bit", Is: is,
			IsNot: report(func(r *demoReport) { r.Noise = "tape" })},
		{Says: "takes the recorded random", Is: report(func(r *demoReport) { r.Noise = "tape" }), IsNot: is},
		{Says: "it stays where float32 is", Is: is, IsNot: wrong},
		{Says: "it stays where float32 is", Is: is, IsNot: report(func(r *demoReport) { r.Table[0].OneStep = nan })},
		{Says: "it does not stay where", Is: wrong, IsNot: is},
		{Says: "and grows, because this operator enlarges any difference", Is: is, IsNot: still},
		{Says: "The second is\nthe same arithmetic, step after step", Is: still, IsNot: is},
		{Says: "because this operator enlarges any difference", Is: is,
			IsNot: report(func(r *demoReport) { r.Far[1].MeanAbs = 1e-6 })},
		{Says: "A millionth at the start does that without any half\n" +
			"precision: the end of a rollout says nothing about arithmetic.", Is: is, IsNot: near},
		{Says: "A single step does", Is: is, IsNot: near},
		{Says: "ok     largest 5.00e-06 of the std, limit 1.00e-05", Is: is, IsNot: failed},
		{Says: "FAILED largest 1.001e-05 of the std, limit 1.00e-05", Is: failed, IsNot: is},
		{Says: "ok     check of a device: FAIL-ROLLOUT at step 2, it is stale", Is: is, IsNot: quiet},
		{Says: " at step 2", Is: is, IsNot: quiet},
		{Says: ", it is stale", Is: is, IsNot: quiet},
		{Says: "FAILED check of a device", Is: report(func(r *demoReport) { r.Checks[1].OK = false }), IsNot: is},
	}
}

// TestDemoStory: the story is told of the demo's own case as it stands in README.
func TestDemoStory(t *testing.T) {
	cs, err := rollout.OpenCase("demo")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := demoIntroduction(cs),
		"A stochastic CNN operator (4 layers, instance norm, GELU, Gaussian noise)"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
