package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/ground/disk/faulty"
)

// faultCase is a small operator with noise, in two engine batches of a few steps.
const faultCase = `{"operator": {"num_layers": 1, "base_channels": 4, "input_channels": 1, "output_channels": 1,
 "grid_size": 6,
	"noise_type": "gaussian", "noise_scale": 0.1}, "rollout": {"num_timesteps": 4, "num_realizations": 3,
	"engine_batch": 2}, "weights_seed": 1}`

// faultScenarios prepares the files of all scenarios in the working folder, which is
// root.
func faultScenarios(t *testing.T, root string) (all []*scenario) {
	t.Helper()
	done := func(args ...string) {
		t.Helper()
		if r := refrun(t, append(args, "--quiet")...); r.Code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, r.Code, r.Stderr)
		}
	}
	if err := os.WriteFile("op.json", []byte(faultCase), 0o666); err != nil {
		t.Fatal(err)
	}
	bare := readFiles(t, root)
	with := func(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
	run := func(name, ext string, record bool, before contents) *scenario {
		out := "out" + ext
		c := &scenario{name: name, before: before, outputs: []string{out}, sealed: []string{out}}
		c.args = []string{"run", "--config", "op.json", "--x0", "white:7", "-o", out, "--checkpoint", "0s"}
		if record {
			c.args = append(c.args, "--record", "tape.safetensors")
			c.outputs, c.sealed = append(c.outputs, "tape.safetensors"), append(c.sealed, "tape.safetensors")
		}
		if ext == ".npy" {
			c.outputs = append(c.outputs, out+".sha256")
			c.sealed = append(c.sealed, out+".sha256") // with the file that it speaks of
		}
		c.again, c.force = with(c.args, "--resume"), with(c.args, "--force")
		return c
	}
	exts := []string{".safetensors", ".npy", ".npz", ".h5"}
	for i, ext := range exts {
		all = append(all, run("run "+ext+" and tape", ext, true, bare))
		if i%3 == 0 {
			all = append(all, run("run "+ext, ext, false, bare))
		}
		// A run that was killed in its second engine batch.
		c := run("resume "+ext, ext, true, bare)
		n := c.crash(t, root, func(n int) int { return n * 2 / 3 })
		if _, ok := n[c.outputs[0]+".resume"]; !ok {
			t.Fatalf("%s: no checkpoint left", c.name)
		}
		c.before, c.args = n, c.again
		all = append(all, c)
	}
	bare.restore(t, root)
	for _, ext := range exts {
		done("run", "--config", "op.json", "--x0", "white:8", "-o", "out"+ext)
	}
	old := readFiles(t, root)
	for _, ext := range exts {
		c := run("force "+ext, ext, false, old)
		c.again, c.args = with(c.args, "--resume"), c.force
		all = append(all, c)
	}
	all = append(all, datasetScenarios(t, root, bare, done)...)
	return append(all, readingScenarios(t, root, bare, done)...)
}

// faultSet is a dataset of a few tiny operators.
const faultSet = `{"operators": 3, "operator": {"grid_size": 6, "num_layers": 0, "base_channels": 2,
 "noise_type": "gaussian"},
	"rollout": {"num_timesteps": 2, "num_realizations": 2},
	"space": {"operator.noise_scale": {"log": [0.01, 0.3]}}, "store": %s}`

// datasetScenarios are the copies of a dataset that was made: in one file, and in other layouts.
func datasetScenarios(t *testing.T, root string, bare contents, done func(...string)) (all []*scenario) {
	t.Helper()
	for _, store := range []string{`{}`, `{"file": ".h5"}`} {
		bare.restore(t, root)
		if err := os.WriteFile("spec.json", []byte(fmt.Sprintf(faultSet, store)), 0o666); err != nil {
			t.Fatal(err)
		}
		done("dataset", "plan", "spec.json", "-o", "set", "--rate", "10")
		done("dataset", "run", "set")
		before := readFiles(t, root)
		copies := func(args string, outputs ...string) {
			c := &scenario{name: args + " of " + store, before: before, outputs: outputs, args: strings.Fields(args)}
			c.again = append(slices.Clone(c.args), "--force")
			c.force = c.again
			all = append(all, c)
		}
		merged := []string{"set/manifest.jsonl", "set/README.md"}
		copies("dataset merge set -o all.safetensors", append(merged, "all.safetensors")...)
		copies("dataset merge set -o all.h5", append(merged, "all.h5")...)
		copies("dataset export set -o out --format well --split 1,0,1", "out/data/train/dataset.h5",
			"out/data/test/dataset.h5")
		copies("dataset export set -o out --format zarr", "out/zarr.json", "out/trajectories/zarr.json",
			"out/trajectories/c/2/0/0/0/0/0", "out/inputs/c/0/0/0/0", "out/params/c/0/0")
		copies("dataset export set -o out --format safetensors", "out/00000000.safetensors", "out/00000002.safetensors")
	}
	return all
}

// crash returns what a crash leaves at an operation of all.
func (c *scenario) crash(t *testing.T, root string, at func(all int) int) contents {
	t.Helper()
	c.prepare(t, root)
	n, _ := c.operations(t, root, faulty.CrashKeeps)
	c.before.restore(t, root)
	s, err := faulty.New(root, faulty.CrashKeeps, at(n), 0)
	if err != nil {
		t.Fatal(err)
	}
	under(t, s, c.args)
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, root)
}

// readingScenarios are those of verbs that read, and of a run that replays a tape.
func readingScenarios(t *testing.T, root string, bare contents, done func(...string)) (all []*scenario) {
	t.Helper()
	bare.restore(t, root)
	if err := os.MkdirAll("case", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("case/case.json", []byte(faultCase), 0o666); err != nil {
		t.Fatal(err)
	}
	done("run", "--case", "case", "--x0", "white:7", "-o", "case/trajectory.safetensors", "--record",
		"case/noise.safetensors")
	for _, ext := range []string{".npy", ".npz", ".h5"} {
		done("run", "--case", "case", "--x0", "white:7", "-o", "a"+ext)
		done("run", "--case", "case", "--x0", "white:7", "--steps", "3", "--seed", "5", "-o", "b"+ext)
	}
	before := readFiles(t, root)
	reads := func(args string, outputs ...string) {
		c := &scenario{name: args, args: strings.Fields(args), before: before, outputs: outputs}
		c.again, c.force = c.args, c.args
		all = append(all, c)
	}
	reads("verify case/trajectory.safetensors case/noise.safetensors a.npy a.npz a.h5")
	reads("compare a.npy b.npz")
	reads("compare a.h5 case/trajectory.safetensors")
	reads("check --case case --report report.html --junit report.xml")
	reads("run --case case --one-step")
	reads("probe --case case -o probes", "probes/integers/trajectory.safetensors", "probes/integers/case.json",
		"probes/integers/probes.json", "probes/integers/weights.safetensors", "probes/integers/noise.safetensors")
	all[len(all)-1].force = nil // the folder must be emptied first
	c := &scenario{name: "run of a tape", before: before, outputs: []string{"out.safetensors"},
		sealed: []string{"out.safetensors"}}
	c.args = strings.Fields("run --case case --noise tape --x0 white:7 -o out.safetensors --checkpoint 0s")
	c.again, c.force = append(slices.Clone(c.args), "--resume"), append(slices.Clone(c.args), "--force")
	return append(all, c)
}
