package main

import (
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/safetensors"
)

// TestNumberOfItsOwnFormat: --precision speaks of tensors, not of an input of one float64 number, as PyTorch has for 0.7.
func TestNumberOfItsOwnFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.safetensors")
	x := make([]float64, 40)
	right, wrong := make([]float64, 40), make([]float64, 40)
	for i := range x {
		x[i] = float64(float32(float64(i) - 17.3))
		right[i], wrong[i] = float64(float32(x[i]*.7)), float64(float32(x[i]*.71))
	}
	var all []*safetensors.Tensor
	for _, k := range []struct {
		name  string
		dtype safetensors.DType
		shape []int
		data  []float64
	}{{"input", safetensors.F32, []int{40}, x}, {"other", safetensors.F64, []int{}, []float64{.7}}, {"output", safetensors.F32, []int{40}, right}, {"bad", safetensors.F32, []int{40}, wrong}} {
		v, err := safetensors.OfFloat64s(k.name, k.dtype, k.shape, k.data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	for _, precision := range []string{"float32", "tf32"} {
		for output, code := range map[string]int{"output": 0, "bad": 1} {
			args := []string{"kernel", path, "--op", "mul", "--precision", precision, "--output", output}
			if r := refrun(t, args...); r.code != code {
				t.Errorf("%s, %s: exit code %d: %s%s", precision, output, r.code, r.stdout, r.stderr)
			}
		}
	}
}
