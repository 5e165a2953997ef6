package rollout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/safetensors"
)

// recurrence is x' = 0.5 x - 0.25 x.1 + f + 2 n (h + g) and h' = x.2 + h, of three axes, with a noise and a static
// field.
const recurrence = `{"version": 1, "inputs": [{"name": "state", "shape": [1, 2, 5]},
 {"name": "state.1", "shape": [1, 2, 5]},
 {"name": "state.h", "shape": [1, 2, 5]}, {"name": "state.2", "shape": [1, 2, 5]}, {"name": "forcing.f", "shape": []},
 {"name": "noise.n", "shape": [2, 1]}, {"name": "static.g", "shape": [5]}],
"nodes": [
 {"op": "mul", "name": "a", "in": ["state"], "attributes": {"other": 0.5}},
 {"op": "mul", "name": "b", "in": ["state.1"], "attributes": {"other": 0.25}},
 {"op": "sub", "name": "c", "in": ["a", "b"]},
 {"op": "add", "name": "d", "in": ["c", "forcing.f"]},
 {"op": "add", "name": "e", "in": ["state.h", "static.g"]},
 {"op": "mul", "name": "m", "in": ["noise.n"], "attributes": {"other": 2}},
 {"op": "mul", "name": "k", "in": ["e", "m"]},
 {"op": "add", "name": "x", "in": ["d", "k"]},
 {"op": "add", "name": "h", "in": ["state.2", "state.h"]}],
"outputs": ["x", "h"]}`

const recurrenceSteps, recurrenceM = 9, 2

// recurrenceCase writes a case of it and returns what its states must be, computed without a graph.
func recurrenceCase(t *testing.T, dir string) (want, hidden []float64) {
	t.Helper()
	for name, text := range map[string]string{"step.json": recurrence, "case.json": `{"step": "step.json", ` +
		`"rollout": {"num_timesteps": 10, "num_realizations": 2}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	n := 0.0
	some := func(count int) []float64 {
		x := make([]float64, count)
		for i := range x {
			n++
			x[i] = fp16.Float32.Round(float64(int(n*7919)%1009)/1009 - .5)
		}
		return x
	}
	write := func(name string, of map[string][]float64, shapes map[string][]int) {
		var all []*safetensors.Tensor
		for k, x := range of {
			s, err := safetensors.OfFloat64s(k, safetensors.F32, shapes[k], x)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if err := safetensors.WriteFile(filepath.Join(dir, name), all, nil); err != nil {
			t.Fatal(err)
		}
	}
	f, noise, g := some(recurrenceSteps), some(2*recurrenceSteps*recurrenceM), some(5)
	write("inputs.safetensors", map[string][]float64{"forcing.f": f, "noise.n": noise, "static.g": g},
		map[string][]int{"forcing.f": {recurrenceSteps}, "noise.n": {recurrenceM, recurrenceSteps, 2, 1}, "static.g": {5}})
	x0, x1, x2, h0 := some(20), some(20), some(10), some(10)
	write("trajectory.safetensors", map[string][]float64{
		"initial_condition": x0, "initial_condition.1": x1, "initial_condition.2": x2, "initial_condition.h": h0,
	}, map[string][]int{"initial_condition": {2, 1, 2, 5}, "initial_condition.1": {2, 1, 2, 5},
		"initial_condition.2": {1, 2, 5}, "initial_condition.h": {1, 2, 5}})
	for m := range recurrenceM {
		x, before, older, h := x0[10*m:10*m+10], x1[10*m:10*m+10], x2, h0
		want, hidden = append(want, x...), append(hidden, h...)
		for s := range recurrenceSteps {
			next, memory := make([]float64, 10), make([]float64, 10)
			for i := range next {
				r := fp16.Float32.Round
				d := r(r(r(.5*x[i])-r(.25*before[i])) + f[s])
				next[i] = r(d + r(r(h[i]+g[i%5])*r(2*noise[(m*recurrenceSteps+s)*2+i/5])))
				memory[i] = r(older[i] + h[i])
			}
			x, before, older, h = next, x, before, memory
			want, hidden = append(want, x...), append(hidden, h...)
		}
	}
	return want, hidden
}

// recurrenceJob is a run of the case into a file.
func recurrenceJob(t *testing.T, dir, path string, resume bool) *Job {
	t.Helper()
	c, err := OpenCase(dir)
	if err != nil {
		t.Fatal(err)
	}
	mode := graph.Mode{Precision: fp16.Float32}
	e := &Engine{Stepper: Stepper{Config: c.Rollout, Mode: mode},
		Graph: &GraphRun{StepGraph: c.Step, Case: c, Mode: mode}, Shape: Shape{1, 1, 10}}
	return &Job{Engine: e, Path: path, Store: fp16.Float32, Resume: resume, Identity: [][2]string{{"step", "recurrence"}}}
}

// TestStepGraphRun: a rollout of a step graph, with all its states in the file, is what its arithmetic makes of the
// states before, the forcing and the draws of each step and the hidden state; also where it is interrupted at any step
// and resumed.
func TestStepGraphRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want, hidden := recurrenceCase(t, dir)
	digest := NewDigest(fp16.Float32, recurrenceM, recurrenceSteps+1, 20)
	for i := 0; i < len(want); i += 10 {
		digest.Add(i/10/(recurrenceSteps+1), slices.Concat(want[i:i+10], hidden[i:i+10]))
	}
	for _, ext := range []string{".npy", ".npz", ".h5"} {
		_, err := recurrenceJob(t, dir, filepath.Join(t.TempDir(), "x"+ext), false).Run(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), "want .safetensors for 2 named states") {
			t.Errorf("%s: %v: want a kind of file that holds two states", ext, err)
		}
	}
	interrupted(t, dir, ".safetensors", digest.Hex())
	whole := filepath.Join(t.TempDir(), "whole.safetensors")
	if _, err := recurrenceJob(t, dir, whole, false).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"trajectory": want, "trajectory.h": hidden} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := x.Float64s(); err != nil || !slices.Equal(is, want) || !slices.Equal(x.Shape, []int{2, 10, 1, 2, 5}) {
			t.Errorf("%s: %v %v: want what its arithmetic gives, [2 10 1 2 5]", name, x.Shape, err)
		}
	}
}

// TestStepGraphFiles: a rollout of a step graph of one state goes into each kind of file, whole and interrupted.
func TestStepGraphFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recurrenceCase(t, dir)
	text := strings.Replace(strings.Replace(recurrence, `["x", "h"]`, `["x"]`, 1), `state.h`, `static.h`, -1)
	if err := os.WriteFile(filepath.Join(dir, "step.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	inputs, start := filepath.Join(dir, "inputs.safetensors"), filepath.Join(dir, "trajectory.safetensors")
	var all []*safetensors.Tensor
	for _, path := range []string{inputs, start} {
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			if name == "initial_condition.h" {
				x, _ = safetensors.New("static.h", safetensors.F32, x.Shape, x.Bytes())
			}
			all = append(all, x)
		}
	}
	if err := safetensors.WriteFile(inputs, all, nil); err != nil {
		t.Fatal(err)
	}
	r, err := recurrenceJob(t, dir, "", false).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".safetensors", ".npy", ".npz", ".h5"} {
		interrupted(t, dir, ext, r.Digest)
	}
}

// interrupted runs the case whole and stopped at some steps, into files of a kind that must have the same bytes.
func interrupted(t *testing.T, dir, ext, digest string) {
	t.Helper()
	whole := filepath.Join(t.TempDir(), "whole"+ext)
	r, err := recurrenceJob(t, dir, whole, false).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Digest != digest {
		t.Errorf("%s: digest %s: want %s", ext, r.Digest, digest)
	}
	bytes, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for stop := 1; stop < recurrenceM*recurrenceSteps; stop += 5 {
		path := filepath.Join(t.TempDir(), "x"+ext)
		ctx, cancel := context.WithCancel(t.Context())
		j := recurrenceJob(t, dir, path, false)
		j.Progress = func(done, _ int) {
			if done == stop {
				cancel()
			}
		}
		if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: stopped at %d: %v", ext, stop, err)
		}
		r, err := recurrenceJob(t, dir, path, true).Run(t.Context())
		if err != nil || !r.Resumed || r.Digest != digest {
			t.Fatalf("%s: resumed at %d: %+v, %v", ext, stop, r, err)
		}
		again, err := os.ReadFile(path)
		if err != nil || !slices.Equal(again, bytes) {
			t.Errorf("%s: resumed at %d: other bytes, %v", ext, stop, err)
		}
		if _, err := Verify(path); err != nil {
			t.Errorf("%s: verified: %v", ext, err)
		}
		if r, err := recurrenceJob(t, dir, path, true).Run(t.Context()); err != nil || !r.Complete {
			t.Errorf("%s: complete: %+v, %v", ext, r, err)
		}
	}
}

// TestStepGraphNonfinite: a NaN ends a rollout of a step graph with the step and the operation that made it.
func TestStepGraphNonfinite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recurrenceCase(t, dir)
	text := strings.Replace(recurrence, `{"op": "add", "name": "h", "in": ["state.2", "state.h"]}`,
		`{"op": "log", "name": "h", "in": ["state.2"]}`, 1)
	if err := os.WriteFile(filepath.Join(dir, "step.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := recurrenceJob(t, dir, "", false).Run(t.Context())
	if err == nil || err.Error() != "step 1, realization 0: NaN or infinite, first in h" {
		t.Errorf("%v: want step, realization and operation", err)
	}
}

// TestStepGraphStates: what an input stands for is said by its name alone.
func TestStepGraphStates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recurrenceCase(t, dir)
	c, err := OpenCase(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Step.States; len(s) != 2 || s[0].In() != "state" || s[0].Past != 2 || s[1].In() != "state.h" ||
		s[1].Past != 0 {
		t.Errorf("states %+v: want state with two before it, and state.h", c.Step.States)
	}
	if _, err := c.NewOperator(); err == nil || !strings.Contains(err.Error(),
		"case.json: step: a graph in place of an operator: want run, check or compare, which take it") {
		t.Errorf("an operator of it: %v", err)
	}
}
