package rollout

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRoom: what does not fit is refused before a file is made, and what fits is not.
func TestRoom(t *testing.T) {
	was := freeBytes
	t.Cleanup(func() { freeBytes = was })
	for _, ext := range outputs {
		dir := t.TempDir()
		path := filepath.Join(dir, "out"+ext)
		freeBytes = was
		finished(t, recordingJob(t, path))
		var total int64
		for _, b := range readLeft(t, path) {
			total += int64(len(b))
		}
		if ext == ".npz" {
			total *= 2 // the archive beside the partial file
		}
		for _, c := range []struct {
			free int64
			fits bool
		}{{total + 4096, true}, {1000, false}} {
			freeBytes = func(string) (int64, bool) { return c.free, true }
			j := recordingJob(t, filepath.Join(t.TempDir(), "out"+ext))
			_, err := j.Run(context.Background())
			if c.fits && err != nil {
				t.Errorf("%s: %d bytes for %d: %v", ext, c.free, total, err)
			}
			if files, _ := os.ReadDir(filepath.Dir(j.Path)); !c.fits && (err == nil || !strings.Contains(err.Error(), " bytes to write, and 1e+03 free: want room") || len(files) != 0) {
				t.Errorf("%s: %d bytes for %d: error %v, %d files", ext, c.free, total, err, len(files))
			}
		}
		// Of a run that is resumed only the rest must fit.
		freeBytes = was
		j := recordingJob(t, filepath.Join(t.TempDir(), "out"+ext))
		ctx, cancel := context.WithCancel(context.Background())
		j.Progress = func(done, _ int) {
			if done == 17 {
				cancel()
			}
		}
		if _, err := j.Run(ctx); err == nil {
			t.Fatal("not stopped")
		}
		freeBytes = func(string) (int64, bool) { return total / 4, true }
		j = recordingJob(t, j.Path)
		j.Resume = true
		if _, err := j.Run(context.Background()); err != nil && ext != ".npz" {
			t.Errorf("%s: %v", ext, err)
		}
	}
	if free, ok := systemFree(t.TempDir()); ok && free == 0 {
		t.Error("a folder that was written to has no room")
	}
}
