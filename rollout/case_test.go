package rollout

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

const caseDir = "../testdata/rollouts/autoregressive_batch_relu"

// inMemory returns a recorded case as a file system that a test may change.
func inMemory(t *testing.T) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	entries, err := os.ReadDir(caseDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(caseDir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = &fstest.MapFile{Data: data}
	}
	return m
}

// edit replaces text in case.json, which must be there.
func edit(t *testing.T, m fstest.MapFS, old, new string) {
	t.Helper()
	data := string(m["case.json"].Data)
	if !strings.Contains(data, old) {
		t.Fatalf("case.json has no %s", old)
	}
	m["case.json"] = &fstest.MapFile{Data: []byte(strings.Replace(data, old, new, 1))}
}

func TestOpenCase(t *testing.T) {
	c, err := OpenCase(caseDir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Dir != caseDir || c.File != caseDir+"/case.json" || *c.WeightsSeed != 2 ||
		c.Torch != (Torch{Version: "1.13.1", ThreadsPerSM: 2048}) ||
		!strings.HasPrefix(c.ProducedBy, "Spinlock rollout engine") || !strings.HasPrefix(c.Note, "engine runs") {
		t.Errorf("read as %+v", c)
	}
	traj, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	truth, err := c.ReadTruth()
	if err != nil {
		t.Fatal(err)
	}
	if traj.M != 2 || traj.T != 10 || traj.C != 3 || traj.H != 20 || traj.W != 20 || traj.Format != fp16.Float32 ||
		traj.CHW() != 1200 {
		t.Errorf("trajectory %d %d %d %d %d %v", traj.M, traj.T, traj.C, traj.H, traj.W, traj.Format)
	}
	if truth.T != 9 || truth.Format != fp16.Float64 {
		t.Errorf("truth of %d steps in %v", truth.T, truth.Format)
	}
	// At is a window on the data, of one state and no more.
	x := traj.At(1, 3)
	if &x[0] != &traj.Data[(1*10+3)*1200] || len(x) != 1200 || cap(x) != 1200 {
		t.Errorf("state of %d, capacity %d", len(x), cap(x))
	}
}

// TestFilesLeftOut: only case.json and either weights or their seed are needed.
func TestFilesLeftOut(t *testing.T) {
	m := inMemory(t)
	for _, name := range []string{"weights", "trajectory", "noise", "layers", "one_step_f64"} {
		delete(m, name+".safetensors")
		c, err := OpenCaseFS(m, "d")
		if err != nil {
			t.Fatalf("without %s: %v", name, err)
		}
		if _, err := c.NewOperator(); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
		if s, err := c.ReadTruth(); name == "one_step_f64" && (s != nil || err != nil) {
			t.Errorf("no truth is read as %v, %v", s, err)
		}
		if _, err := c.ReadTrajectory(); name == "trajectory" &&
			(err == nil || err.Error() != "d/trajectory.safetensors: missing: want the recorded trajectory") {
			t.Errorf("no trajectory: %v", err)
		}
	}
	edit(t, m, `"weights_seed": 2`, `"weights_seed": null`)
	if _, err := OpenCaseFS(m, "d"); err == nil ||
		err.Error() != "d/weights.safetensors: missing: want this file, or weights_seed in case.json" {
		t.Errorf("no weights and no seed: %v", err)
	}
	delete(m, "case.json")
	if _, err := OpenCaseFS(m, "d"); err == nil ||
		err.Error() != "d/case.json: file does not exist: want a case folder with a case.json" {
		t.Errorf("no case.json: %v", err)
	}
	if _, err := OpenCaseFS(fstest.MapFS{"case.json": {Mode: fs.ModeNamedPipe}}, "d"); err == nil ||
		err.Error() != "d/case.json: is a pipe: want a case folder with a case.json" {
		t.Errorf("a pipe: %v", err)
	}
}

// TestOperatorErrors: what is wrong with an operator is said of the file that
// says it, once, whatever the folder's name.
func TestOperatorErrors(t *testing.T) {
	for _, dir := range []string{"d", "o", "operator", "w", ".", "/x/../y"} {
		at := map[string]string{".": "", "/x/../y": "/y/"}[dir]
		if at == "" && dir != "." {
			at = dir + "/"
		}
		m := inMemory(t)
		c, err := OpenCaseFS(m, dir)
		if err != nil {
			t.Fatal(err)
		}
		c.Operator.Activation = "rule"
		for range 2 { // with weights, and without
			_, err = c.NewOperator()
			if want := at + `case.json: operator.activation: unknown activation "rule": want `; err == nil ||
				!strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: error %v, want %s...", dir, err, want)
			}
			c.Weights = nil
		}
		m = inMemory(t)
		edit(t, m, `"num_layers": 2`, `"num_layers": 1`)
		if c, err = OpenCaseFS(m, dir); err != nil {
			t.Fatal(err)
		}
		_, err = c.NewOperator()
		if want := at + "weights.safetensors: output_layer.conv.weight: shape [3 10 1 1]: want [3 5 1 1]"; err == nil ||
			err.Error() != want {
			t.Errorf("%s: error %v, want %s", dir, err, want)
		}
	}
	if _, err := ParseCase(
		"conf/a.json", []byte(`{"operator": {"num_layers": 0, "base_channels": 1, "normalization": "no"}, `+
			`"rollout": {"num_timesteps": 2, "num_realizations": 1}, "weights_seed": 1}`),
	); err == nil || !strings.HasPrefix(err.Error(), `conf/a.json: operator.normalization: "no": want`) {
		t.Errorf("a configuration: %v", err)
	}
	if _, err := ParseCase("a.json", []byte(`{"operator": {}, "rollout": {}}`)); err == nil ||
		!strings.HasPrefix(err.Error(), "a.json: operator.num_layers: missing") {
		t.Errorf("a configuration without parameters: %v", err)
	}
}

// TestNoiseUnknown: a recorder may say that nothing gives the draws, and nothing else.
func TestNoiseUnknown(t *testing.T) {
	for value, want := range map[string]string{
		`"unknown"`: "", `null`: "", `"pink"`: `d/case.json: noise: "pink": want "unknown", or no such field`,
	} {
		m := inMemory(t)
		edit(t, m, `"weights_seed": 2`, `"weights_seed": 2, "noise": `+value)
		c, err := OpenCaseFS(m, "d")
		if want != "" {
			if err == nil || err.Error() != want {
				t.Errorf("%s: error %v, want %s", value, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.NoiseUnknown != (value != "null") {
			t.Errorf("%s: NoiseUnknown is %v", value, c.NoiseUnknown)
		}
	}
}

// TestStreamNames: which stream a name and a case mean.
func TestStreamNames(t *testing.T) {
	for _, k := range []struct {
		name, version string
		tape          bool
		noiseType     string
		want          string // a stream, or an error that begins with "!"
	}{
		{"", "1.13.1", true, "gaussian", "tape"},
		{"", "1.13.1", false, "gaussian", "torch-cpu:1.13"},
		{"", "2.4.0+cu121", false, "gaussian", "torch-cpu:2.x"},
		{"", "", false, "gaussian", "counter"},
		{"", "0.4.1", false, "gaussian", "!d/case.json: torch.version: \"0.4.1\": want a 1.13 or 2.x version"},
		{"torch-cpu", "1.13.1", true, "gaussian", "torch-cpu:1.13"},
		{"torch-cpu:2.x", "1.13.1", true, "gaussian", "torch-cpu:2.x"},
		{"torch-cpu:1.13", "", true, "laplace", "torch-cpu:1.13"},
		{"torch-cpu", "", true, "gaussian", "!d/case.json: torch.version: \"\": want a 1.13 or 2.x version"},
		{"torch-cpu:", "1.13.1", true, "gaussian", "!noise: "},
		{"torch-cpu:2.9", "1.13.1", true, "gaussian", "!noise: "},
		{"none", "", false, "gaussian", "none"},
		{"counter", "1.13.1", true, "gaussian", "counter"},
		{"tape", "", false, "gaussian", "!d/noise.safetensors: missing: want a recorded tape"},
		{"Tape", "1.13.1", true, "gaussian", "!noise: \"Tape\": want "},
		{"tape:", "1.13.1", true, "gaussian", "!noise: \"tape:\": want "},
		{"", "", false, "", "none"},
		{"torch-cpu", "", false, "", "none"},
		{"tape", "", false, "", "none"},
		{"nonsense", "", false, "", "!noise: \"nonsense\": want "},
	} {
		m := inMemory(t)
		edit(t, m, `"1.13.1"`, `"`+k.version+`"`)
		if !k.tape {
			delete(m, "noise.safetensors")
		}
		delete(m, "weights.safetensors")
		if k.noiseType == "" {
			edit(t, m, `"noise_type": "gaussian"`, `"noise_type": null`)
		} else {
			edit(t, m, `"gaussian"`, `"`+k.noiseType+`"`)
		}
		c, err := OpenCaseFS(m, "d")
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.OpenStream(k.name, op, graph.Mode{Precision: fp16.Float32})
		want, refused := strings.CutPrefix(k.want, "!")
		switch {
		case refused && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%+v: error %v", k, err)
		case !refused && (err != nil || s.Name != want):
			t.Errorf("%+v: stream %+v, error %v", k, s, err)
		}
		if err == nil && s.Name == "none" {
			if d, err := s.Draws(0, 0, 2, 1); d != nil || err != nil {
				t.Errorf("%+v: draws %v, %v", k, d, err)
			}
		}
	}
}

// TestDevice: a case of a CUDA device means that device's stream, unless it
// has a tape.
func TestDevice(t *testing.T) {
	for _, k := range []struct{ torch, tape, want string }{
		{`"sm_count": 132`, "", "torch-cuda:132:2048"},
		{`"sm_count": 82, "max_threads_per_sm": 1536`, "", "torch-cuda:82:1536"},
		{`"sm_count": 132`, "noise.safetensors", "tape"},
		{`"sm_count": 0`, "", "torch-cpu:1.13"},
	} {
		m := inMemory(t)
		edit(t, m, `"mkl": false`, k.torch)
		if k.tape == "" {
			delete(m, "noise.safetensors")
		}
		c, err := OpenCaseFS(m, "d")
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.OpenStream("", op, graph.Mode{Precision: fp16.Float32}); err != nil || s.Name != k.want {
			t.Errorf("%+v: stream %+v, error %v", k, s, err)
		}
	}
}

// TestOwnFiles: a case in any file system reads its own files only, and the
// tensors of one reading are not those of another.
func TestOwnFiles(t *testing.T) {
	m := inMemory(t)
	read := func() *States {
		c, err := OpenCaseFS(m, "d")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := read(), read()
	a.Data[0]++
	if a.Data[0] == b.Data[0] || !slices.Equal(a.Data[1:], b.Data[1:]) {
		t.Error("two readings share their states")
	}
}

// TestMKLDraws: whose Bernoulli and exponential draws a PyTorch has goes by what the case
// says, then by release; what is not known is asked for, where it matters.
func TestMKLDraws(t *testing.T) {
	const asks = "!d/case.json: torch.mkl_draws: missing: "
	for _, k := range []struct{ version, torch, noiseType, name, want string }{
		{"2.9.1", `"mkl": true`, "dropout", "", "torch-cpu:2.x"},
		{"2.7.0", `"mkl": true`, "laplace", "", "torch-cpu:2.x"},
		{"2.6.0+cpu", `"mkl": true`, "dropout", "", "torch-cpu:2.x:mkl"},
		{"2.6.0", `"mkl": false`, "dropout", "", "torch-cpu:2.x"},
		{"2.9.1", `"mkl": true, "mkl_draws": true`, "dropout", "", "torch-cpu:2.x:mkl"},
		{"2.6.0", `"mkl": true, "mkl_draws": false`, "dropout", "", "torch-cpu:2.x"},
		{"2.31.0", `"mkl": true`, "dropout", "", asks},
		{"1.13.1", `"mkl": true`, "dropout", "", asks},
		{"1.13.1", `"mkl": true, "mkl_draws": true`, "dropout", "", "torch-cpu:1.13:mkl"},
		{"1.13.1", `"mkl": true`, "gaussian", "", "torch-cpu:1.13"},
		{"2.31.0", `"mkl": true`, "dropout", "torch-cpu:2.x", "torch-cpu:2.x"},
		{"2.31.0", `"mkl": true`, "dropout", "torch-cpu:2.x:mkl", "torch-cpu:2.x:mkl"},
	} {
		m := inMemory(t)
		edit(t, m, `"1.13.1"`, `"`+k.version+`"`)
		edit(t, m, `"mkl": false`, k.torch)
		edit(t, m, `"gaussian"`, `"`+k.noiseType+`"`)
		delete(m, "noise.safetensors")
		delete(m, "weights.safetensors")
		c, err := OpenCaseFS(m, "d")
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.OpenStream(k.name, op, graph.Mode{Precision: fp16.Float32})
		want, refused := strings.CutPrefix(k.want, "!")
		if refused && (err == nil || !strings.HasPrefix(err.Error(), want)) || !refused && (err != nil || s.Name != want) {
			t.Errorf("%+v: stream %+v, error %v", k, s, err)
		}
	}
}

// sparse is a file of any size that holds nothing.
type sparse struct {
	fs.FS
	name string
	size int64
}

type sparseInfo struct {
	fs.FileInfo
	size int64
}

func (i sparseInfo) Size() int64 { return i.size }

func (s sparse) Stat(name string) (fs.FileInfo, error) {
	i, err := fs.Stat(s.FS, name)
	if err == nil && name == s.name {
		i = sparseInfo{i, s.size}
	}
	return i, err
}

// TestFolderLimits: what a case's folder may make one read, before it is read.
func TestFolderLimits(t *testing.T) {
	m := inMemory(t)
	for _, name := range []string{"case.json", "SHA256SUMS"} {
		m["SHA256SUMS"] = &fstest.MapFile{}
		if _, err := OpenCaseFS(sparse{m, name, 1 << 30}, "d"); err == nil ||
			!strings.HasPrefix(err.Error(), "d/"+name+": 1073741824 bytes, and ") {
			t.Errorf("a gigabyte of %s: error %v", name, err)
		}
		delete(m, "SHA256SUMS")
	}
	c, err := OpenCaseFS(sparse{m, "probes.json", 1 << 30}, "d")
	if err != nil {
		t.Fatal(err)
	}
	m["probes.json"] = &fstest.MapFile{}
	if _, err := c.ReadFile("probes.json"); err == nil || !strings.Contains(err.Error(), "1073741824 bytes, and ") {
		t.Errorf("a gigabyte of probes.json: error %v", err)
	}
	for i := range mostLayerFiles + 1 {
		m[fmt.Sprintf("layers.step%05d.safetensors", i)] = &fstest.MapFile{}
	}
	if _, err := OpenCaseFS(m, "d"); err == nil ||
		err.Error() != "d: more than 4096 files layers.step*.safetensors: want the layers of fewer steps" {
		t.Errorf("many layers: error %v", err)
	}
}
