package forward_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// recordedHalf is a network and what PyTorch returned of it in a half precision: testdata/half.py.
func recordedHalf(t *testing.T, path, kind string) forward.Question {
	t.Helper()
	n, err := network.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	f, err := safetensors.Open(strings.TrimSuffix(path, ".json") + ".numbers.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) *tensor.Tensor {
		if !slices.Contains(f.Names(), name) {
			return nil
		}
		of, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := network.TensorOf(of)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	q := forward.Question{Name: name, Graph: n.Graph, Layers: map[int]*tensor.Tensor{}}
	for _, in := range n.Inputs {
		q.Inputs = append(q.Inputs, read("input."+in.Name))
	}
	for k := range n.Outputs {
		q.Outputs = append(q.Outputs, read(fmt.Sprintf("%s.%d", kind, k)))
	}
	for v := range n.Graph.Values {
		if x := read(kind + "_layer." + n.Graph.Values[v].Name); x != nil {
			q.Layers[v] = x
		}
	}
	parts := strings.Split(name, "-") // module, precision, autocast
	if q.Claim, err = forward.ParseClaim(parts[1], parts[2]); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestHalfDevices: what PyTorch on a CPU returns of networks under autocast, and in half itself, passes: kernels
// round inside of an operation (attention, transposed convolutions), modules cast by themselves (RMS norms) or compute
// angles in float32, attentions are one function with their projection, and numbers of float32 may happen to be those
// of a half (the first step of an LSTM). In a network with two attentions it may not be found which results a device
// rounds: then errors no larger than the claim's give no verdict. The same with a fault fails.
func TestHalfDevices(t *testing.T) {
	paths, err := filepath.Glob("testdata/half/*-*.json")
	if err != nil || len(paths) < 17 {
		t.Fatalf("%d networks: %v", len(paths), err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		module, _, _ := strings.Cut(filepath.Base(path), "-")
		if seen[module] && !share.All() { // in another precision
			continue
		}
		seen[module] = true
		for kind, want := range map[string]func(report.Verdict) bool{
			"right": report.Verdict.Passed, "wrong": report.Verdict.Failed,
		} {
			q := recordedHalf(t, path, kind)
			if module == "decoder" && kind == "right" { // see TestUsualErrors
				continue
			}
			r, err := forward.Check(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if !want(r.Verdict) {
				t.Errorf("%s, %s: %s: %s", q.Name, kind, r.Verdict, r.Reason)
			}
		}
	}
}

// TestUsualErrors: of a network of which it is not found which results a device rounds, errors that are larger than the
// claim's fail: of one number, and of all.
func TestUsualErrors(t *testing.T) {
	for name, off := range map[string]func(i int, v float64) float64{
		"none": func(int, float64) float64 { return 0 },
		"one": func(i int, _ float64) float64 {
			if i == 100 {
				return .0145
			}
			return 0
		},
		"all": func(i int, v float64) float64 { return .003 * float64(1-2*(i%2)) * (1 + math.Abs(v)) },
	} {
		q := recordedHalf(t, "testdata/half/decoder-bfloat16-none.json", "right")
		y := q.Outputs[0]
		for i, v := range y.Data {
			y.Data[i] = y.Format.Round(v + off(i, v))
		}
		r, err := forward.Check(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if failed := r.Verdict.Failed(); failed != (name != "none") || r.Verdict.Passed() {
			t.Errorf("errors of %s: %s: %s", name, r.Verdict, r.Reason)
		}
		if none := name == "none"; none && (r.Verdict != report.NoPower || len(r.Unjudged) != 1 || !(r.OneStep.MaxAbs > 0)) {
			t.Errorf("as recorded: %s, %v, %+v", r.Verdict, r.Unjudged, r.OneStep)
		}
	}
}

// onnxRuntime checks what ONNX Runtime returned of a network of testdata: each kind passes or does not.
func onnxRuntime(t *testing.T, name, precision, autocast string, kinds map[string]bool) {
	t.Helper()
	m, err := onnx.Open("testdata/" + name + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	z, err := npy.OpenArchive("testdata/" + name + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	read := func(name string) *tensor.Tensor {
		a, err := z.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(fp16.Float32, v, a.Shape...)
	}
	x := read("x")
	g, _, err := m.Graph(map[string]onnx.Given{"x": {Value: x}})
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{graph: g, inputs: []*tensor.Tensor{x}}
	for kind, pass := range kinds {
		if r := check(t, f, precision, autocast, read(kind), nil); r.Verdict.Passed() != pass {
			t.Errorf("%s: %s: %s", kind, r.Verdict, r.Reason)
		}
	}
}

// TestONNXRuntimeSigmoid: ONNX Runtime's sigmoid in float32, 1/2 and a rational function, whose error does not become
// smaller where it does, passes in a network as it does alone. A hard sigmoid, and results in float16, fail.
func TestONNXRuntimeSigmoid(t *testing.T) {
	onnxRuntime(t, "sigmoid", "float32", "", map[string]bool{"right": true, "wrong": false, "coarse": false})
}

// TestONNXRuntimeFloat16: a network in float16 between casts, which ONNX Runtime evaluates in float32 without them, is
// more accurate than claimed. Another activation is not.
func TestONNXRuntimeFloat16(t *testing.T) {
	onnxRuntime(t, "float16", "float16", "none", map[string]bool{"right": true, "wrong": false})
}

// TestONNXRuntimeQuantized: ONNX Runtime evaluates a network of 8 bits by whole numbers, and passes. Where a quotient
// is near the middle of two, either is right, and all that follows from it. Two quanta fail.
func TestONNXRuntimeQuantized(t *testing.T) {
	onnxRuntime(t, "quantized", "float32", "", map[string]bool{"right": true, "wrong": false})
}
