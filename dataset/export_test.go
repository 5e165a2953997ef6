package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// made plans and makes five operators with a store.
func made(t *testing.T, store string) *Dataset {
	t.Helper()
	text := strings.Replace(own, `"operators":40`, `"operators":5`, 1)
	p := plan(t, strings.Replace(text, `"space":`, `"store":`+store+`,"space":`, 1), 2)
	shard(t, p, Shard{0, 1}, 2)
	return p
}

// TestExport writes all layouts. Their numbers are compared by the programs that they are for,
// in interop/datasets/readers.py; here it is which files there are, and those that Go reads.
func TestExport(t *testing.T) {
	p := made(t, `{"file":".h5","gzip":1}`)
	dir := t.TempDir()
	steps := 0
	for _, format := range Formats {
		l := Layout{Format: format, Gzip: 1, Split: [3]int{3, 1, 1}, Progress: func(done, total int) { steps++ }}
		if err := p.Export(filepath.Join(dir, format), l); err != nil {
			t.Fatal(err)
		}
	}
	if steps == 0 {
		t.Error("no progress")
	}
	for part, n := range map[string]int{"train": 3, "valid": 1, "test": 1} {
		f, err := hdf5.Open(filepath.Join(dir, "well", "data", part, "t.h5"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Dataset("/trajectories")
		if err != nil || d.Shape[0] != n {
			t.Errorf("%s: %v, %v operators", part, err, d.Shape)
		}
		if v, err := f.Attr("/", "n_trajectories"); err != nil || v != int64(2*n) {
			t.Errorf("%s: %v, %v trajectories", part, err, v)
		}
		f.Close()
	}
	for i := range 5 {
		for _, path := range []string{
			fmt.Sprintf("zarr/trajectories/c/%d/0/0/0/0/0", i), fmt.Sprintf("safetensors/%08d.safetensors", i),
		} {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path))); err != nil {
				t.Error(err)
			}
		}
	}
	f, err := safetensors.Open(filepath.Join(dir, "safetensors", "00000003.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.Unit(3)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"parameters": u.Point, "values": u.Values} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := x.Float64s(); err != nil || !slices.Equal(v, want) {
			t.Errorf("%s: %v, want %v", name, v, want)
		}
	}
	for want, l := range map[string]Layout{
		`--format: "npy": want well, zarr or safetensors`:                   {Format: "npy"},
		`--gzip: 10: want a level from 1 to 9, or 0 for none`:               {Format: "zarr", Gzip: 10},
		`--split: [0 0 0]: want three numbers of 0 or more, such as 8,1,1`:  {Format: "well"},
		`--split: [2 -1 1]: want three numbers of 0 or more, such as 8,1,1`: {Format: "well", Split: [3]int{2, -1, 1}},
	} {
		if err := p.Export(filepath.Join(dir, "x"), l); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLevels: another level of compression makes other files of the same numbers.
func TestLevels(t *testing.T) {
	size := map[string]int64{}
	digests := map[string]string{}
	for _, level := range []string{"1", "9"} {
		p := made(t, `{"file":".h5","gzip":`+level+`}`)
		for i := range 5 {
			r, err := p.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			size[level] += r.Bytes
			digests[level] += r.Digest
		}
	}
	if size["1"] == size["9"] || digests["1"] != digests["9"] {
		t.Errorf("%v bytes", size)
	}
}

// TestFeatures makes datasets that do not keep the states: the diagnostics and the digests of
// the states are those of the dataset that keeps them, also if it is interrupted.
func TestFeatures(t *testing.T) {
	whole := made(t, `{}`)
	text := strings.Replace(own, `"operators":40`, `"operators":5`, 1)
	for _, store := range []string{`{"states":false}`, `{"states":false,"file":".h5"}`} {
		p := plan(t, strings.Replace(text, `"space":`, `"store":`+store+`,"space":`, 1), 2)
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err := p.Make(ctx, Run{Units: Shard{0, 1}.Units(p.Costs()), Workers: 2, Version: "test"})
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if p.Identity != whole.Identity {
			t.Error("the identity is that of the numbers")
		}
		for i := range 5 {
			a, err := whole.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Record(i)
			if err != nil || b.Digest != a.Digest || store == `{"states":false}` && b.Bytes >= a.Bytes {
				t.Fatalf("%v: %+v and %+v", err, a, b)
			}
			for _, left := range []string{".measures.partial", ".measures.resume"} {
				if _, err := os.Stat(filepath.Join(p.Dir, base(i)) + left); err == nil {
					t.Errorf("unit %d: %s is left", i, left)
				}
			}
			for _, name := range rollout.DiagnosticNames {
				v := [2][8]float64{}
				for k, q := range []*Dataset{whole, p} {
					s, err := q.open(i)
					if err == nil {
						err = s.read(name, 0, v[k][:])
						s.close()
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if fmt.Sprint(v[0]) != fmt.Sprint(v[1]) {
					t.Errorf("unit %d: %s: %v", i, name, v)
				}
			}
		}
		out, err := p.Verify(context.Background(), Check{Read: true, Recompute: 2})
		if err != nil || len(out.Faults) > 0 {
			t.Fatalf("%v: %+v", err, out)
		}
		for _, file := range []string{"all.safetensors", "all.h5"} {
			if _, err := p.Merge(filepath.Join(t.TempDir(), file), 4, nil); err != nil {
				t.Error(err)
			}
		}
		if err := p.Export(filepath.Join(t.TempDir(), "z"), Layout{Format: "zarr"}); err != nil {
			t.Error(err)
		}
		if _, err := p.State(0, 0, 0, 0); err == nil || !strings.HasSuffix(err.Error(), "want one that keeps them") {
			t.Errorf("%v", err)
		}
	}
	if _, err := whole.State(0, 2, 0, 0); err == nil || err.Error() != "realization 2 of unit 0: want 0 to 1" {
		t.Errorf("%v", err)
	}
	if v, err := whole.State(1, 1, 0, 2); err != nil || len(v) != 64 {
		t.Errorf("%v, %d numbers", err, len(v))
	}
}
