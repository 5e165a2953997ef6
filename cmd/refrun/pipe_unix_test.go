//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestPipe: a pipe that nobody writes to, and a device without an end, keep
// nobody waiting.
func TestPipe(t *testing.T) {
	for _, name := range []string{"case.json", "weights.safetensors", "trajectory.safetensors"} {
		for what, make := range map[string]func(path string) error{
			"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
			"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		} {
			dir := clitest.NewFolder(t).Write()
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := make(path); err != nil {
				t.Fatal(what, err)
			}
			oneStep(t, dir).Refused(t, "run", path+": is a "+what+": want ...")
			if name == "trajectory.safetensors" {
				refrun(t, "compare", dir, dir).Refused(t, "compare", path+": ...want a regular file")
			}
		}
	}
	for _, ext := range []string{".npy", ".npz", ".h5", ".safetensors"} {
		path := filepath.Join(t.TempDir(), "pipe"+ext)
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Fatal(err)
		}
		refrun(t, "compare", path, path).Refused(t, "compare", path+": file: a pipe: want a regular file")
	}
}
