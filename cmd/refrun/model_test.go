package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// networks is the folder of the networks that package onnx is tested with, wherever a test
// goes.
var networks, errNetworks = filepath.Abs(filepath.Join("..", "..", "onnx", "testdata", "models"))

// fixture returns the path of a network, and that of its inputs.
func fixture(t *testing.T, name string) (model, inputs string) {
	t.Helper()
	if errNetworks != nil {
		t.Fatal(errNetworks)
	}
	return filepath.Join(networks, name+".onnx"), filepath.Join(networks, name+".npz")
}

// outputsOf returns the numbers of an array of an archive.
func outputsOf(t *testing.T, path, name string) []float64 {
	t.Helper()
	z, err := npy.OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	a, err := z.Array(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestModel: a network is evaluated once, with the same digest whatever the kernels and the
// threads, and its outputs are written by their names in each kind of file.
func TestModel(t *testing.T) {
	m, in := fixture(t, "resnet")
	dir := t.TempDir()
	args := []string{"run", "--onnx", m, "--json"}
	digest := ""
	for _, isa := range asm.ISAs() {
		for _, more := range [][]string{{"--input", in}, {"--input", "x=" + in + ":x", "--threads", "3"}} {
			r := refrun(t, slices.Concat(args, more, []string{"--isa", isa})...)
			clitest.Has(t, "run", r.Decode(t), object{
				"model": word, "mode": word, "contract": word, "digest": word, "nodes": number, "products": number,
				"seconds": number, "gflops": number, "isa": word, "threads": number, "peak_bytes": number,
				"outputs": []any{object{"name": word, "shape": []any{number}, "format": word, "digest": word}},
			})
			if d := r.Decode(t)["digest"].(string); digest == "" {
				digest = d
			} else if d != digest {
				t.Errorf("%s %v: digest %s, want %s", isa, more, d, digest)
			}
		}
	}
	if f64 := refrun(t, append(args, "--input", in, "--precision", "float64")...).Decode(t); f64["digest"] == digest ||
		f64["mode"] != "float64" {
		t.Errorf("float64: %v", f64)
	}
	want := outputsOf(t, in, "float64")
	for _, file := range []string{"y.npz", "y.npy", "y.safetensors"} {
		path := filepath.Join(dir, file)
		if r := refrun(t, append(args, "--input", in, "-o", path)...); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		refrun(t, append(args, "--input", in, "-o", path)...).Refused(t, "run",
			"-o: "+path+": exists: want another file, or --force to overwrite it")
		if r := refrun(t, append(args, "--input", in, "-o", path, "--force")...); r.Code != 0 {
			t.Error(r.Stderr)
		}
	}
	for i, v := range outputsOf(t, filepath.Join(dir, "y.npz"), "linear") {
		if d := v - want[i]; d > 1e-6 || d < -1e-6 {
			t.Errorf("number %d: %v, want %v", i, v, want[i])
		}
	}
	if r := refrun(t, "compare", filepath.Join(dir, "y.npy"), filepath.Join(dir, "y.safetensors"),
		"--json"); r.Decode(t)["max_abs"] != 0. {
		t.Errorf("the files differ: %s", r.Stdout)
	}
	if r := refrun(t, "run", "--onnx", m, "--input", in); r.Code != 0 || !strings.Contains(r.Stdout, "23 operations") ||
		!strings.Contains(r.Stdout, digest) {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}

// TestEntryName: names of outputs as those of an archive.
func TestEntryName(t *testing.T) {
	for name, want := range map[string]string{
		"y": "y", "/fc/Gemm_output_0": "fc/Gemm_output_0", "Identity:0": "Identity_0",
	} {
		if got := model.EntryName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestModelInfo: what a network is, and what of it is not supported.
func TestModelInfo(t *testing.T) {
	m, _ := fixture(t, "resnet")
	r := refrun(t, "info", "--onnx", m, "--json").Decode(t)
	clitest.Has(t, "info", r, object{"model": word, "producer": word, "opset": number, "inputs": []any{word},
		"outputs": []any{word}, "supported": truth, "operations": object{"conv2d": number}, "nodes": number,
		"parameters": number, "flops": number})
	if r["parameters"] != 29794. || r["nodes"] != 23. || r["inputs"].([]any)[0] != "x float32 [1,3,64,64]" {
		t.Errorf("%v", r)
	}
	b, err := os.ReadFile(m)
	if err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(strange, bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("Relu"), []byte("Rely")),
		[]byte("MaxPool"), []byte("MinPool")), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := refrun(t, "info", "--onnx", strange)
	if bad.Code != 2 || strings.Count(bad.Stdout, "unsupported  ") != 1 || !strings.Contains(bad.Stdout,
		`unsupported  Rely 7, MinPool 1: not supported`) || strings.Count(bad.Stderr, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", bad.Code, bad.Stdout, bad.Stderr)
	}
	_, in := fixture(t, "resnet")
	refrun(t, "run", "--onnx", strange, "--input", in).Refused(t, "run", strange+`: Rely 7, MinPool 1: not supported`)
}

// TestModelFlags: what a network is given wrongly.
func TestModelFlags(t *testing.T) {
	m, in := fixture(t, "resnet")
	_, other := fixture(t, "vit")
	for _, k := range []struct {
		args []string
		want string
	}{
		{nil, "--input: x: missing: want x float32 [1,3,64,64]"},
		{[]string{"--input", "z=" + in}, `--input: "z": not an input of the network: want x float32 [1,3,64,64]`},
		{[]string{"--input", "x=" + in}, in + ": 3 tensors: want ..."},
		{[]string{"--input", "x=" + in + ":nothing"}, in + `: "nothing": no tensor of that name`},
		{[]string{"--input", "x=" + in + ":float64"}, in + ":float64: number 0 is ..."},
		{[]string{"--input", "x=" + other + ":x"}, m + `: input "x": shape [1 3 40 40]: want 64 at axis 2`},
		{[]string{"--input", "x=nowhere.npy"}, "nowhere.npy: no such file or directory: want a file of tensors"},
		{[]string{"--input", "nowhere.npy"}, "nowhere.npy: no such file or directory: want a file of tensors"},
		{[]string{"--input", "x=" + m}, "--input: " + m + ": want a .npy, .npz or .safetensors file"},
		{[]string{"--input", in, "--steps", "3"}, "--steps: says nothing of a network: want it without --onnx and --graph"},
		{[]string{"--input", in, "--precision", "half"}, "--precision: unknown number format ..."},
		{[]string{"--input", in, "-o", "y.txt"}, `-o: y.txt: file type ".txt": want .npz, .npy or .safetensors`},
	} {
		refrun(t, append([]string{"run", "--onnx", m}, k.args...)...).Refused(t, "run", k.want)
	}
	refrun(t, "run", "--input", in).Refused(t, "run", "--input: want --onnx or --graph as well")
	refrun(t, "info", "--input", in).Refused(t, "info", "--input: want --onnx or --graph as well")
	refrun(t, "run", "--onnx", "nowhere.onnx").Refused(t, "run",
		"nowhere.onnx: no such file or directory: want an ONNX file")
	refrun(t, "run", "--onnx", in).Refused(t, "run", in+": ...")
}

// TestGraph: a network of docs/FORMATS.md is evaluated, and described, as one of ONNX is.
func TestGraph(t *testing.T) {
	dir := t.TempDir()
	path, x, w := filepath.Join(dir, "net.json"), filepath.Join(dir, "x.safetensors"),
		filepath.Join(dir, "net.safetensors")
	text := `{"inputs": [{"name": "x", "shape": [1, 2]}], "nodes": [{"op": "linear", "name": "fc", "in": ["x", ` +
		`"w"]}], "outputs": ["fc"]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, shape := range map[string][]int{x: {1, 2}, w: {1, 2}} {
		of, err := safetensors.OfFloat64s(map[string]string{x: "x", w: "w"}[file], "F32", shape, []float64{3, 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := safetensors.WriteFile(file, []*safetensors.Tensor{of}, nil); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "y.npz")
	if r := refrun(t, "run", "--graph", path, "--input", x, "-o", out); r.Code != 0 ||
		!strings.Contains(r.Stdout, "1 operation, 2 multiplications") {
		t.Fatalf("%d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if y := outputsOf(t, out, "fc"); !slices.Equal(y, []float64{25}) {
		t.Errorf("3*3 + 4*4 is %v", y)
	}
	if r := refrun(t, "info", "--graph", path); r.Code != 0 || strings.Contains(r.Stdout, "opset") ||
		!strings.Contains(r.Stdout, "parameters   2\n") {
		t.Errorf("info: %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	refrun(t, "run", "--graph", path, "--onnx", path).Refused(t, "run", "--graph: want it, or --onnx, one of them")
	refrun(t, "run", "--graph", "nowhere.json").Refused(t, "run",
		"nowhere.json: no such file or directory: want a network of docs/FORMATS.md")
	refrun(t, "run", "--graph", x).Refused(t, "run", x+": want a JSON object...")
}

// TestModelCheck: what PyTorch returned passes, the same with a fault fails, and a layer that is wrong is named.
func TestModelCheck(t *testing.T) {
	t.Parallel()
	m, in := fixture(t, "resnet")
	dir := t.TempDir()
	dev, layers := filepath.Join(dir, "y.npz"), filepath.Join(dir, "layers.npz")
	args := []string{"check", "--onnx", m, "--input", in, "--json"}
	write := func(path string, arrays map[string]*tensor.Tensor) {
		var names []string
		var of []*tensor.Tensor
		for name, x := range arrays {
			names, of = append(names, name), append(of, x)
		}
		os.Remove(path)
		if err := model.WriteOutputs(path, names, of); err != nil {
			t.Fatal(err)
		}
	}
	y := tensor.Of(fp16.Float32, outputsOf(t, in, "torch_float32"), 1, 10)
	write(dev, map[string]*tensor.Tensor{"anything": y})
	report, junit := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.xml")
	r := refrun(t, append(args, "--output", dev, "--report", report, "--junit", junit)...)
	clitest.Has(t, "check", r.Decode(t), object{"model": word, "verdict": word, "reason": word, "claim": word,
		"text": word,
		"isa":  word, "threads": number, "seconds": number, "peak_bytes": number})
	if v := r.Decode(t)["verdict"]; r.Code != 0 || v != "PASS-CONFORMING" {
		t.Errorf("%d, %v: %v", r.Code, v, r.Decode(t)["reason"])
	}
	for _, path := range []string{report, junit} {
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "PASS-CONFORMING") && path == report {
			t.Errorf("%s: %v", path, err)
		}
	}
	page, err := os.ReadFile(report)
	if again := "<th>Command</th><td>refrun check --onnx " + m + " --input " + in + " --output " + dev + "</td>"; err !=
		nil || !strings.Contains(string(page), again) || !strings.Contains(string(page), "<footer>refrun "+cli.Version) {
		t.Errorf("no %q in the page, or no version (%v)", again, err)
	}
	y.Data[3] += 1e-3
	write(dev, map[string]*tensor.Tensor{"linear": y})
	if r := refrun(t, append(args, "--output", dev)...); r.Code != 1 {
		t.Errorf("an output that is off by a thousandth: %d", r.Code)
	}
	write(layers, map[string]*tensor.Tensor{"linear": y, "stranger": y})
	if r := refrun(t, append(args, "--layers", layers)...); r.Code != 1 || r.Decode(t)["first_layer"] != "linear" ||
		!strings.Contains(r.Stdout, "no values of the network: stranger") {
		t.Errorf("with layers: %d, %v", r.Code, r.Decode(t)["first_layer"])
	}
	for _, k := range []struct {
		args []string
		want string
	}{
		{nil, "--output: missing: want the file of the outputs that the device returned"},
		{[]string{"--output", "z=" + dev}, `--output: "z": not an output of the network: want linear`},
		{[]string{"--output", dev, "--claim", "float64"},
			m + ": linear: float32 numbers: want float64, as is claimed"},
		{[]string{"--output", dev, "--noise", "none"},
			"--noise: says nothing of a network: want it without --onnx and --graph"},
		{[]string{"--output", in}, in + ": 3 tensors: want ..."},
		{[]string{"--output", "y.txt"}, "--output: y.txt: want a .npy, .npz or .safetensors file"},
		{[]string{"--layers", in},
			"--layers: " + in + ": 3 tensors, and none has the name of a value of the network: want such as ..."},
	} {
		refrun(t, append(args[:len(args)-1:len(args)-1], k.args...)...).Refused(t, "check", k.want)
	}
	refrun(t, "check", "--output", dev).Refused(t, "check", "--input, --output: want --onnx or --graph as well")
}

// TestModelVerbs: a network is planned and studied, and probes for it are what run takes.
func TestModelVerbs(t *testing.T) {
	m, in := fixture(t, "painn")
	r := refrun(t, "plan", "--onnx", m, "--input", in, "--seconds", "0.01", "--json").Decode(t)
	clitest.Has(t, "plan", r, object{"kernels": []any{object{"name": word, "op": word, "kernel": word}}, "flops": number,
		"arena_bytes": number, "weight_bytes": number})
	r = refrun(t, "study", "--onnx", m, "--input", in, "--json").Decode(t)
	clitest.Has(t, "study", r,
		object{"model": word, "rows": []any{object{"twin": word, "max_abs": number, "rms_over_std": number}}})
	dir := filepath.Join(t.TempDir(), "probes")
	files := refrun(t, "probe", "--onnx", m, "--input", in, "-o", dir, "--json").Decode(t)["files"].([]any)
	if len(files) != 7 {
		t.Fatalf("%d probes", len(files))
	}
	for _, f := range files {
		if r := refrun(t, "run", "--onnx", m, "--input", f.(string)); r.Code != 0 {
			t.Errorf("%s: %s", f, r.Stderr)
		}
	}
	refrun(t, "probe", "--onnx", m, "--input", in, "-o", dir).Refused(t, "probe",
		"-o: "+dir+": holds 7 files: want a folder that is new or empty")
	refrun(t, "probe", "--onnx", m, "-o", dir+"2").Refused(t, "probe", "--input: z: whole numbers: want them given")
	refrun(t, "plan", "--onnx", m, "--precision", "float64").Refused(t, "plan",
		"--precision: float64: is evaluated by definition: want another precision")
}

// hostileModels are files that are no networks, or ask for more than they are worth.
func hostileModels(t *testing.T) (all []hostile) {
	t.Helper()
	m, in := fixture(t, "painn")
	b, err := os.ReadFile(m)
	if err != nil {
		t.Fatal(err)
	}
	times := bytes.Repeat
	files := [][]byte{nil, {0}, {0x3a}, {0x3a, 0x80, 0x80, 0x80, 0x80, 0x08}, {
		0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
	}, {0x3b}, []byte("not a model"),
		times([]byte{0x3a, 0}, 1<<20), times([]byte{0x3a, 2, 0x0a, 0}, 1<<19), times([]byte{0x42, 0}, 1<<20),
		append([]byte{0x42, 2, 0x10, 20}, times([]byte{0x3a, 4, 0x0a, 2, 0x22, 0}, 1<<17)...)}
	for n := 1; n < len(b); n += len(b) / 40 {
		files = append(files, b[:n])
		changed := slices.Clone(b)
		changed[n] ^= 0xff
		changed = append(changed, 0x3a)
		files = append(files, changed)
	}
	for k, data := range files {
		path := filepath.Join("hostile", "model"+string(rune('a'+k/26))+string(rune('a'+k%26))+".onnx")
		if err := os.MkdirAll("hostile", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, hostile{"models", []string{"run", "--onnx", path, "--input", in}},
			hostile{"models", []string{"info", "--onnx", path, "--json", "--steps", "1"}})
	}
	return all
}
