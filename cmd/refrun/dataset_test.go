package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/dataset"
	"github.com/refrun/refrun/internal/dataset/initial"
	"github.com/refrun/refrun/internal/ground/disk"
)

var datasetKills = flag.Int("dataset-kills", 1,
	"how many SIGKILLs, and half as many SIGTERMs, TestDatasetKills sends; more than 10 to a dataset of 200 operators")

// ok runs the command, which must succeed, and returns its JSON.
func ok(t *testing.T, args ...string) map[string]any {
	t.Helper()
	r := refrun(t, append(args, "--json")...)
	if r.Code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, r.Code, r.Stderr)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatalf("%v: %v: %s", args, err, r.Stdout)
	}
	return v
}

// merged returns the SHA-256 of a dataset's data and of its manifest.
func merged(t *testing.T, dir string) string {
	t.Helper()
	v := ok(t, "dataset", "merge", dir, "-o", dir+".safetensors", "--force")
	return fmt.Sprint(v["sha256"], " ", v["manifest_sha256"])
}

// TestDataset goes the way of a user: plan, shards by a scheduler's index, status, missing,
// verify, a damaged unit, merge, info.
func TestDataset(t *testing.T) {
	clitest.DatasetFile(t, 6, 3)
	if v := ok(t, "dataset", "plan", "spec.yaml", "--dry-run", "--rate", "10"); len(v["sampled"].([]any)) != 6 {
		t.Errorf("%v", v["sampled"])
	}
	if _, err := os.Stat("set"); err == nil {
		t.Error("--dry-run made a folder")
	}
	v := ok(t, "dataset", "plan", "spec.yaml", "-o", "set", "--shards", "3")
	identity := v["identity"]
	ok(t, "dataset", "plan", "spec.yaml", "-o", "again", "--shards", "1", "--rate", "10")
	ok(t, "dataset", "run", "again")
	want := merged(t, "again")

	if r := refrun(t, "dataset", "missing", "set"); r.Code != 1 || r.Stdout != "0\n1\n2\n3\n4\n5\n" {
		t.Errorf("exit code %d, %q", r.Code, r.Stdout)
	}
	refrun(t, "dataset", "merge", "set", "-o", "x.safetensors").Refused(t, "dataset",
		"set: 6 of 6 units missing, the first is 0: want all of them")
	for i := range 3 {
		t.Setenv("SLURM_ARRAY_TASK_ID", fmt.Sprint(i))
		if i == 0 {
			refrun(t, "dataset", "run", "set").Refused(t, "dataset",
				"--shard: missing, and $SLURM_ARRAY_TASK_ID is set: want auto, or i/n")
			refrun(t, "dataset", "run", "set", "--shard", "auto", "--shard-offset", "3").Refused(t, "dataset",
				"$SLURM_ARRAY_TASK_ID: shard 3: want 0 to 2, ...")
			t.Setenv("PARALLEL_SEQ", "1")
			refrun(t, "dataset", "run", "set", "--shard", "auto").Refused(t, "dataset",
				"--shard: auto: $SLURM_ARRAY_TASK_ID and $PARALLEL_SEQ are set: want ...")
			t.Setenv("PARALLEL_SEQ", "")
		}
		ok(t, "dataset", "run", "set", "--shard", "auto")
	}
	if v := ok(t, "dataset", "status", "set"); v["made"] != 6. || v["share_of_work"] != 1. {
		t.Errorf("%v", v)
	}
	if got := merged(t, "set"); got != want {
		t.Errorf("three shards: %s, want %s", got, want)
	}
	if v := ok(t, "dataset", "verify", "set", "--read", "--recompute", "3"); v["ok"] != true || v["recomputed"] != 3. {
		t.Errorf("%v", v)
	}
	if v := ok(t, "dataset", "info", "set"); v["identity"] != identity {
		t.Errorf("identity %v, want %v", v["identity"], identity)
	}
	unit := filepath.Join("set", "units", "00000", "00000004.safetensors")
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 16
	if err := os.WriteFile(unit, b, 0o666); err != nil {
		t.Fatal(err)
	}
	ok(t, "dataset", "verify", "set")
	if r := refrun(t, "dataset", "verify", "set", "--read"); r.Code != 1 ||
		!strings.HasPrefix(clitest.Unfolded(r.Stdout), "unit 4: units/00000/00000004.safetensors: realization ") {
		t.Errorf("exit code %d, %q", r.Code, r.Stdout)
	}
	t.Setenv("SLURM_ARRAY_TASK_ID", "")
	ok(t, "dataset", "run", "set", "--units", "4", "--force")
	if got := merged(t, "set"); got != want {
		t.Errorf("made anew: %s, want %s", got, want)
	}
	for _, format := range []string{"well", "zarr", "safetensors"} {
		if v := ok(t, "dataset", "export", "set", "-o", "as-"+format, "--format", format); v["units"] != 6. ||
			v["identity"] != identity {
			t.Errorf("%v", v)
		}
	}
	for _, args := range [][]string{
		{"sample", "set", "-o", "sheet.SVG"},
		{"sample", "set", "-o", "set.svg", "--units", "3", "--times", "2"},
		{"gallery", "-o", "all.svg", "--side", "8", "--seeds", "1"},
	} {
		ok(t, append([]string{"dataset"}, args...)...)
	}
	if text, err := os.ReadFile("set.svg"); err != nil || !strings.Contains(string(text), "unit 3") ||
		!strings.Contains(string(text), "t = 3") || strings.Count(string(text), "<image") != 2 {
		t.Errorf("%v: no picture of unit 3 at the first and the last time", err)
	}
	if text, err := os.ReadFile("all.svg"); err != nil || strings.Count(string(text), "<image") != len(initial.Names()) {
		t.Errorf("%v: no picture of every initial condition", err)
	}
	if v := ok(t, "dataset", "info", "set", "--unit", "4"); v["record"] == nil || v["unit"] != 4. {
		t.Errorf("%v", v)
	}
}

// TestDatasetExample plans the specification in examples.
func TestDatasetExample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	if v := ok(t, "dataset", "plan", "../../examples/dataset/spec.yaml", "-o", dir, "--rate", "10"); v["units"] !=
		20. || v["shards"] != 16. {
		t.Errorf("%v", v)
	}
}

// TestDatasetRefused holds the messages of what is wrong.
func TestDatasetRefused(t *testing.T) {
	clitest.DatasetFile(t, 6, 3)
	ok(t, "dataset", "plan", "spec.yaml", "-o", "set", "--rate", "10")
	for _, c := range []struct {
		from, to, want string
	}{
		{"operators: 6", "operators: 1000000000", "bad.yaml:2: operators: 1000000000: want an integer from 1 to 1000000"},
		{"{integer: [0, 2]}", "{integer: [2, 0]}",
			"bad.yaml:7: space.operator.num_layers.integer: [2 0]: want two numbers, the lower one first"},
		{"num_layers:", "num_layer:",
			"bad.yaml:7: operator.num_layer: unknown key: did you mean num_layers? want one of ..."},
		{"grid_size: 12", "grid_size: 65536", "bad.yaml:4: operator.grid_size: 65536: want states of at most 2^31 ..."},
		{clitest.DatasetSpec[strings.Index(clitest.DatasetSpec, "space:"):], "space: {}",
			"bad.yaml:6: space: nothing in it: want a field that varies"},
		{"type: white", "type: perlin", `bad.yaml:11: initial.type: "perlin": want one of ...`},
	} {
		text, err := os.ReadFile("spec.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("bad.yaml", []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		refrun(t, "dataset", "plan", "bad.yaml", "-o", "none", "--rate", "1").Refused(t, "dataset", c.want)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "0 arguments given: want ..."},
		{[]string{"make"}, `"make": want plan, run, status, missing, verify, merge, export, info, sample or gallery`},
		{[]string{"plan", "spec.yaml"}, "-o: missing: want a folder to write the plan to, or --dry-run"},
		{[]string{"plan", "none.yaml", "-o", "x"}, "none.yaml: ..."},
		{[]string{"plan", "spec.yaml", "-o", "x", "--shards", "-1"}, "--shards: -1: want 1 to 1048576"},
		{[]string{"plan", "spec.yaml", "-o", "x", "--workers", "0"}, "--workers: 0: want 1 to 65536"},
		{[]string{"run", "none"}, "none/plan.json: ..."},
		{[]string{"run", "spec.yaml"}, "spec.yaml/plan.json: ..."},
		{[]string{"run", "set", "--shard", "1/1"}, `--shard: "1/1": want auto, or i/n with i from 0 to n-1, such as 0/8`},
		{[]string{"run", "set", "--shard", "auto"}, "--shard: auto: no scheduler's index in the environment: ..."},
		{[]string{"run", "set", "--units", "6"}, `--units: "6": want numbers from 0 to 5, with commas between`},
		{[]string{"run", "set", "--force"}, "--force: want --units as well"},
		{[]string{"info", "set", "--unit", "6"}, "--unit: 6: want 0 to 5"},
		{[]string{"merge", "set"}, "-o: missing: want a .safetensors or .h5 file to write"},
		{[]string{"merge", "set", "-o", "x.npy"}, `x.npy: file type ".npy": want .safetensors or .h5`},
		{[]string{"merge", "set", "-o", "x.h5", "--gzip", "10"}, "--gzip: 10: want a level from 1 to 9, or 0 for none"},
		{[]string{"export", "set", "--format", "zarr"}, "-o: missing: want a folder to write to"},
		{[]string{"export", "set", "-o", "x"}, "--format: missing: want well, zarr, safetensors"},
		{[]string{"export", "set", "-o", "x", "--format", "npy"}, `--format: "npy": want well, zarr or safetensors`},
		{[]string{"export", "set", "-o", "x", "--format", "zarr", "--split", "8"},
			`--split: "8": want three numbers of 0 or more, such as 8,1,1`},
		{[]string{"export", "set", "-o", "set", "--format", "zarr"},
			"set: is there already: want a new folder, or --force to write into it"},
		{[]string{"export", "set", "-o", "x", "--format", "zarr"},
			"set: 6 of 6 units missing, the first is 0: want all of them"},
		{[]string{"sample", "set"}, "-o: missing: want a .svg file to write"},
		{[]string{"sample", "set", "-o", "x.gif"}, "x.gif: want a name that ends in .svg"},
		{[]string{"gallery", "-o", "x.png"}, "x.png: want a name that ends in .svg"},
		{[]string{"sample", "set", "-o", "x.svg"}, "set: no unit is made yet: want some"},
		{[]string{"sample", "set", "-o", "x.svg", "--rows", "0"}, "--rows: 0: want 1 to 64"},
		{[]string{"sample", "set", "-o", "x.svg", "--times", "65"}, "--times: 65: want 1 to 64"},
		{[]string{"gallery"}, "-o: missing: want a .svg file to write"},
		{[]string{"gallery", "-o", "x.svg", "--side", "4"}, "--side: 4: want 8 to 1024"},
		{[]string{"gallery", "-o", "x.svg", "--type", "perlin"}, `--type: type: "perlin": want one of ...`},
		{[]string{"verify", "set", "--recompute", "-1"}, "--recompute: -1: want 0 or more"},
	} {
		refrun(t, append([]string{"dataset"}, c.args...)...).Refused(t, "dataset", c.want)
	}
	for _, v := range dataset.Verb.Parts {
		r := refrun(t, append(strings.Fields(v.Name), "--help")...)
		if r.Code != 0 || !strings.Contains(r.Stdout, "usage: refrun "+v.Name) ||
			!strings.Contains(r.Stdout, "\nexample: refrun ") {
			t.Errorf("%s: exit code %d, %q", v.Name, r.Code, r.Stdout)
		}
	}
}

// TestDatasetKills makes a dataset by processes that are killed at random, several at once
// over the same units: the same data and manifest as by one that is left alone. A
// terminated process leaves within five seconds with exit code 75.
func TestDatasetKills(t *testing.T) {
	count, steps := 8, 300
	if *datasetKills > 10 {
		count, steps = 200, 400
	}
	clitest.DatasetFile(t, count, steps)
	for _, dir := range []string{"alone", "set"} {
		ok(t, "dataset", "plan", "spec.yaml", "-o", dir, "--shards", "7", "--rate", "10")
	}
	began := time.Now()
	ok(t, "dataset", "run", "alone")
	whole := time.Since(began)
	want := merged(t, "alone")
	terms := 0
	for i := range *datasetKills + (*datasetKills+1)/2 {
		signal := syscall.SIGKILL
		if i%3 == 1 || *datasetKills == 1 && i == 1 {
			signal = syscall.SIGTERM
		}
		p := asCommand(t, "dataset", "run", "set", "--checkpoint", "0s", "--quiet")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20*time.Millisecond + time.Duration(rand.Int64N(int64(whole)/int64(*datasetKills+1)+1)))
		p.Process.Signal(signal)
		sent := time.Now()
		p.Wait()
		if code := p.ProcessState.ExitCode(); signal == syscall.SIGTERM && code != 0 {
			terms++
			if took := time.Since(sent); code != 75 || took > 5*time.Second {
				t.Errorf("terminated: exit code %d after %v", code, took)
			}
		}
	}
	ok(t, "dataset", "run", "set")
	if got := merged(t, "set"); got != want {
		t.Errorf("killed: %s, want %s", got, want)
	}
	t.Logf("%d units in %v; %d processes left on SIGTERM", count, whole, terms)
}

// shared is a file system without locks, where another process finishes each file meanwhile.
type shared struct{ disk.System }

func (s shared) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := s.System.OpenFile(name, flag, perm)
	if path, ok := strings.CutSuffix(name, ".partial"); ok && err == nil {
		if err = os.WriteFile(path+".new", []byte("another's"), 0o666); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	return f, err
}

// TestDatasetShared: who loses a unit to another process, where no lock kept it off, says so
// with the exit code of what is to be tried again.
func TestDatasetShared(t *testing.T) {
	clitest.DatasetFile(t, 3, 2)
	ok(t, "dataset", "plan", "spec.yaml", "-o", "set", "--rate", "10")
	restore := disk.Use(shared{disk.Operating()})
	r := refrun(t, "dataset", "run", "set")
	restore()
	if r.Code != cli.ExitResumable || !strings.Contains(r.Stderr, "made by someone else") ||
		!strings.Contains(r.Stderr, "the same command goes on") {
		t.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
}
