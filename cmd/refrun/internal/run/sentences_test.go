package run

import (
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

func evaluationPairs() []clitest.Pair {
	ran := func(r modelReport) string { return clitest.Printed(func(c *cli.Command) { printEvaluation(c, r) }) }
	return []clitest.Pair{
		{Says: "sizes depend on the numbers of input x", Is: ran(modelReport{Fixed: []string{"x"}}),
			IsNot: ran(modelReport{})},
	}
}

// wholePairs are those of a whole rollout.
func wholePairs(t *testing.T) []clitest.Pair {
	whole := func(r wholeReport, stored fp16.Format) string {
		r.Memory = &held{}
		return clitest.Printed(func(c *cli.Command) { printWhole(c, &r, stored) })
	}
	clitest.InFolder(t, clitest.Config)
	run := func(flags ...string) string {
		return lines(t, append([]string{"run", "--config", "run.yaml", "--x0", "white:1"}, flags...)...)
	}
	graph := strings.Replace(clitest.Config, "num_layers: 0, base_channels: 2,",
		`nodes: [{op: noise, name: n, in: [input], noise_type: gaussian, noise_scale: 0.5}],`, 1)
	graph = strings.Replace(graph, ", noise_type: gaussian, noise_scale: 0.5}\n", "}\n", 1)
	quiet := strings.Replace(clitest.Config, ", noise_type: gaussian, noise_scale: 0.5", "", 1)
	for name, text := range map[string]string{"graph.yaml": graph, "quiet.yaml": quiet} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	made, again := run("-o", "a.npy"), run("-o", "a.npy", "--resume")
	small := run("-o", "b.npy", "--store", "float16")
	half := run("-o", "c.h5", "--store", "bfloat16")
	none := func(file string, flags ...string) string {
		return lines(t, append([]string{"run", "--config", file, "--x0", "white:1"}, flags...)...)
	}
	return []clitest.Pair{
		{Says: "a.npy is already complete, and every byte of it verified", Is: again, IsNot: made},
		{Says: "written to a.npy as float32", Is: made, IsNot: again},
		{Says: "written to", Is: made, IsNot: run()},
		{Says: "written to c.h5 as float32", Is: half, IsNot: small},
		{Says: "written to b.npy as float16", Is: small, IsNot: half},
		{Says: " as bfloat16", Is: run("-o", "c.safetensors", "--store", "bfloat16"), IsNot: half},
		{Says: "digest of the float16 states in the file", Is: small, IsNot: made},
		{Says: "the operator's noise was left out", Is: none("run.yaml", "--noise", "none"), IsNot: none("run.yaml")},
		{Says: "the operator's noise was left out", Is: none("graph.yaml", "--noise", "none"), IsNot: none("graph.yaml")},
		{Says: "the operator's noise was left out", Is: none("run.yaml", "--noise", "none"), IsNot: none("quiet.yaml",
			"--noise", "none")},
		{Says: "the process at most 2 kB", Is: whole(wholeReport{PeakBytes: 2000}, fp16.Float32), IsNot: whole(wholeReport{},
			fp16.Float32)},
		{Says: "the process at most", Is: whole(wholeReport{PeakBytes: 2000}, fp16.Float32),
			IsNot: whole(wholeReport{PeakBytes: 0}, fp16.Float32)},
		{Says: "3 sample-steps/s", Is: whole(wholeReport{SampleStepsPerS: 3}, fp16.Float32),
			IsNot: whole(wholeReport{SampleStepsPerS: 3, Resumed: true}, fp16.Float32)},
		{Says: "continued from a checkpoint", Is: whole(wholeReport{Resumed: true}, fp16.Float32), IsNot: whole(wholeReport{},
			fp16.Float32)},
	}
}

func onePairs(t *testing.T) []clitest.Pair {
	one := func(r oracle.OneStep) string {
		return clitest.Printed(func(c *cli.Command) { printOneStep(c, &rollout.Case{}, &runReport{OneStep: &r}) })
	}
	layers := func(v ...diff.Number) (r oracle.OneStep) {
		for i, x := range v {
			r.Layers = append(r.Layers, oracle.Layer{Name: string(rune('a' + i)), Diff: diff.Diff{MaxOverStd: x}})
		}
		return r
	}
	tiny := layers(0)
	tiny.Layers[0].MaxAbs = 1e-300 // and its std is 1e300
	nan := diff.Number(0)
	nan /= nan

	f := clitest.NewFolder(t)
	dir := f.Write()
	f.Set("operator.use_batch_norm", true)
	ignoring := f.Write()
	f = clitest.NewFolder(t)
	delete(f.Json, "produced_by")
	nobody := f.Write()
	step := func(dir string, flags ...string) string {
		return lines(t, append([]string{"run", "--one-step", "--case", dir}, flags...)...)
	}
	usual := step(dir)
	return []clitest.Pair{
		{Says: "the largest difference, 2 of its std, is in b", Is: one(layers(1, 2, 0)), IsNot: one(layers(2, 1, 0))},
		{Says: "the largest difference, NaN of its std, is in b", Is: one(layers(1, nan, 3)), IsNot: one(layers(1, 2, 3))},
		{Says: "the largest difference, 1 of its std, is in a", Is: one(layers(1)), IsNot: one(layers(0))},
		{Says: "3 recorded layers compared; they are equal", Is: one(layers(0, 0, 0)), IsNot: one(layers(0, 0, nan))},
		{Says: "they are equal", Is: one(layers(0)), IsNot: one(tiny)},
		{Says: "recorded layer", Is: one(layers(1)), IsNot: one(oracle.OneStep{})},
		{Says: "NaN or infinite on one side only: 2 elements", Is: one(oracle.OneStep{All: diff.Diff{NonFiniteDiffer: 2}}),
			IsNot: one(oracle.OneStep{All: diff.Diff{NonFiniteEqual: 2}})},
		{Says: "RMS distance to float64 steps", Is: one(oracle.OneStep{Truth: &oracle.Truth{}}),
			IsNot: one(oracle.OneStep{})},
		{Says: "refrun 1, recording 2: ratio 0.5",
			Is: one(oracle.OneStep{Truth: &oracle.Truth{Ours: 1, Recorded: 2, Ratio: 0.5}}), IsNot: one(oracle.OneStep{})},
		{Says: "the case was recorded in float32, and is compared with tf32 steps", Is: step(dir, "--precision", "tf32"),
			IsNot: usual},
		{Says: "the case was recorded in", Is: step(dir, "--precision", "float64"), IsNot: step(dir, "--precision",
			"float32")},
		{Says: "the operator's noise was left out", Is: step(dir, "--noise", "none"), IsNot: step(dir, "--noise", "tape")},
		{Says: "operator.use_batch_norm is ignored, as Spinlock's builder ignores it", Is: step(ignoring), IsNot: usual},
		{Says: "recorded by ", Is: usual, IsNot: step(nobody)},
		{Says: "float16 overflow: first at step 2 in c1, 3 elements", Is: strings.Join(
			setup.OverflowNotes(&rollout.Overflow{Step: 2, Layer: "c1", Elements: 3}, false), "",
		), IsNot: strings.Join(setup.OverflowNotes(nil, false), "")},
		{Says: "float16 overflow: first at", Is: strings.Join(setup.OverflowNotes(&rollout.Overflow{Step: 2}, false), ""),
			IsNot: strings.Join(setup.OverflowNotes(&rollout.Overflow{Step: 2}, true), "")},
		{Says: " since the run was resumed: first at step 2", Is: strings.Join(setup.OverflowNotes(&rollout.Overflow{Step: 2},
			true),
			""), IsNot: strings.Join(setup.OverflowNotes(&rollout.Overflow{Step: 2}, false), "")},
	}
}
