package kernel

import (
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/safetensors"
)

// TestNumberOfItsOwnFormat: --precision speaks of tensors, not of an input of one float64 number, as PyTorch has for
// 0.7.
func TestNumberOfItsOwnFormat(t *testing.T) {
	const n = 40
	x, right, wrong := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = float64(float32(float64(i) - 17.3))
		right[i], wrong[i] = float64(float32(x[i]*.7)), float64(float32(x[i]*.71))
	}
	file := func(output []float64) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "k.safetensors")
		var all []*safetensors.Tensor
		for _, k := range []struct {
			name  string
			dtype safetensors.DType
			shape []int
			data  []float64
		}{
			{"input", safetensors.F32, []int{n}, x},
			{"other", safetensors.F64, []int{}, []float64{.7}},
			{"output", safetensors.F32, []int{n}, output},
		} {
			v, err := safetensors.OfFloat64s(k.name, k.dtype, k.shape, k.data)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		if err := safetensors.WriteFile(path, all, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, code := range map[string]int{file(right): cli.ExitOK, file(wrong): cli.ExitFailed} {
		for _, precision := range []string{"float32", "tf32"} {
			if r := refrun(t, "kernel", path, "--op", "mul", "--precision", precision); r.Code != code {
				t.Errorf("%s: exit code %d, want %d: %s%s", precision, r.Code, code, r.Stdout, r.Stderr)
			}
		}
	}
}
