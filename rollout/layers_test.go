package rollout

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/safetensors"
)

// TestEachLayers: layers.safetensors comes first, then the files of later steps
// in order; a broken one is an error.
func TestEachLayers(t *testing.T) {
	dir := t.TempDir()
	config := `{"operator": {"num_layers": 1, "base_channels": 2}, "rollout": {"num_timesteps": ` +
		`2, "num_realizations": 1}, "weights_seed": 1}`
	if err := os.WriteFile(filepath.Join(dir, "case.json"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	files := []string{"layers.safetensors", "layers.step0002.safetensors", "layers.step0010.safetensors"}
	for _, name := range slices.Backward(files) {
		x, err := safetensors.OfFloat64s("input", safetensors.F32, []int{1}, []float64{1})
		if err != nil {
			t.Fatal(err)
		}
		if err := safetensors.WriteFile(filepath.Join(dir, name), []*safetensors.Tensor{x}, nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (names []string, err error) {
		c, err := OpenCase(dir)
		if err != nil {
			return nil, err
		}
		err = c.EachLayers(func(f *safetensors.File) error {
			names = append(names, filepath.Base(f.Path))
			_, err := f.Tensor("input")
			return err
		})
		return names, err
	}
	if names, err := read(); err != nil || !slices.Equal(names, files) {
		t.Errorf("files %q, error %v: want %q", names, err, files)
	}
	if err := os.WriteFile(filepath.Join(dir, files[1]), []byte("no tensors"), 0o666); err != nil {
		t.Fatal(err)
	}
	if names, err := read(); err == nil {
		t.Errorf("files %q of which one is broken: want an error", names)
	}
}
