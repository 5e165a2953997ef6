package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/internal/format/npy"
)

// inOneLine checks the form of an error about a file.
func inOneLine(t *testing.T, file string, err error) {
	t.Helper()
	if line := err.Error(); !strings.HasPrefix(line, file) || strings.ContainsAny(line, "\n\r") || len(line) > 1000 {
		t.Errorf("not one line about %s: %q", file, line)
	}
}

// FuzzParseCase: a case.json is refused in one line, or says what can be stepped.
func FuzzParseCase(f *testing.F) {
	for _, name := range []string{"autoregressive_batch_relu", "convex_layer_tanh_mult"} {
		data, err := os.ReadFile(filepath.Join("../testdata/rollouts", name, "case.json"))
		if err == nil {
			f.Add(data)
		}
	}
	for _, s := range []string{
		`{"operator": {"num_layers": 1, "base_channels": 2}, "rollout": {"num_timesteps": 3, "num_realizations": ` +
			`2}, "weights_seed": -1, "torch": {"version": "2.9.1", "mkl": true, "sm_count": 132}}`,
		`{"operator": {"nodes": [{"op": "conv", "name": "a", "inputs": ["x"], "out_channels": 3}], "output": "a"}, ` +
			`"rollout": {"num_timesteps": 1, "num_realizations": 1}, "noise": "unknown", "incomplete": "\u001b[2J"}`,
		`{"operator": {"num_layers": 1, "base_channels": 2}, "rollout": {"num_timesteps": 3, "num_realizations": ` +
			`2}, "noise": "` + strings.Repeat("8", 2000) + `"}`,
		`{"operator": null, "rollout": []}`, `{"version": 2}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCase("f.json", data)
		if err != nil {
			inOneLine(t, "f.json: ", err)
			return
		}
		if r := c.Rollout; r.Timesteps < 1 || r.Timesteps > MostTimesteps || r.Realizations < 1 ||
			c.Operator.InputChannels != c.Operator.OutputChannels {
			t.Errorf("%+v", r)
		}
	})
}

// small makes a job of two realizations, three states and six numbers.
func small(t testing.TB, path string) *Job {
	j := job(t, path, nil)
	j.Config.Realizations, j.Config.Timesteps, j.Config.EngineBatch = 2, 3, 0
	j.Shape.H, j.Shape.W = 1, 3
	x0 := make([]float64, j.Shape.Len())
	for i := range x0 {
		x0[i] = float64(i)
	}
	j.Start = func(int) []float64 { return x0 }
	return j
}

// FuzzSealed: a finished file of any format that speaks of its own bytes is refused in
// one line, or it is read through.
func FuzzSealed(f *testing.F) {
	kinds := []string{".safetensors", ".npz", ".h5"}
	for i, ext := range kinds {
		path := filepath.Join(f.TempDir(), "out"+ext)
		finished(f, small(f, path))
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), data)
		f.Add(byte(i), data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		var s *sealed
		var err error
		r, n := bytes.NewReader(data), int64(len(data))
		switch kinds[int(kind)%len(kinds)] {
		case ".safetensors":
			s, err = parseSafetensors("f", r, n)
		case ".npz":
			s, err = parseNpz("f", r, n)
		case ".h5":
			s, err = parseHDF5("f", r, n)
		}
		if err == nil {
			_, err = s.check(s.newDigest())
		}
		if err != nil {
			inOneLine(t, "f: ", err)
		}
	})
}

// FuzzSums: the same of the hashes beside a .npy file.
func FuzzSums(f *testing.F) {
	path := filepath.Join(f.TempDir(), "out.npy")
	finished(f, small(f, path))
	array, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	sums, err := os.ReadFile(sumsPath(path))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sums)
	f.Add(bytes.ReplaceAll(sums, []byte("0"), []byte("g")))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := bytes.NewReader(array)
		a, err := npy.Parse("f", file, file.Size())
		if err != nil {
			t.Fatal(err)
		}
		s := newSealed("f", file, file.Size())
		if err = s.readSums(a, bytes.NewReader(data), int64(len(data))); err == nil {
			_, err = s.check(s.newDigest())
		}
		if err != nil {
			inOneLine(t, "f", err)
		}
	})
}

// FuzzCheckpoint: a checkpoint with the right hash, whatever it says, is refused in one
// line or is one of the run.
func FuzzCheckpoint(f *testing.F) {
	path := filepath.Join(f.TempDir(), "out.safetensors")
	j := small(f, path)
	ctx, cancel := context.WithCancel(context.Background())
	j.Every, j.Engine.Progress = time.Nanosecond, func(done, _ int) {
		if done > 1 {
			cancel()
		}
	}
	if _, err := j.Run(ctx); err == nil {
		f.Fatal("the run was not interrupted")
	}
	data, err := os.ReadFile(path + ".resume")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:len(data)-sha256.Size])
	ck := filepath.Join(f.TempDir(), "f.resume")
	f.Fuzz(func(t *testing.T, data []byte) {
		own := sha256.Sum256(data)
		if err := os.WriteFile(ck, append(bytes.Clone(data), own[:]...), 0o666); err != nil {
			t.Fatal(err)
		}
		from, s, err := j.readCheckpoint(ck)
		if err != nil {
			inOneLine(t, ck, err)
			return
		}
		if b := j.Config.EngineBatches(); from.Batch >= len(b) || from.Step >= j.Config.Timesteps ||
			len(from.State.Data) != b[from.Batch][1]*j.Shape.Len() {
			t.Errorf("%+v", from)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}
