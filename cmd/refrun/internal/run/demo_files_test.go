package run

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestDemoFiles: what the program carries are the files of the folder demo, byte for byte.
func TestDemoFiles(t *testing.T) {
	files, err := demoFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"case.json", "trajectory.safetensors"} {
		want, err := os.ReadFile(filepath.Join("demo", name))
		if err != nil || len(want) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(want), err)
		}
		if got, err := fs.ReadFile(files, name); err != nil || string(got) != string(want) {
			t.Errorf("%s differs from the file of the folder (%v)", name, err)
		}
	}
}
