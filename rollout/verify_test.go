package rollout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
)

// finished runs a job to the end, without checkpoints.
func finished(t testing.TB, j *Job) {
	t.Helper()
	j.Every = time.Hour
	if _, err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestCompleteOfAnother: a complete output is taken as done only if it is this
// run's, as far as its format can tell.
func TestCompleteOfAnother(t *testing.T) {
	const all = ".safetensors.npy.npz.h5.hdf5"
	for _, c := range []struct {
		what, in, want string
		edit           func(j *Job)
	}{
		{"another seed", all, `base_seed: the finished run had "3", this one has "4": want`,
			func(j *Job) { j.Identity[1][1] = "4" }},
		{"a field more", all, `clamp_range: the finished run had none, this one has "x": want`,
			func(j *Job) { j.Identity = append(j.Identity, [2]string{"clamp_range", "x"}) }},
		{"a field less", all, `base_seed: the finished run had "3", this one has none: want`,
			func(j *Job) { j.Identity = j.Identity[:1] }},
		{"another type", all, `: trajectory type float32: want float16`, func(j *Job) { j.Store = fp16.Float16 }},
		{"another length", all, `: trajectory shape [5 7 2 6 6]: want [5 8 2 6 6]`, func(j *Job) { j.Config.Timesteps++ }},
		{"another size", all, `: trajectory shape [5 7 2 6 6]: want [5 7 2 5 6]`, func(j *Job) { j.Shape.H = 5 }},
	} {
		for _, ext := range outputs {
			if !strings.Contains(c.in+".", ext+".") {
				continue
			}
			path := filepath.Join(t.TempDir(), "out"+ext)
			finished(t, job(t, path, nil))
			j := job(t, path, nil)
			j.Resume = true
			if r, err := j.Run(context.Background()); err != nil || !r.Complete {
				t.Errorf("%s: the same run: %+v, %v", ext, r, err)
			}
			c.edit(j)
			if _, err := j.Run(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: error %v, want one line with %q", ext, c.what, err, c.want)
			}
		}
	}
}

// TestCompleteBroken: files that are not what their names say are errors too.
func TestCompleteBroken(t *testing.T) {
	for _, ext := range outputs {
		path := filepath.Join(t.TempDir(), "out"+ext)
		finished(t, job(t, path, nil))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		huge := append([]byte{255, 255, 255, 255, 255, 255, 255, 127}, whole...)
		for what, b := range map[string][]byte{
			"empty": {}, "text": []byte("hello, world"), "cut": whole[:len(whole)-1], "begun": whole[:40], "shifted": huge,
			"no identity": []byte(strings.Replace(string(whole), "identity", "identitY", 1)),
			"not a list":  []byte(strings.Replace(string(whole), "[[", "{[", 1)),
		} {
			if string(b) == string(whole) {
				continue // a format without an identity
			}
			if ext == ".npz" && what == "shifted" {
				continue // a zip archive may stand behind something else
			}
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			j := job(t, path, nil)
			j.Resume = true
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := j.Run(context.Background())
			runtime.ReadMemStats(&after)
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n") ||
				what == "no identity" && !strings.Contains(err.Error(), "identity: missing") {
				t.Errorf("%s, %s: %+v, error %v", ext, what, r, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("%s, %s: %d bytes allocated for a claim", ext, what, used)
			}
		}
	}
}

// TestVerifyInPieces: verifying a file takes no memory for its elements.
func TestVerifyInPieces(t *testing.T) {
	for _, ext := range outputs {
		path := filepath.Join(t.TempDir(), "out"+ext)
		j := job(t, path, func(c *Case) { c.Rollout.Timesteps = 200 })
		j.Shape = Shape{2, 32, 32}
		x0 := make([]float64, j.Shape.Len())
		j.Start = func(int) []float64 { return x0 }
		finished(t, j)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, close, err := openSealed(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.check(nil)
		runtime.ReadMemStats(&after)
		close()
		info, _ := os.Stat(path)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || len(s.differences(b)) > 0 ||
			int64(used) > info.Size()/4 {
			t.Errorf("%s: %d bytes to check a file of %d (%v)", ext, used, info.Size(), err)
		}
	}
}

// TestOverwrite: files of finished runs are overwritten only on demand, and
// then the old one stays until the new one is whole.
func TestOverwrite(t *testing.T) {
	for _, ext := range outputs {
		path := filepath.Join(t.TempDir(), "out"+ext)
		refused := func(what, want string, edit func(j *Job)) {
			t.Helper()
			j := recordingJob(t, path)
			edit(j)
			if _, err := j.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: error %v, want %q", ext, what, err, want)
			}
		}
		finished(t, recordingJob(t, path))
		whole, _ := os.ReadFile(path)
		tape, _ := os.ReadFile(path + ".tape")
		refused("again", path+": exists: want --force to overwrite it, another name, or --resume", func(*Job) {})
		refused("another output, the same tape", path+".tape: exists: want --force",
			func(j *Job) { j.Path, j.Record = path+ext, path+".tape" })
		refused("another output, the same tape, resumed", path+".tape: exists: want --force",
			func(j *Job) { j.Path, j.Record, j.Resume = path+ext, path+".tape", true })
		refused("a tape that is not there", path+".other: missing", func(j *Job) { j.Record, j.Resume = path+".other", true })
		refused("two wishes", "--resume and --force: want one of them", func(j *Job) { j.Resume, j.Force = true, true })
		refused("two in one", "both the output and the tape", func(j *Job) { j.Record = path })
		refused("a tape under the name of the partial file", "two of the run's files",
			func(j *Job) { j.Path, j.Record = path+ext, path+ext+".partial" })
		refused("a tape under the name of the checkpoint", "two of the run's files",
			func(j *Job) { j.Path, j.Record = path+ext, path+ext+".resume" })
		refused("a folder", "want a regular file",
			func(j *Job) { j.Path, j.Force = filepath.Join(t.TempDir(), "x"+ext), true; os.Mkdir(j.Path, 0o777) })

		j := recordingJob(t, path)
		j.Force = true
		j.Sinks = []Sink{sinkFunc(func(tm, m int) error {
			if tm != 6 || m != 4 {
				return nil
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != string(whole) {
				t.Errorf("%s: the old file is gone before the new one is whole (%v)", ext, err)
			}
			return nil
		})}
		finished(t, j)
		if b, _ := os.ReadFile(path); string(b) != string(whole) {
			t.Errorf("%s: overwritten by the same run, it differs", ext)
		}
		if b, _ := os.ReadFile(path + ".tape"); string(b) != string(tape) {
			t.Errorf("%s: overwritten by the same run, the tape differs", ext)
		}

		// A run that begins again, and dies before its first checkpoint, must
		// not be continued from the checkpoint of the one before.
		for _, force := range []bool{false, true} {
			j := recordingJob(t, path)
			j.Path, j.Record = path+ext, path+ext+".tape"
			if j.Force = force; force {
				j.Every = time.Hour
			}
			left := 20
			if force {
				left = 3
			}
			j.Sinks = []Sink{sinkFunc(func(int, int) error {
				if left--; left < 0 {
					return errors.New("killed")
				}
				return nil
			})}
			if _, err := j.Run(context.Background()); err == nil {
				t.Fatal("the run did not die")
			}
		}
		refused("unfinished", "left by an unfinished run: want --resume to continue it, or --force to begin again",
			func(j *Job) { j.Path, j.Record = path+ext, path+ext+".tape" })
		refused("an unfinished tape", path+ext+".tape.partial: left by an unfinished run",
			func(j *Job) { j.Path, j.Record = path+ext+ext, path+ext+".tape" })
		j = recordingJob(t, path)
		j.Path, j.Record, j.Resume = path+ext, path+ext+".tape", true
		finished(t, j)
		if b, _ := os.ReadFile(path + ext); string(b) != string(whole) {
			t.Errorf("%s: resumed after --force, it differs", ext)
		}
		if b, _ := os.ReadFile(path + ext + ".tape"); string(b) != string(tape) {
			t.Errorf("%s: resumed after --force, the tape differs", ext)
		}
	}
}
