package rollout

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/ground/disk"
)

// TestRoom: what does not fit is refused before a file is made, and what fits is not.
func TestRoom(t *testing.T) {
	for _, ext := range outputs {
		dir := t.TempDir()
		path := filepath.Join(dir, "out"+ext)
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
			restore := disk.Use(roomFor{disk.Operating(), uint64(c.free)})
			j := recordingJob(t, filepath.Join(t.TempDir(), "out"+ext))
			_, err := j.Run(context.Background())
			restore()
			if c.fits && err != nil {
				t.Errorf("%s: %d bytes for %d: %v", ext, c.free, total, err)
			}
			if files, _ := os.ReadDir(filepath.Dir(j.Path)); !c.fits && (err == nil ||
				!strings.Contains(err.Error(), " bytes to write, and 1e+03 free: want room") || len(files) != 0) {
				t.Errorf("%s: %d bytes for %d: error %v, %d files", ext, c.free, total, err, len(files))
			}
		}
		// Of a run that is resumed only the rest must fit.
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
		restore := disk.Use(roomFor{disk.Operating(), uint64(total / 4)})
		j = recordingJob(t, j.Path)
		j.Resume = true
		if _, err := j.Run(context.Background()); err != nil && ext != ".npz" {
			t.Errorf("%s: %v", ext, err)
		}
		restore()
	}
}

// roomFor is a file system that says so much is free.
type roomFor struct {
	disk.System
	free uint64
}

func (r roomFor) Free(string) (uint64, bool) { return r.free, true }
