package rollout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/safetensors"
)

// job returns a small rollout, three engine batches of two, two and one
// realizations, whose output goes to path.
func job(t testing.TB, path string, edit func(c *Case)) *Job {
	t.Helper()
	c, err := ParseCase("op.json", []byte(`{"operator":{"num_layers":1,"base_channels":3,"input_channels":2,
	"output_channels":2,
		"grid_size":6,"noise_type":"laplace","noise_scale":0.1},
		"rollout":{"num_timesteps":7,"num_realizations":5,"engine_batch":2,"base_seed":3,"normalization":"zscore"},
		"weights_seed":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(c)
	}
	return jobOf(t, c, Shape{2, 6, 6}, path)
}

// jobOf returns a float32 rollout of a case from white noise.
func jobOf(t testing.TB, c *Case, shape Shape, path string) *Job {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.OpenStream("", op, graph.Mode{Precision: fp16.Float32})
	if err != nil {
		t.Fatal(err)
	}
	x0 := make([]float64, shape.Len())
	if err := White(5, shape, x0); err != nil {
		t.Fatal(err)
	}
	j := &Job{
		Engine: &Engine{Stepper: Stepper{Operator: op, Config: c.Rollout, Mode: graph.Mode{Precision: fp16.Float32}},
			Stream: stream, Shape: shape, Start: func(int) []float64 { return x0 }},
		Path: path, Store: fp16.Float32, Identity: [][2]string{{"case", "a"}, {"base_seed", "3"}},
	}
	if filepath.Ext(path) == ".hdf5" {
		j.Gzip = Huffman
	}
	return j
}

// recordingJob is a job that writes its draws to path.tape.
func recordingJob(t *testing.T, path string) *Job {
	j := job(t, path, nil)
	j.Record = path + ".tape"
	return j
}

// outputs are the extensions that resume is tested with; a job of .hdf5 packs by [Huffman].
var outputs = []string{".safetensors", ".npy", ".npz", ".h5", ".hdf5"}

// TestResume stops a job after every number of steps, in two ways, and
// continues it to the bytes of the uninterrupted one.
func TestResume(t *testing.T) {
	for _, ext := range outputs {
		whole := filepath.Join(t.TempDir(), "whole"+ext)
		want, err := recordingJob(t, whole).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		tape, err := os.ReadFile(whole + ".tape")
		if err != nil {
			t.Fatal(err)
		}
		// Stops 0 to 34 die without a word at that state; the others are told
		// to stop after that many steps.
		for stop := range 35 + 18 {
			if ext != outputs[0] && stop%5 != 0 {
				continue // they share their file's layout
			}
			path := filepath.Join(t.TempDir(), "out"+ext)
			j := recordingJob(t, path)
			if stop%3 != 0 {
				j.Every = time.Hour // no checkpoint but at the end
			}
			ctx, cancel := context.WithCancel(context.Background())
			states := 0
			j.Sinks = []Sink{sinkFunc(func(int, int) error {
				if states++; states > stop && stop < 35 {
					return errors.New("killed")
				}
				return nil
			})}
			j.Progress = func(done, _ int) {
				if done == stop-34 {
					cancel()
				}
			}
			_, err := j.Run(ctx)
			cancel()
			if err == nil {
				t.Fatalf("%s: stop %d did not happen", ext, stop)
			}
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("%s: an unfinished run left its file", ext)
			}
			if _, err := recordingJob(t, path).Run(context.Background()); err == nil ||
				!strings.Contains(err.Error(), "--resume") {
				t.Fatalf("%s: starting over an unfinished run: %v", ext, err)
			}
			j = recordingJob(t, path)
			j.Resume = true
			got, err := j.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want.Digest {
				t.Fatalf("%s: resumed digest %.12s, want %.12s", ext, got.Digest, want.Digest)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != string(bytes) {
				t.Fatalf("%s: the resumed file differs (%v)", ext, err)
			}
			if v, err := Verify(path); err != nil || !v.OK || ext != ".npy" && ext != ".npz" &&
				(got.Seal == "" || got.Seal != v.Seal) {
				t.Fatalf("%s: stop %d: seal %.12s, read again: %+v, %v", ext, stop, got.Seal, v, err)
			}
			if b, err := os.ReadFile(path + ".tape"); err != nil || string(b) != string(tape) {
				t.Fatalf("%s: the resumed tape differs (%v)", ext, err)
			}
			left, _ := filepath.Glob(path + "*")
			if files := map[bool]int{true: 3, false: 2}[ext == ".npy"]; len(left) != files {
				t.Fatalf("%s: left behind: %q", ext, left)
			}
			j = recordingJob(t, path)
			j.Resume = true
			if r, err := j.Run(context.Background()); err != nil || !r.Complete {
				t.Fatalf("%s: resuming a complete run: %+v, %v", ext, r, err)
			}
		}
	}
}

// TestResumeHalf: the states of an autoregressive half rollout are half numbers, after
// a checkpoint too, and an operator may add its input to another half number.
func TestResumeHalf(t *testing.T) {
	half := func(path string) *Job {
		j := job(t, path, func(c *Case) {
			c.Operator = operator.Config{InputChannels: 2, OutputChannels: 2, Nodes: []operator.NodeConfig{
				{Op: "conv", Name: "a", OutChannels: 2, KernelSize: 3},
				{Op: "add", Name: "b", In: []string{"a", "input"}},
				{Op: "act", Name: "g", Activation: "gelu"},
				{Op: "conv", Name: "c", OutChannels: 2, KernelSize: 3}}}
			c.Rollout.Policy, c.Rollout.Normalization = Autoregressive, ""
		})
		j.Mode = graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CUDA2}
		return j
	}
	want, err := half("").Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.safetensors")
	j := half(path)
	ctx, cancel := context.WithCancel(context.Background())
	j.Progress = func(done, _ int) {
		if done == 3 {
			cancel()
		}
	}
	if _, err := j.Run(ctx); err == nil {
		t.Fatal("the run was not stopped")
	}
	j = half(path)
	j.Resume = true
	if got, err := j.Run(context.Background()); err != nil || got.Digest != want.Digest {
		t.Errorf("resumed: %+v, %v: want digest %.12s", got, err, want.Digest)
	}
}

// TestResumeStale removes the partial file of an interrupted run, whose
// checkpoint then speaks of nothing: the next run starts over, dies before its
// own first checkpoint, and must not be continued from the old one.
func TestResumeStale(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.safetensors")
	want, err := job(t, whole, nil).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.safetensors")
	die := func(resume bool, after int, every time.Duration) {
		j := job(t, path, nil)
		j.Resume, j.Every = resume, every
		states := 0
		j.Sinks = []Sink{sinkFunc(func(int, int) error {
			if states++; states > after {
				return errors.New("killed")
			}
			return nil
		})}
		if _, err := j.Run(context.Background()); err == nil {
			t.Fatal("the run did not die")
		}
	}
	die(false, 20, 0)
	if err := os.Remove(partial(path)); err != nil {
		t.Fatal(err)
	}
	die(true, 3, time.Hour)
	j := job(t, path, nil)
	j.Resume = true
	got, err := j.Run(context.Background())
	if err != nil || got.Digest != want.Digest {
		t.Fatalf("digest %v, want %v (%v)", got, want, err)
	}
	a, _ := os.ReadFile(whole)
	if b, err := os.ReadFile(path); err != nil || string(a) != string(b) {
		t.Errorf("the file differs from the uninterrupted run's (%v)", err)
	}
}

type sinkFunc func(t, m int) error

func (f sinkFunc) State(t, m int, _, _ []float64) error { return f(t, m) }

func TestResumeRefuses(t *testing.T) {
	for _, c := range []struct {
		what, want string
		spoil      func(t *testing.T, j *Job)
	}{
		{"another seed", `base_seed: the unfinished run had "3", this one has "4"`,
			func(t *testing.T, j *Job) { j.Identity[1][1] = "4" }},
		{"another field", `clamp_range: the unfinished run had none`,
			func(t *testing.T, j *Job) { j.Identity = append(j.Identity, [2]string{"clamp_range", "x"}) }},
		{"a missing field", `base_seed: the unfinished run had "3", this one has none`,
			func(t *testing.T, j *Job) { j.Identity = j.Identity[:1] }},
		{"another shape", `want [2 2 5 6]`, func(t *testing.T, j *Job) { j.Shape = Shape{2, 5, 6} }},
		{"not a checkpoint", `not those that its hash is of`, func(t *testing.T, j *Job) {
			if err := safetensors.WriteFile(j.Path+".resume", nil, map[string]string{"refrun": "{}"}); err != nil {
				t.Fatal(err)
			}
		}},
		{"a broken checkpoint", `.resume: `, func(t *testing.T, j *Job) {
			if err := os.WriteFile(j.Path+".resume", []byte("abc"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"a cut file", `out.safetensors.partial: 5000 bytes: want `, func(t *testing.T, j *Job) {
			if err := os.Truncate(partial(j.Path), 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"a folder that is not there", `no such file`,
			func(t *testing.T, j *Job) { j.Path = filepath.Join(filepath.Dir(j.Path), "no", "out.safetensors") }},
		{"an unknown format", `".txt": want`, func(t *testing.T, j *Job) { j.Path += ".txt" }},
	} {
		path := filepath.Join(t.TempDir(), "out.safetensors")
		j := job(t, path, nil)
		ctx, cancel := context.WithCancel(context.Background())
		j.Progress = func(done, _ int) {
			if done == 8 {
				cancel()
			}
		}
		if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		j = job(t, path, nil)
		j.Resume = true
		c.spoil(t, j)
		if _, err := j.Run(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.what, err, c.want)
		}
	}
}

// TestNonfinite finds the first NaN of a run: which step, which realization,
// which layer.
func TestNonfinite(t *testing.T) {
	blowUp := func(c *Case) {
		c.Operator.Normalization, c.Rollout.Normalization = "none", ""
		c.Operator.NoiseType = "gaussian"
		c.Operator.NoiseScale = 3e38
		c.Rollout.Policy = Residual
		c.Rollout.Dt = 1e38
	}
	_, err := job(t, "", blowUp).Run(context.Background())
	var bad *NonfiniteError
	if !errors.As(err, &bad) || bad.Step < 1 || bad.Layer == "" {
		t.Fatalf("error %v, want a NonfiniteError", err)
	}
	j := job(t, "", blowUp)
	j.AllowNonfinite = true
	if _, err := j.Run(context.Background()); err != nil {
		t.Errorf("with AllowNonfinite: %v", err)
	}
	j = job(t, "", nil)
	j.Start = func(m int) []float64 {
		x := make([]float64, j.Shape.Len())
		if m == 3 {
			x[5] = fp16.NaN
		}
		return x
	}
	if _, err := j.Run(context.Background()); !errors.As(err, &bad) || bad.Realization < 2 || bad.Layer != "start" {
		t.Errorf("NaN in an initial condition: %v", err)
	}
}

// TestEngineFollowsRecording runs every float32 case freely from its start and
// compares with the recorded path, where that is not chaos but arithmetic: a
// residual or an autoregressive contraction stays close to the end.
func TestEngineFollowsRecording(t *testing.T) {
	for _, name := range []string{"residual_k5_group_silu", "autoregressive_batch_relu", "minmax_residual"} {
		c, err := OpenCase(filepath.Join("../testdata/rollouts", name))
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.OpenStream("torch-cpu", op, graph.Mode{Precision: fp16.Float32})
		if err != nil {
			t.Fatal(err)
		}
		traj, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		x0, _, err := c.ReadStart()
		if err != nil {
			t.Fatal(err)
		}
		worst, seen := 0.0, 0
		e := &Engine{Stepper: Stepper{Operator: op, Config: c.Rollout, Mode: graph.Mode{Precision: fp16.Float32}},
			Stream: stream, Shape: Shape{traj.C, traj.H, traj.W}, Start: func(int) []float64 { return x0 },
			Sinks: []Sink{stateFunc(func(t, m int, x []float64) {
				for i, w := range traj.At(m, t) {
					worst = max(worst, max(x[i]-w, w-x[i]))
				}
				seen++
			})}}
		if err := e.Run(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if seen != traj.M*traj.T || !(worst <= 1e-5) {
			t.Errorf("%s: %d states, largest difference %.3g: want %d and 1e-5 at most", name, seen, worst, traj.M*traj.T)
		}
		t.Logf("%s: largest difference to the end %.2e", name, worst)
	}
}

type stateFunc func(t, m int, x []float64)

func (f stateFunc) State(t, m int, x, _ []float64) error { f(t, m, x); return nil }

// TestReplay rolls out once more from the recorded tape and finds the digest of
// the run that recorded it, for every kind of noise.
func TestReplay(t *testing.T) {
	for _, kind := range []string{"gaussian", "multiplicative", "laplace", "dropout"} {
		path := filepath.Join(t.TempDir(), "out.safetensors")
		edit := func(c *Case) { c.Operator.NoiseType = kind }
		j := job(t, path, edit)
		j.Record = filepath.Join(filepath.Dir(path), "noise.safetensors")
		want, err := j.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(j.Record)
		if err != nil {
			t.Fatal(err)
		}
		replay := job(t, "", edit)
		c := &Case{Operator: j.Operator.Config, Rollout: j.Config, Noise: f}
		if replay.Stream, err = c.OpenStream("tape", j.Operator, j.Mode); err != nil {
			t.Fatal(err)
		}
		got, err := replay.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest != want.Digest {
			t.Errorf("%s: replayed digest %.12s, want %.12s", kind, got.Digest, want.Digest)
		}
		// A longer run than the tape is an error, not silence.
		replay.Config.Timesteps++
		if _, err := replay.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "step 7") {
			t.Errorf("%s: a step beyond the tape: %v", kind, err)
		}
	}
}
