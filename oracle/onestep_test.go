package oracle

import (
	"encoding/json"
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

var update = flag.Bool("update", false, "record the digests of this build in testdata/digests.json")

var digestFile = rig.Testdata("digests.json")

// TestRecordedCases steps every recorded state of every float32 case, with the
// tape where there is one and with the framework's stream always.
//
// The limits: PyTorch's float32 lies up to 5e-6 (largest) and 4e-7 (RMS) of a
// trajectory's standard deviation from float64 truth, and up to 9e-6 of a
// layer's, which gives the first limits a factor of two. refrun, which rounds
// each operation once, must be as close to truth as the recording, up to the
// luck of common roundings.
func TestRecordedCases(t *testing.T) {
	dirs, err := filepath.Glob(rig.Testdata("rollouts", "*"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	cases := 0
	for _, dir := range dirs {
		name := filepath.Base(dir)
		c := rig.OpenCase(t, name)
		if c.Rollout.Precision != "float32" {
			continue
		}
		cases++
		streams := []string{"torch-cpu"}
		if c.Noise != nil {
			streams = append(streams, "tape")
		}
		for _, stream := range streams {
			r, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: fp16.Float32}, Noise: stream})
			if err != nil {
				t.Fatal(err)
			}
			a := r.All
			t.Logf("%s, %s: largest %.2e, RMS %.2e of the std; distance to truth %.3f of PyTorch's", name, r.Noise,
				a.MaxOverStd, a.RMSOverStd, r.Truth.Ratio)
			if !(a.MaxOverStd <= 1e-5) || !(a.RMSOverStd <= 1e-6) || a.Count == 0 {
				t.Errorf("%s, %s: one-step differences %.3g (largest) and %.3g (RMS) of the std: "+
					"want 1e-5 and 1e-6 at most", name, r.Noise, a.MaxOverStd, a.RMSOverStd)
			}
			if !(r.Truth.Ratio <= 1.02) {
				t.Errorf("%s, %s: %.4f of PyTorch's distance to truth: want 1.02 at most", name, r.Noise, r.Truth.Ratio)
			}
			if c.Layers != nil && len(r.Layers) < 10 {
				t.Errorf("%s: only %d layers compared", name, len(r.Layers))
			}
			for _, l := range r.Layers {
				if !(l.MaxOverStd <= 2e-5) {
					t.Errorf("%s: layer %s: largest difference %.3g of its std: want 2e-5 at most", name, l.Name, l.MaxOverStd)
				}
			}
			if before, ok := got[name]; ok && before != r.Digest {
				t.Errorf("%s: digest depends on where the same noise comes from", name)
			}
			got[name] = r.Digest
		}
		// Truth itself, from float32 states and noise: float64 arithmetic of
		// two orders of summation, so agreement to many digits.
		r, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: fp16.Float64}})
		if err != nil {
			t.Fatal(err)
		}
		if !(r.Truth.Ours <= 1e-13) {
			t.Errorf("%s: float64 steps lie %.3g of the std from PyTorch's", name, r.Truth.Ours)
		}
		got[name+"/float64"] = r.Digest
	}
	if cases < 6 {
		t.Fatalf("only %d float32 cases", cases)
	}
	compareDigests(t, got)
}

// compareDigests holds digests against the recorded ones, which every
// machine, build and number of threads must reproduce.
func compareDigests(t *testing.T, got map[string]string) {
	if *update {
		b, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(digestFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(digestFile)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if got[k] != want[k] {
				t.Errorf("%s: digest %.16s, recorded %.16s", k, got[k], want[k])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d digests, %d recorded", len(got), len(want))
		}
	}
}

// TestDigestStable repeats a case with other numbers of threads and groupings.
func TestDigestStable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	c := rig.OpenCase(t, "autoregressive_batch_relu")
	for _, p := range []fp16.Format{fp16.Float32, fp16.Float64} {
		want := ""
		for _, threads := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(threads)
			for _, batch := range []int{0, 1, 2} {
				r, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: p}, Batch: batch})
				if err != nil {
					t.Fatal(err)
				}
				if want == "" {
					want = r.Digest
				}
				if r.Digest != want {
					t.Errorf("%v, %d threads, batch %d: digest %.12s, want %.12s", p, threads, batch, r.Digest, want)
				}
			}
		}
	}
}

// TestOneStepSees injects faults into a recording and finds each where it is.
func TestOneStepSees(t *testing.T) {
	c := rig.OpenCase(t, "autoregressive_batch_relu")
	var err error
	if c.Trajectory, err = safetensors.Open(c.Trajectory.Path); err != nil { // into memory
		t.Fatal(err)
	}
	tensor, err := c.Trajectory.Tensor("trajectory")
	if err != nil {
		t.Fatal(err)
	}
	raw := tensor.Bytes()
	clean := slices.Clone(raw)
	check := func() *OneStep {
		r, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: fp16.Float32}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := check()
	if before.All.MaxOverStd > 1e-5 {
		t.Fatalf("the clean case differs by %v", before.All.MaxOverStd)
	}
	// The last state of realization 1 enters no further step: one element
	// wrong there shows as that element and nothing else.
	at := (1*10+9)*1200 + 777
	raw[4*at+3] ^= 0x80 // the sign
	r := check()
	if r.All.At != at || !(r.PerStep[8].MaxOverStd > 1e-3) || r.PerStep[7].MaxAbs != before.PerStep[7].MaxAbs {
		t.Errorf("a changed element at %d: found at %d, per step %v and %v",
			at, r.All.At, r.PerStep[7].MaxOverStd, r.PerStep[8].MaxOverStd)
	}
	copy(raw, clean)
	// NaN in a recorded state: counted, not averaged away.
	copy(raw[4*at:], []byte{0, 0, 0xc0, 0x7f})
	if r := check(); r.All.NonFiniteDiffer != 1 || !math.IsInf(float64(r.All.MaxAbs), 1) {
		t.Errorf("a NaN in the recording: %d elements, largest difference %v", r.All.NonFiniteDiffer, r.All.MaxAbs)
	}
	copy(raw, clean)
	// The other framework version's stream draws the same normals; another
	// seed does not.
	c.Rollout.BaseSeed++
	if r, err := CheckOneStep(c, OneStepOptions{
		Mode: graph.Mode{Precision: fp16.Float32}, Noise: "torch-cpu",
	}); err != nil || r.All.RMSOverStd < 1e-3 {
		t.Errorf("another seed goes unnoticed: %v, %v", r.All.RMSOverStd, err)
	}
}

func TestOneStepRefuses(t *testing.T) {
	float32Mode := graph.Mode{Precision: fp16.Float32}
	for _, k := range []struct {
		what, want string
		edit       func(c *rollout.Case)
		noise      string
	}{
		{"no trajectory", "trajectory.safetensors: missing", func(c *rollout.Case) { c.Trajectory = nil }, ""},
		{"other M", "shape [2 10 3 20 20]: want [3,10,3,H,W]", func(c *rollout.Case) { c.Rollout.Realizations = 3 }, ""},
		{"other T", "want [2,11,3,H,W]", func(c *rollout.Case) { c.Rollout.Timesteps = 11 }, ""},
		{"no tape", "noise.safetensors: missing", func(c *rollout.Case) { c.Noise = nil }, "tape"},
		{"unknown stream", `"pink": want counter`, func(*rollout.Case) {}, "pink"},
		{"a CUDA stream without its device", `torch-cuda`, func(*rollout.Case) {}, "torch-cuda"},
		{"unknown version", `torch-cpu:0.4`, func(*rollout.Case) {}, "torch-cpu:0.4"},
		{"no version", `torch.version`, func(c *rollout.Case) { c.Torch.Version = "" }, "torch-cpu"},
	} {
		c := rig.OpenCase(t, "autoregressive_batch_relu")
		k.edit(c)
		_, err := CheckOneStep(c, OneStepOptions{Mode: float32Mode, Noise: k.noise})
		if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", k.what, err, k.want)
		}
	}
}
