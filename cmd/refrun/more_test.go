package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// tensorsFile writes a safetensors file.
func tensorsFile(t *testing.T, name string, tensors ...*safetensors.Tensor) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, tensors, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMoreThanThereIs: small files that ask for much memory are refused with one line that says
// how much, by every verb that would take it.
func TestMoreThanThereIs(t *testing.T) {
	t.Chdir(t.TempDir())
	put := func(name, format string, args ...any) {
		t.Helper()
		if err := os.WriteFile(name, fmt.Appendf(nil, format, args...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const most = "--memory 200MB"
	n := 0
	refused := func(args string, parts ...string) {
		t.Helper()
		r := refrun(t, append(strings.Fields(args+" "+most), "--quiet")...)
		if wrong := judgeHostile(r.Code, "", r.Stderr); wrong != "" {
			t.Errorf("%s: %s", args, wrong)
		}
		for _, part := range append(parts, " of memory: want at most 200 MB, which --memory says") {
			if !strings.Contains(r.Stderr, part) {
				t.Errorf("%s: %q, want %q in it", args, r.Stderr, part)
			}
		}
		n++
	}
	for name, c := range map[string]struct{ operator, rollout, part string }{
		"grid": {`"grid_size": 8192, "output_channels": 1, "num_layers": 1, "base_channels": 2`, "",
			"states of an engine batch: 1 of 1x8192x8192 numbers: a step takes 1.61 GB"},
		"grid_most": {`"grid_size": 46000, "output_channels": 1, "num_layers": 1, "base_channels": 2`, "",
			"states of an engine batch"},
		"batch": {`"grid_size": 512, "output_channels": 1, "num_layers": 1, "base_channels": 2`,
			`, "engine_batch": 100, "num_realizations": 100`, ""},
		"weights": {`"grid_size": 8, "output_channels": 1, "num_layers": 5, "base_channels": 512`, "", "weights takes"},
		"between": {`"grid_size": 1024, "output_channels": 1, "num_layers": 1, "base_channels": 64`, "", "the graph takes"},
		"nodes": {`"grid_size": 256, "nodes": [{"op": "conv", "name": "wide", "out_channels": 4096, ` +
			`"kernel_size": 1}, {"op": "conv", "name": "b", "out_channels": 1, "kernel_size": 1}]`, "",
			"wide: with output [1 4096 256 256]"},
	} {
		rollout := `"num_timesteps": 9, "num_realizations": 1` + c.rollout
		if c.rollout != "" {
			rollout = `"num_timesteps": 9` + c.rollout
		}
		put(name+".json", `{"operator": {"input_channels": 1, %s}, "rollout": {%s}, "weights_seed": 1}`, c.operator, rollout)
		for _, verb := range []string{
			"run --x0 zeros", "study --x0 zeros --steps 8", "plan --seconds 0.01", "bench --seconds 0.01",
		} {
			if name == "batch" && !strings.HasPrefix(verb, "run") {
				continue // these take fewer
			}
			refused(verb+" --config "+name+".json", c.part)
		}
	}
	const net = `{"inputs": [{"name": "x", "shape": %s}], "nodes": [%s], "outputs": ["y"]}`
	small, relu := `[1,1]`, `{"op": "relu", "name": "y", "in": ["a"]}`
	for name, c := range map[string]struct{ shape, nodes string }{
		"expand": {small, `{"op": "expand", "name": "a", "in": ["x"], "attributes": {"size": [8192, 8192]}}, ` + relu},
		"pad": {small, `{"op": "pad", "name": "a", "in": ["x"], "attributes": {"before": [8192, 8192], ` +
			`"after": [0, 0]}}, ` + relu},
		"repeat": {small, `{"op": "repeat", "name": "a", "in": ["x"], "attributes": {"repeats": [65536, 65536]}}, ` + relu},
		"outer": {`[8192,1]`, `{"op": "transpose", "name": "t", "in": ["x"], "attributes": {"dim0": 0, "dim1": 1}}, ` +
			`{"op": "mul", "name": "y", "in": ["x", "t"]}`},
		"input": {`[65536,65536]`, `{"op": "relu", "name": "y", "in": ["x"]}`},
	} {
		put(name+".net.json", net, c.shape, c.nodes)
		refused("plan --seconds 0.01 --graph " + name + ".net.json")
	}
	put("x.xyz", "2\n\nH 0 0 0\nH 0 0 1\n")
	put("energy.json", `{"inputs": [{"name": "z", "shape": [2], "dtype": "int64"}, {"name": "r", "shape": [2,3]}],
	"outputs": ["y"], "nodes": [
		{"op": "sum", "name": "s", "in": ["r"], "attributes": {"dim": [0,1], "keepdim": true}},
		{"op": "expand", "name": "a", "in": ["s"], "attributes": {"size": [8192, 8192]}},
		{"op": "sum", "name": "y", "in": ["a"]}]}`)
	refused("molecule x.xyz --graph energy.json", "a: with output [8192 8192]")
	put("sum.json", net, small, `{"op": "expand", "name": "a", "in": ["x"], "attributes": {"size": [1, 8388608]}}, `+
		`{"op": "sum", "name": "y", "in": ["a"], "attributes": {"dim": [1], "keepdim": true}}`)
	tensorsFile(t, "kernel.safetensors", clitest.ServedTensor(t, "x", []int{1, 1}, func(int) float64 { return 1 }),
		clitest.ServedTensor(t, "output", []int{1, 1}, func(int) float64 { return 1 << 23 }))
	refused("kernel kernel.safetensors --graph sum.json", "a.output: with output [1 8388608]")
	if r := refrun(t, "check", "--graph", "sum.json", "--input", "x=kernel.safetensors:x", "--output",
		"y=kernel.safetensors:output", "--memory", "200MB"); r.Code != cli.ExitNoPower ||
		!strings.Contains(strings.Join(strings.Fields(r.Stdout), " "),
			"UNJUDGED y: a.output: with output [1 8388608] the graph takes ") {
		t.Errorf("check --graph: exit code %d, %q %q", r.Code, r.Stdout, r.Stderr)
	}
	if err := os.Mkdir("chain", 0o777); err != nil {
		t.Fatal(err)
	}
	put("chain/case.json", `{"operator": {"input_channels": 1, "output_channels": 1, "grid_size": 4,
	"nodes": [{"op": "interpolate", "name": "up", "in": ["input"], "attributes": {"scale_factor": 1024}},
		{"op": "avg_pool2d", "name": "down", "in": ["up"], "attributes": {"kernel_size": 1024}}]},
		"rollout": {"num_timesteps": 3, "num_realizations": 1}, "weights_seed": 1}`)
	tensorsFile(t, "chain/trajectory.safetensors",
		clitest.ServedTensor(t, "trajectory", []int{1, 3, 1, 4, 4}, func(i int) float64 { return float64(i%16) / 16 }))
	refused("check --case chain", "up.output: with output [1 1 4096 4096]")
	put("spec.json", `{"operators": 2, "operator": {"grid_size": 2048, "num_layers": 2, "base_channels": 16}, `+
		`"rollout": {"num_timesteps": 3, "num_realizations": 2}, "space": {"operator.noise_scale": {"log": [0.01, `+
		`0.3]}}}`)
	if r := refrun(t, "dataset", "plan", "spec.json", "-o", "set", "--rate", "10"); r.Code != cli.ExitOK {
		t.Fatal(r.Stderr)
	}
	refused("dataset run set", "set: unit ")
	for _, bad := range []string{"0", "much", "-1GB", "8XB", ""} {
		if r := refrun(t, "info", "--memory="+bad); judgeHostile(r.Code, r.Stdout, r.Stderr) != "" ||
			!strings.Contains(r.Stderr, "memory") {
			t.Errorf("--memory %q: exit code %d, %q", bad, r.Code, r.Stderr)
		}
	}
	t.Logf("%d refused", n)
}
