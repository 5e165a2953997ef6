//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rollout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTwoWriters: while one job writes a file or its tape, no other may, whatever it
// is told; the first one's bytes are what they are without the attempts.
func TestTwoWriters(t *testing.T) {
	for _, ext := range outputs {
		path, alone := filepath.Join(t.TempDir(), "x"+ext), filepath.Join(t.TempDir(), "x"+ext)
		finished(t, recordingJob(t, alone))
		j, attempts := recordingJob(t, path), 0
		j.Sinks = append(j.Sinks, sinkFunc(func(step, m int) error {
			if step != 3 || m != 0 {
				return nil
			}
			for _, edit := range []func(*Job){
				func(k *Job) { k.Force = true },
				func(k *Job) { k.Resume = true },
				func(k *Job) { k.Force, k.Path = true, "other"+ext },
			} {
				k := recordingJob(t, path)
				edit(k)
				if filepath.Dir(k.Path) == "." {
					k.Path = filepath.Join(t.TempDir(), k.Path)
				}
				if _, err := k.Run(context.Background()); err == nil ||
					!strings.Contains(err.Error(), ".partial: another process writes it") {
					t.Errorf("%s: a second job: error %v", ext, err)
				}
				attempts++
			}
			return nil
		}))
		finished(t, j)
		for _, suffix := range []string{"", ".tape"} {
			want, err := os.ReadFile(alone + suffix)
			got, e := os.ReadFile(path + suffix)
			if err := errors.Join(err, e); err != nil || string(got) != string(want) {
				t.Errorf("%s%s: %v, or other bytes than without a second job", ext, suffix, err)
			}
		}
		if attempts != 3 {
			t.Errorf("%s: %d attempts", ext, attempts)
		}
		again := recordingJob(t, path)
		again.Force = true
		finished(t, again) // nobody writes any more
	}
}

// TestHeldBeforeRead: from before a job reads the checkpoint no other may go on with
// the run, which would make it one of the past.
func TestHeldBeforeRead(t *testing.T) {
	for _, ext := range outputs {
		path := filepath.Join(t.TempDir(), "x"+ext)
		j := recordingJob(t, path)
		ctx, cancel := context.WithCancel(context.Background())
		j.Progress = func(int, int) { cancel() }
		if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		first, second := recordingJob(t, path), recordingJob(t, path)
		first.Resume, second.Resume = true, true
		if from, _, _, err := first.find(path + ".resume"); from == nil || err != nil {
			t.Fatalf("%s: checkpoint %v, %v", ext, from, err)
		}
		if _, err := second.Run(context.Background()); err == nil ||
			!strings.Contains(err.Error(), ".partial: another process writes it") {
			t.Errorf("%s: a second job: error %v", ext, err)
		}
		first.release()
		finished(t, second)
	}
}

// TestLinkInTheWay: a link to nothing is a file that exists.
func TestLinkInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.Symlink("nothing.npy", path); err != nil {
		t.Fatal(err)
	}
	j := job(t, path, nil)
	if _, err := j.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "x.npy: exists: want --force") {
		t.Errorf("error %v", err)
	}
	if to, err := os.Readlink(path); err != nil || to != "nothing.npy" {
		t.Errorf("the link is %q, %v", to, err)
	}
}
