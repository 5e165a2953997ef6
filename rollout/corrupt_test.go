package rollout

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
)

var corruptions = flag.Int("corruptions", 60, "how many files TestCorruptions corrupts")

// left is the files that a run left, by what follows the output's name.
type left map[string][]byte

func readLeft(t *testing.T, path string) left {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	all := left{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(name, path)] = b
	}
	return all
}

func (l left) write(t *testing.T, path string) {
	t.Helper()
	for suffix, b := range l {
		if err := os.WriteFile(path+suffix, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (l left) same(m left) bool {
	if len(l) != len(m) {
		return false
	}
	for suffix, b := range l {
		if c, ok := m[suffix]; !ok || string(b) != string(c) {
			return false
		}
	}
	return true
}

// spoil changes b as a disk might: by a bit, a page of zeros, a page from elsewhere, or
// an end that is missing. It returns b if that changes nothing.
func spoil(r *rand.Rand, b []byte) (how string, c []byte) {
	c = slices.Clone(b)
	if len(c) == 0 {
		return "empty", c
	}
	at := r.IntN(len(c))
	page := at &^ 511
	end := min(page+512, len(c))
	switch r.IntN(5) {
	case 0, 1:
		c[at] ^= 1 << r.IntN(8)
		return fmt.Sprintf("bit of byte %d", at), c
	case 2:
		clear(c[page:end])
		return fmt.Sprintf("zeros at %d", page), c
	case 3:
		from := r.IntN(len(c)) &^ 511
		copy(c[page:end], b[from:])
		return fmt.Sprintf("bytes of %d at %d", from, page), c
	}
	return fmt.Sprintf("cut at %d", at), c[:at]
}

// stopped returns what a run leaves that dies at a state, with a checkpoint after every
// step.
func stopped(t *testing.T, name string, store fp16.Format, state int) left {
	path := filepath.Join(t.TempDir(), name)
	j := recordingJob(t, path)
	j.Store = store
	j.Sinks = []Sink{sinkFunc(func(int, int) error {
		if state--; state < 0 {
			return errors.New("killed")
		}
		return nil
	})}
	if _, err := j.Run(context.Background()); err == nil {
		t.Fatal("the run did not die")
	}
	return readLeft(t, path)
}

// TestCorruptions corrupts what an unfinished run left, and what a finished one made. A
// run that goes on from it must make the right bytes or end in an error, and of a
// finished file the change must be found.
func TestCorruptions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, uint64(*corruptions)))
	type scene struct {
		name        string
		store       fp16.Format
		whole, dead left
	}
	var scenes []scene
	for _, ext := range outputs {
		for _, store := range []fp16.Format{fp16.Float32, fp16.Float16} {
			s := scene{name: "out" + ext, store: store}
			path := filepath.Join(t.TempDir(), s.name)
			j := recordingJob(t, path)
			j.Store = store
			finished(t, j)
			s.whole = readLeft(t, path)
			for _, state := range []int{9, 20, 33} {
				s.dead = stopped(t, s.name, store, state)
				scenes = append(scenes, s)
			}
		}
	}
	count := map[string]int{}
	for n := range *corruptions {
		s := scenes[r.IntN(len(scenes))]
		path := filepath.Join(t.TempDir(), s.name)
		done := n%2 == 1
		from := s.dead
		if done {
			from = s.whole
		}
		suffix := suffixes(from)[r.IntN(len(from))]
		how, b := spoil(r, from[suffix])
		if string(b) == string(from[suffix]) {
			count["nothing changed"]++
			continue
		}
		from.write(t, path)
		if err := os.WriteFile(path+suffix, b, 0o644); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s as %v, %q: %s", s.name, s.store, suffix, how)
		if done {
			of := strings.TrimSuffix(path+suffix, ".sha256")
			v, err := Verify(of)
			if err == nil && v.OK {
				t.Errorf("%s: verified", what)
			}
			count[map[bool]string{true: "finished: verify fails to read it", false: "finished: verify finds it"}[err != nil]]++
		}
		j := recordingJob(t, path)
		j.Store, j.Resume, j.Every = s.store, true, time.Hour
		result, err := j.Run(context.Background())
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: error of several lines %q", what, err)
		case err != nil:
			count[map[bool]string{true: "finished: resume refuses", false: "unfinished: refused"}[done]]++
		case done:
			t.Errorf("%s: resumed when complete: %+v", what, result)
		case !readLeft(t, path).same(s.whole):
			t.Errorf("%s: silently wrong: %+v", what, result)
		case result.Note != "":
			count["unfinished: went back, right bytes"]++
		default:
			count["unfinished: went on, right bytes"]++
		}
	}
	t.Logf("%d corruptions: %v", *corruptions, count)
}

func suffixes(l left) []string {
	var all []string
	for s := range l {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// TestSpoiled corrupts each part of each file once, in a place that is known.
func TestSpoiled(t *testing.T) {
	for _, ext := range outputs {
		whole := filepath.Join(t.TempDir(), "out"+ext)
		finished(t, recordingJob(t, whole))
		want := readLeft(t, whole)
		dead := stopped(t, "out"+ext, fp16.Float32, 30) // step 6 of batch 1 is not complete
		for _, c := range []struct {
			suffix string
			at     func(b []byte) int
			want   string // the note, or the error
		}{
			{".resume", func(b []byte) int { return len(b) / 3 }, "its bytes are not those that its hash is of"},
			{".partial", func([]byte) int { return stateAt(t, ext, 2, 1) }, "realization 2, state 1: not the bytes " +
				"that were written, so the run went on from state 0 of engine batch 1"},
			{".partial", func([]byte) int { return stateAt(t, ext, 3, 0) }, "realization 3, state 0: not the bytes " +
				"that were written, so the run went on from the beginning of engine batch 1"},
			{".partial", func([]byte) int { return stateAt(t, ext, 1, 0) },
				"realization 1, state 0: not the bytes that were written, so the run began again"},
			{".tape.partial", func(b []byte) int { return tapeAt(t, 1, 3) }, "engine batch 1, step 3: not the bytes " +
				"that were written, so the run went on from state 2 of engine batch 1"},
		} {
			path := filepath.Join(t.TempDir(), "out"+ext)
			dead.write(t, path)
			b := slices.Clone(dead[c.suffix])
			b[c.at(b)] ^= 4
			if err := os.WriteFile(path+c.suffix, b, 0o644); err != nil {
				t.Fatal(err)
			}
			j := recordingJob(t, path)
			j.Resume = true
			r, err := j.Run(context.Background())
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s%s: error %v, want %q", ext, c.suffix, err, c.want)
				}
				continue
			}
			if !strings.HasSuffix(r.Note, c.want) || !strings.HasPrefix(r.Note, path) {
				t.Errorf("%s%s: note %q, want %q", ext, c.suffix, r.Note, c.want)
			}
			if !readLeft(t, path).same(want) {
				t.Errorf("%s%s: other bytes than the uninterrupted run's", ext, c.suffix)
			}
		}
	}
}

// stateAt returns a place within a state in the partial file of [recordingJob].
func stateAt(t *testing.T, ext string, m, tm int) int {
	j := recordingJob(t, filepath.Join(t.TempDir(), "x"+ext))
	shape := Trajectory{j.Config.Realizations, j.Config.Timesteps, j.stateShape(), nil}
	meta, err := j.metadata()
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.create(shape, meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	switch o := out.(type) {
	case *flat:
		return int(o.records().parts(m*shape.T + tm)[0].at) + 5
	case npyOutput:
		return int(o.records().parts(m*shape.T + tm)[0].at) + 5
	case npz:
		return int(o.records().parts(m*shape.T + tm)[0].at) + 5
	}
	// The chunks of HDF5 follow each other in the order of writing, of no fixed size: the
	// diagnostics have places.
	o := out.(*hdf5Output)
	p, _ := o.w.Place(o.names[0])
	return int(p.At) + 4*(m*shape.T+tm) + 1
}

// tapeAt returns a place within the draws of a step of [recordingJob]'s tape.
func tapeAt(t *testing.T, batch, step int) int {
	j := recordingJob(t, filepath.Join(t.TempDir(), "x.npy"))
	meta, err := j.metadata()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRecorder(j.at(j.Record), j.Operator, j.Config, j.Shape, meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return int(r.records().parts(batch*(j.Config.Timesteps-1) + step - 1)[0].at) + 7
}

// TestTamperedWhileRunning: a partial file that is removed, replaced, cut off or changed
// while the run goes on is noticed, and no finished file comes of it.
func TestTamperedWhileRunning(t *testing.T) {
	for _, ext := range outputs {
		for what, c := range map[string]struct {
			do   func(p string) error
			want string
		}{
			"removed": {os.Remove, "removed or replaced while the run wrote it"},
			"replaced": {func(p string) error { os.Rename(p, p+".old"); return os.WriteFile(p, nil, 0o644) },
				"removed or replaced"},
			"cut": {func(p string) error { return os.Truncate(p, 100) }, ".partial: "},
			"changed": {func(p string) error {
				f, err := os.OpenFile(p, os.O_RDWR, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				b := make([]byte, 1)
				at := int64(stateAt(t, ext, 1, 2))
				f.ReadAt(b, at)
				b[0] ^= 1
				_, err = f.WriteAt(b, at)
				return err
			}, "realization 1, state 2: not the bytes that were written"},
		} {
			for _, every := range []time.Duration{0, time.Hour} {
				path := filepath.Join(t.TempDir(), "out"+ext)
				j := job(t, path, nil)
				if what == "changed" {
					j = recordingJob(t, path) // of which stateAt speaks
				}
				j.Every = every
				j.Sinks = []Sink{sinkFunc(func(tm, m int) error {
					if m == 3 && tm == 2 {
						return c.do(partial(path))
					}
					return nil
				})}
				_, err := j.Run(context.Background())
				var lost *LostError
				if !errors.As(err, &lost) || !strings.Contains(err.Error(), c.want) ||
					lost.Resumable != (what == "changed") && what != "cut" {
					t.Errorf("%s, %s, checkpoints every %v: error %v, want %q", ext, what, every, err, c.want)
				}
				if exists(path) {
					t.Errorf("%s, %s: a finished file", ext, what)
				}
			}
		}
	}
}

// TestSealedCase: a tape and a trajectory that this program wrote are verified where a
// case holds them, without SHA256SUMS too.
func TestSealedCase(t *testing.T) {
	dir := t.TempDir()
	j := job(t, filepath.Join(dir, "trajectory.safetensors"), nil)
	j.Record = filepath.Join(dir, "noise.safetensors")
	finished(t, j)
	text := `{"operator":{"num_layers":1,"base_channels":3,"input_channels":2,"output_channels":2,
	"noise_type":"laplace","noise_scale":0.1},
		"rollout":{"num_timesteps":7,"num_realizations":5,"engine_batch":2},"weights_seed":1}`
	if err := os.WriteFile(filepath.Join(dir, "case.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCase(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"noise.safetensors": "engine batch 1, step 2: the draws",
		"trajectory.safetensors": "realization 2, state 1: the state"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		s, close, err := openSealed(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := s.parts(1*s.count[1] + 1)[0].at
		if name != "noise.safetensors" {
			at = s.parts(2*s.count[1] + 1)[0].at
		}
		close()
		other := slices.Clone(b)
		other[at+2] ^= 1
		os.WriteFile(filepath.Join(dir, name), other, 0o644)
		if _, err := OpenCase(dir); err == nil || !strings.Contains(err.Error(), name+": "+want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
		os.WriteFile(filepath.Join(dir, name), b, 0o644)
	}
}
