package main

import (
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// wholePairs are those of a whole rollout.
func wholePairs(t *testing.T) []pair {
	whole := func(r wholeReport, stored fp16.Format) string {
		r.Memory = &held{}
		return printed(func(c *command) { c.printWhole(&r, stored) })
	}
	configured(t, config)
	run := func(flags ...string) string {
		return lines(t, append([]string{"run", "--config", "run.yaml", "--x0", "white:1"}, flags...)...)
	}
	graph := strings.Replace(config, "num_layers: 0, base_channels: 2,",
		`nodes: [{op: noise, name: n, in: [input], noise_type: gaussian, noise_scale: 0.5}],`, 1)
	graph = strings.Replace(graph, ", noise_type: gaussian, noise_scale: 0.5}\n", "}\n", 1)
	quiet := strings.Replace(config, ", noise_type: gaussian, noise_scale: 0.5", "", 1)
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
	return []pair{
		{"a.npy is already complete, and every byte of it verified", again, made},
		{"written to a.npy as float32", made, again},
		{"written to", made, run()},
		{"written to c.h5 as float32", half, small},
		{"written to b.npy as float16", small, half},
		{" as bfloat16", run("-o", "c.safetensors", "--store", "bfloat16"), half},
		{"digest of the float16 states in the file", small, made},
		{"the operator's noise was left out", none("run.yaml", "--noise", "none"), none("run.yaml")},
		{"the operator's noise was left out", none("graph.yaml", "--noise", "none"), none("graph.yaml")},
		{"the operator's noise was left out", none("run.yaml", "--noise", "none"), none("quiet.yaml", "--noise", "none")},
		{"the process at most 2 kB", whole(wholeReport{PeakBytes: 2000}, fp16.Float32), whole(wholeReport{}, fp16.Float32)},
		{"the process at most", whole(wholeReport{PeakBytes: 2000}, fp16.Float32),
			whole(wholeReport{PeakBytes: 0}, fp16.Float32)},
		{"3 sample-steps/s", whole(wholeReport{SampleStepsPerS: 3}, fp16.Float32),
			whole(wholeReport{SampleStepsPerS: 3, Resumed: true}, fp16.Float32)},
		{"continued from a checkpoint", whole(wholeReport{Resumed: true}, fp16.Float32), whole(wholeReport{}, fp16.Float32)},
	}
}
