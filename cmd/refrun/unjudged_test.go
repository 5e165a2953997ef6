package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestUnjudgedExit: an output that nothing is held against has exit code 3, of a network and of a kernel, and is named
// before anything else; those of quantized networks and of PReLU are judged.
func TestUnjudgedExit(t *testing.T) {
	t.Parallel()
	file := func(name string) string { return filepath.Join("testdata", "unjudged", name) }
	norm := clitest.KernelFile(t, map[string][]float64{"input": {1, 2, 3, 4, 5, 6}, "output": {7, 7}},
		map[string][]int{"input": {2, 3}, "output": {2}})
	for _, k := range []struct {
		want string
		code int
		args []string
	}{
		{"UNJUDGED output: linalg_vector_norm", 3, []string{"check", "--graph", file("count.json"), "--input",
			"input=" + norm + ":input", "--output", "output=" + norm + ":output"}},
		{"y is the first wrong layer", 1, []string{"check", "--onnx", file("qdq.onnx"), "--input",
			"x=" + file("x.npy"), "--output", file("out_y_wrong.npz"), "--layers", file("layers.npz")}},
		{"output: linalg_vector_norm: it is not known", 3,
			[]string{"kernel", norm, "--op", "linalg_vector_norm", "--attr", "ord=0", "--attr", "dim=1"}},
		{"PASS-CONFORMING", 0, []string{
			"check", "--onnx", file("prelu.onnx"), "--input", file("prelu_x.npz"), "--output", file("prelu_y.npz"),
		}},
	} {
		r := refrun(t, k.args...)
		if r.Code != k.code || !strings.Contains(r.Stdout, k.want) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", k.args[0], r.Code, k.code, k.want, r.Stdout, r.Stderr)
		}
		if at := strings.Index(r.Stdout, "UNJUDGED"); at > strings.Index(r.Stdout, "READ") {
			t.Errorf("what was not judged comes late: %s", r.Stdout)
		}
	}
}
