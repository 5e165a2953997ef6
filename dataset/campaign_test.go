package dataset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// plan plans a specification in a folder of its own.
func plan(t *testing.T, text string, shards int) *Dataset {
	t.Helper()
	s, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(s, "f", filepath.Join(t.TempDir(), "set"), shards, 10, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(); err != nil {
		t.Fatal(err)
	}
	if p, err = Open(p.Dir); err != nil {
		t.Fatal(err)
	}
	return p
}

// sums returns the SHA-256 of the merged data and of the manifest.
func sums(t *testing.T, p *Dataset) string {
	t.Helper()
	data, err := p.Merge(filepath.Join(t.TempDir(), "all.safetensors"), 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := p.WriteManifest()
	if err != nil {
		t.Fatal(err)
	}
	return data + " " + manifest
}

// shard makes one shard of a plan.
func shard(t *testing.T, p *Dataset, s Shard, workers int) {
	t.Helper()
	if _, err := p.Make(context.Background(),
		Run{Units: s.Units(p.Costs()), Workers: workers, Version: "test"}); err != nil {
		t.Fatal(err)
	}
}

// TestShards makes one dataset in 1, 7 and 20 shards in any order, and by a run that is
// stopped again and again: the data and the manifest are the same bytes.
func TestShards(t *testing.T) {
	one := plan(t, own, 16)
	last := 0.
	_, err := one.Make(context.Background(),
		Run{Units: Shard{0, 1}.Units(one.Costs()), Workers: 2, Version: "test", Progress: func(at Progress) {
			if at.Share < last-1e-12 || len(at.At) > 2 {
				t.Errorf("%+v after %v of the work", at, last)
			}
			last = at.Share
		}})
	if err != nil || last < 0.999 {
		t.Errorf("%v: %v of the work is done in the end", err, last)
	}
	want := sums(t, one)
	for _, n := range []int{7, 20} {
		p := plan(t, own, n)
		for _, k := range rand.Perm(n) {
			shard(t, p, Shard{k, n}, 1+k%3)
		}
		if got := sums(t, p); got != want {
			t.Errorf("%d shards: %s, want %s", n, got, want)
		}
	}
	p := plan(t, own, 1)
	stops := 0
	for {
		// A slow machine gets more time, the longer it takes.
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rand.IntN(30+stops))*time.Millisecond)
		_, err := p.Make(ctx, Run{Units: Shard{0, 1}.Units(p.Costs()), Workers: 2, Version: "test"})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if stops++; stops > 1000 {
			t.Fatal("it does not come to an end")
		}
	}
	if got := sums(t, p); got != want {
		t.Errorf("stopped %d times: %s, want %s", stops, got, want)
	}
	// Once more: there is nothing to do.
	m, err := p.Make(context.Background(), Run{Units: []int{3, 4}, Workers: 1})
	if err != nil || m.Were != 2 || m.Made != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestVerify changes a bit of unit files, records, the manifest and the plan: each time the
// unit is named, or what is wrong with the plan.
func TestVerify(t *testing.T) {
	p := plan(t, strings.Replace(own, `"operators":40`, `"operators":12`, 1), 4)
	shard(t, p, Shard{0, 1}, 2)
	if _, err := p.WriteManifest(); err != nil {
		t.Fatal(err)
	}
	verify := func(c Check) *Checked {
		t.Helper()
		out, err := p.Verify(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := verify(Check{Read: true, Recompute: 4}); len(out.Faults) > 0 || out.Recomputed != 4 || out.Read != 12 ||
		out.Manifest == "" {
		t.Fatalf("%+v", out)
	}
	names := func(path string, i int, c Check) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			at := rand.IntN(len(b))
			if err := os.WriteFile(path, flipped(b, at), 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := p.Verify(context.Background(), c)
			if err != nil || len(out.Faults) != 1 || out.Faults[0].Unit != i {
				t.Errorf("%s: byte %d: %v, %+v", path, at, err, out)
			}
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 5, 11} {
		names(filepath.Join(p.Dir, p.Path(i)), i, Check{Read: true})
		names(filepath.Join(p.Dir, base(i)+".json"), i, Check{Read: true, Recompute: 12})
	}
	// Files that are right in themselves, in each other's place.
	swap := func() {
		two, three, aside := p.place(2), p.place(3), filepath.Join(p.Dir, "aside")
		if err := errors.Join(os.Rename(two, aside), os.Rename(three, two), os.Rename(aside, three)); err != nil {
			t.Fatal(err)
		}
	}
	swap()
	out := verify(Check{Read: true})
	if len(out.Faults) != 2 || out.Faults[0].Unit != 2 || out.Faults[1].Unit != 3 ||
		!strings.Contains(out.Faults[0].What, ": seal ") {
		t.Errorf("two units in each other's place: %+v", out.Faults)
	}
	swap()
	linesNamed(t, p)
	path := filepath.Join(p.Dir, headName)
	head, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 32 {
		if err := os.WriteFile(path, flipped(head, rand.IntN(len(head))), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(p.Dir); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", headName, err)
		}
	}
	if err := os.WriteFile(path, head, 0o666); err != nil {
		t.Fatal(err)
	}
	// A unit that is gone is missing, and is made anew to the same bytes.
	before := sums(t, p)
	os.Remove(filepath.Join(p.Dir, p.Path(7)))
	if m := p.Missing(); !slices.Equal(m, []int{7}) {
		t.Errorf("missing %v", m)
	}
	if out := verify(Check{}); len(out.Faults) != 1 || out.Faults[0].Unit != 7 ||
		!strings.HasSuffix(out.Faults[0].What, "missing") {
		t.Errorf("%+v", out.Faults)
	}
	if _, err := p.Merge(filepath.Join(t.TempDir(), "x.safetensors"), 4, nil); err == nil ||
		!strings.Contains(err.Error(), "1 of 12 units missing, the first is 7") {
		t.Errorf("%v", err)
	}
	shard(t, p, Shard{0, 1}, 1)
	if got := sums(t, p); got != before {
		t.Errorf("%s, want %s", got, before)
	}
}

// flipped returns bytes with a bit of one changed.
func flipped(b []byte, at int) []byte {
	bad := slices.Clone(b)
	bad[at] ^= 1 << rand.IntN(8)
	return bad
}

// linesNamed changes a bit of the manifest and of the plan's lines, the end of a line among
// them: the unit whose line it is is named, and the next one if two lines became one.
func linesNamed(t *testing.T, p *Dataset) {
	t.Helper()
	for _, name := range []string{manifestName, linesName} {
		path := filepath.Join(p.Dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 32 {
			at := rand.IntN(len(b))
			if k == 0 {
				at = strings.IndexByte(string(b), '\n')
			}
			if err := os.WriteFile(path, flipped(b, at), 0o666); err != nil {
				t.Fatal(err)
			}
			var units []int
			if name == manifestName {
				out, err := p.Verify(context.Background(), Check{})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range out.Faults {
					units = append(units, f.Unit)
				}
			} else if damaged := new(Damaged); true {
				if _, err := Open(p.Dir); !errors.As(err, &damaged) {
					t.Fatalf("%v", err)
				}
				units = damaged.Units
			}
			want := []int{strings.Count(string(b[:at]), "\n")}
			if b[at] == '\n' && want[0]+1 < len(p.Lines) {
				want = append(want, want[0]+1)
			}
			if !slices.Equal(units, want) {
				t.Errorf("%s: byte %d: units %v, want %v", name, at, units, want)
			}
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(p.Dir, manifestName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(slices.Clone(b), "{}\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(context.Background(), Check{}); err == nil ||
		!strings.Contains(err.Error(), "lines that are no unit's") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestMerge merges units of safetensors and of HDF5 into files of both types, whose states
// are those of the units.
func TestMerge(t *testing.T) {
	text := strings.Replace(own, `"operators":40`, `"operators":5`, 1)
	a := plan(t, text, 4)
	b := plan(t, strings.Replace(text, `"space":`, `"store":{"file":".h5"},"space":`, 1), 4)
	shard(t, a, Shard{0, 1}, 2)
	shard(t, b, Shard{0, 1}, 2)
	states := map[string]string{}
	for i, p := range []*Dataset{a, b} {
		for _, ext := range []string{".safetensors", ".h5"} {
			path := filepath.Join(t.TempDir(), "all"+ext)
			sum, err := p.Merge(path, 4, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := p.Merge(filepath.Join(t.TempDir(), "all"+ext), 4, nil)
			if err != nil || again != sum {
				t.Fatalf("%v, %s and %s", err, sum, again)
			}
			key := fmt.Sprint(i, ext)
			if ext == ".h5" {
				f, err := hdf5.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				d, err := f.Dataset("/trajectories")
				if err != nil {
					t.Fatal(err)
				}
				v, err := d.At()
				if err != nil {
					t.Fatal(err)
				}
				states[key] = fmt.Sprint(v)
				if d, err = f.Dataset("/inputs/fields"); err != nil {
					t.Fatal(err)
				}
				first, err := d.At(3)
				if err != nil {
					t.Fatal(err)
				}
				m, steps, n := d.Shape[0], 4, len(first)
				if m != 5 || !slices.Equal(first, v[3*2*steps*n:3*2*steps*n+n]) {
					t.Errorf("%s: the inputs are not the first states", key)
				}
				continue
			}
			f, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			x, err := f.Tensor("trajectories")
			if err != nil {
				t.Fatal(err)
			}
			v, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			states[key] = fmt.Sprint(v)
			// The digest of a unit's record is that of its part.
			d := rollout.NewDigest(fp16.Float32, 2, 4, 3, 8, 8)
			for k := range 8 {
				d.Add(k/4, v[(2*8+k)*192:(2*8+k+1)*192])
			}
			if r, err := p.Record(2); err != nil || r.Digest != d.Hex() {
				t.Errorf("%s: %v, digest of unit 2 %s", key, err, d.Hex())
			}
		}
	}
	for key, v := range states {
		if v != states["0.safetensors"] {
			t.Errorf("%s: the states are others", key)
		}
	}
	mixed := plan(t, strings.Replace(own, `"space":{`, `"space":{"operator.grid_size":{"choice":[8,16]},`, 1), 4)
	if _, err := mixed.same(); err == nil || !strings.Contains(err.Error(), "want [2 4 3 ") {
		t.Errorf("%v", err)
	}
}

// TestPlanWrite holds that a plan stays what it is.
func TestPlanWrite(t *testing.T) {
	p := plan(t, own, 4)
	if err := p.Write(); err != nil {
		t.Errorf("the same plan: %v", err)
	}
	s, err := Parse("f", []byte(strings.Replace(own, `"seed":3`, `"seed":5`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(s, "f", p.Dir, 4, 10, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Write(); err == nil || !strings.Contains(err.Error(), "another plan: want a folder without one") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(p.Dir, headName)
	b, _ := os.ReadFile(path)
	for from, want := range map[string]string{
		`"plan": 1`:   "plan: 2: want 1",
		`"units": 40`: "not the bytes that were written",
	} {
		to := strings.Replace(strings.Replace(from, "1", "2", 1), "40", "41", 1)
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(p.Dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil ||
		!strings.HasSuffix(err.Error(), "want a folder that refrun dataset plan made") {
		t.Errorf("%v", err)
	}
}

// makespan returns when the last of workers is done that take shards in order as they
// become free, over the time that all of them would take if work could be split at will.
func makespan(shards []float64, speed []float64) float64 {
	busy := make([]float64, len(speed))
	all, rate := 0.0, 0.0
	for _, s := range speed {
		rate += s
	}
	for _, s := range shards {
		w := 0
		for k := range busy {
			if busy[k] < busy[w] {
				w = k
			}
		}
		busy[w] += s / speed[w]
		all += s
	}
	return slices.Max(busy) / (all / rate)
}

// TestBalance cuts the costs of Spinlock's space for 64 workers into 16 shards for each:
// workers that take the next shard end at most 1.05 times later than work that could
// be split at will would, and 1.1 times if the predictions are 30 % wrong and
// four workers have half the speed.
func TestBalance(t *testing.T) {
	const workers, each = 64, 16
	s, err := Parse("f", []byte(strings.Replace(temporal, `"total_samples":16384`, `"total_samples":10000`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p, err := New(s, "f", "none", workers*each, 10, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("planned %d units in %v", len(p.Lines), time.Since(began))
	costs := p.Costs()
	r := rand.New(rand.NewPCG(1, 2))
	wrong := make([]float64, len(costs))
	for i, c := range costs {
		wrong[i] = c * (1 + 0.3*(2*r.Float64()-1))
	}
	equal, uneven := make([]float64, workers), make([]float64, workers)
	for i := range equal {
		equal[i], uneven[i] = 1, 1
		if i < 4 {
			uneven[i] = .5
		}
	}
	_, of := assign(costs, workers*each)
	shards := func(real []float64) []float64 {
		sums := make([]float64, workers*each)
		for i, c := range real {
			sums[of[i]] += c
		}
		return sums
	}
	// No shard is larger than it must be: an equal part, or the largest unit alone.
	all := 0.0
	for _, c := range costs {
		all += c
	}
	if got, most := slices.Max(shards(costs)), max(slices.Max(costs), 1.02*all/workers/each); got > most {
		t.Errorf("the largest shard takes %.4g GFLOP, want at most %.4g", got, most)
	}
	balanced := slices.Clone(of)
	for _, other := range []struct {
		name string
		of   func(i int) int
	}{
		{"stride", func(i int) int { return i % (workers * each) }},
		{"contiguous", func(i int) int { return i * workers * each / len(costs) }},
		{"balanced", func(i int) int { return balanced[i] }},
	} {
		for i := range of {
			of[i] = other.of(i)
		}
		t.Logf("%s: equal workers %.3f of ideal, uneven ones and wrong predictions %.3f",
			other.name, makespan(shards(costs), equal), makespan(shards(wrong), uneven))
	}
	if got := makespan(shards(costs), equal); got > 1.05 {
		t.Errorf("equal workers: %.3f of ideal, want at most 1.05", got)
	}
	if got := makespan(shards(wrong), uneven); got > 1.1 {
		t.Errorf("uneven workers: %.3f of ideal, want at most 1.1", got)
	}
}

// TestShardIndex holds which shard each system's variables mean.
func TestShardIndex(t *testing.T) {
	for _, c := range []struct {
		text, env string
		offset    int
		want      string
	}{
		{"", "", 0, "{0 1}"},
		{"3/8", "SLURM_ARRAY_TASK_ID=5", 0, "{3 8}"},
		{"auto", "SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=2", 0, "{5 100}"},
		{"auto", "SLURM_ARRAY_TASK_ID=5", 90, "{95 100}"},
		{"auto", "JOB_COMPLETION_INDEX=0", 0, "{0 100}"},
		{"auto", "PBS_ARRAY_INDEX=7", 0, "{7 100}"},
		{"auto", "PBS_ARRAYID=7", 0, "{7 100}"},
		{"auto", "LSB_JOBINDEX=1", 0, "{0 100}"},
		{"auto", "LSB_JOBINDEX=0 JOB_COMPLETION_INDEX=4", 0, "{4 100}"},
		{"auto", "SGE_TASK_ID=100", 0, "{99 100}"},
		{"", "SGE_TASK_ID=undefined", 0, "{0 1}"}, // what it says outside an array
		{"auto", "AWS_BATCH_JOB_ARRAY_INDEX=99", 0, "{99 100}"},
		{"auto", "PARALLEL_SEQ=100", 0, "{99 100}"},
		{"", "PARALLEL_SEQ=100", 0, "--shard: missing, and $PARALLEL_SEQ is set: want auto, or i/n"},
		{"auto", "", 0, "--shard: auto: no scheduler's index in the environment"},
		{"auto", "LSB_JOBINDEX=0", 0, "--shard: auto: no scheduler's index in the environment"},
		{"auto", "PARALLEL_SEQ=1 SLURM_ARRAY_TASK_ID=1", 0, "--shard: auto: $SLURM_ARRAY_TASK_ID and $PARALLEL_SEQ are set"},
		{"auto", "PARALLEL_SEQ=101", 0, "$PARALLEL_SEQ: shard 100: want 0 to 99, for the plan has 100 shards"},
		{"auto", "PARALLEL_SEQ=0", 0, `$PARALLEL_SEQ: "0": want an index from 1`},
		{"auto", "SLURM_ARRAY_TASK_ID=x", 0, `$SLURM_ARRAY_TASK_ID: "x": want an index from 0`},
		{"8/8", "", 0, `--shard: "8/8": want auto, or i/n`},
		{"-1/8", "", 0, `--shard: "-1/8": want auto, or i/n`},
		{"1", "", 0, `--shard: "1": want auto, or i/n`},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		s, err := ParseShard(c.text, 100, c.offset, func(name string) string { return env[name] })
		got := fmt.Sprint(s)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, %s: %s, want %s", c.text, c.env, got, c.want)
		}
	}
}

// lockless is a file system without locks.
type lockless struct{ disk.System }

type unlocked struct{ disk.File }

func (unlocked) Fd() uintptr { return ^uintptr(0) }

func (s lockless) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := s.System.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unlocked{f}, nil
}

// TestLockless: three runs of the same units at once, with no lock between them, make the same
// dataset as one. Who loses a unit is told so, and goes on with the same call.
func TestLockless(t *testing.T) {
	for _, file := range []string{".safetensors", ".h5"} {
		text := strings.Replace(own, `"operators":40`, fmt.Sprintf(`"operators":5,"store":{"file":%q}`, file), 1)
		alone := plan(t, text, 1)
		shard(t, alone, Shard{0, 1}, 2)
		want := sums(t, alone)
		restore := disk.Use(lockless{disk.Operating()})
		p := plan(t, text, 1)
		lost := make(chan int, 3)
		for range cap(lost) {
			go func() {
				n := 0
				for ; n < 1000; n++ {
					m, err := p.Make(context.Background(), Run{Units: Shard{0, 1}.Units(p.Costs()), Workers: 2, Version: "test"})
					if err == nil && len(m.Busy) == 0 {
						break
					}
					if err != nil && !errors.As(err, new(*rollout.LostError)) {
						t.Errorf("%v", err)
						break
					}
				}
				lost <- n
			}()
		}
		all := 0
		for range cap(lost) {
			all += <-lost
		}
		restore()
		t.Logf("%s: %d times a unit was lost to another run", file, all)
		if got := sums(t, p); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// TestCard holds that the card says the same whoever made the folder, by which identity and
// hash it is known, and that a README.md of somebody's own stays.
func TestCard(t *testing.T) {
	var texts [2][]byte
	for k := range texts {
		p := plan(t, strings.Replace(own, `"operators":40`, `"operators":2`, 1), 1+k)
		shard(t, p, Shard{0, 1 + k}, 1)
		shard(t, p, Shard{k, 1 + k}, 1)
		sum, err := p.WriteManifest()
		if err == nil {
			err = p.WriteCard(sum)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.Dir, cardName)
		if texts[k], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{p.Identity, sum, p.Name, `"operators": 2`, "refrun.Dataset"} {
			if !strings.Contains(string(texts[k]), want) {
				t.Errorf("no %q in %s", want, texts[k])
			}
		}
		for _, c := range []struct{ was, want string }{{"# mine\n", "# mine\n"}, {cardLead + "old", string(texts[k])}} {
			if err := os.WriteFile(path, []byte(c.was), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := p.WriteCard(sum); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
				t.Errorf("%q became %.60q, %v", c.was, got, err)
			}
		}
	}
	if string(texts[0]) != string(texts[1]) {
		t.Errorf("two shards:\n%s\none:\n%s", texts[1], texts[0])
	}
}

// TestManifestKept holds that a manifest that says what the records say is left alone, as one in
// a folder that may only be read must be.
func TestManifestKept(t *testing.T) {
	p := plan(t, strings.Replace(own, `"operators":40`, `"operators":2`, 1), 1)
	shard(t, p, Shard{0, 1}, 1)
	path := filepath.Join(p.Dir, manifestName)
	stat := func() os.FileInfo {
		t.Helper()
		if _, err := p.WriteManifest(); err != nil {
			t.Fatal(err)
		}
		is, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	first := stat()
	if !os.SameFile(first, stat()) {
		t.Error("written anew, though nothing changed")
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if is := stat(); is.Size() != first.Size() {
		t.Errorf("%d bytes, want %d", is.Size(), first.Size())
	}
}
