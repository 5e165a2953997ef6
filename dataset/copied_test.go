package dataset

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var copiedFlips = flag.Int("dataset.flips", 3,
	"bits that TestCopiedAsMade changes of each kind of unit, in each form of a copy")

// copies are all forms in which units are copied.
var copies = map[string]func(p *Dataset, dir string) error{
	"merge .safetensors": func(p *Dataset, dir string) error {
		_, err := p.Merge(filepath.Join(dir, "all.safetensors"), 4, nil)
		return err
	},
	"merge .h5": func(p *Dataset, dir string) error {
		_, err := p.Merge(filepath.Join(dir, "all.h5"), 4, nil)
		return err
	},
	"export well": func(p *Dataset, dir string) error {
		return p.Export(filepath.Join(dir, "well"), Layout{Format: "well", Gzip: 1, Split: [3]int{1, 1, 1}})
	},
	"export zarr": func(p *Dataset, dir string) error {
		return p.Export(filepath.Join(dir, "zarr"), Layout{Format: "zarr", Gzip: 1})
	},
	"export safetensors": func(p *Dataset, dir string) error {
		return p.Export(filepath.Join(dir, "apart"), Layout{Format: "safetensors"})
	},
}

// TestCopiedAsMade: a unit with a changed bit anywhere, cut off, made longer, or another unit's
// file in its place is in no copy: the error names the unit, and a merged file is not there.
func TestCopiedAsMade(t *testing.T) {
	kinds := map[string]*Dataset{}
	for _, store := range []string{
		`{}`, `{"file":".h5"}`, `{"file":".h5","gzip":1}`, `{"states":false}`, `{"states":false,"file":".h5"}`,
	} {
		kinds[store] = made(t, store)
	}
	for _, kind := range []string{"safetensors", "h5"} { // before there were seals
		dir := filepath.Join(t.TempDir(), kind)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "unsealed", kind))); err != nil {
			t.Fatal(err)
		}
		p, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		kinds["unsealed "+kind] = p
	}
	n := 0
	for kind, p := range kinds {
		path := p.place(1)
		whole, err := os.ReadFile(path)
		other, e := os.ReadFile(p.place(0))
		if err != nil || e != nil {
			t.Fatal(err, e)
		}
		for form, copied := range copies {
			if err := copied(p, t.TempDir()); err != nil {
				t.Fatalf("%s: %s: %v", kind, form, err)
			}
			bad := [][]byte{other, whole[:len(whole)-1], whole[:len(whole)/2], nil, append(slices.Clone(whole), 0),
				make([]byte, len(whole))}
			for k := range *copiedFlips {
				bad = append(bad, flipped(whole, (2*k+1)*len(whole)/(2**copiedFlips)))
			}
			for _, b := range append(bad, flipped(whole, 0), flipped(whole, len(whole)-1)) {
				if err := os.WriteFile(path, b, 0o666); err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				err := copied(p, dir)
				if err == nil || !strings.Contains(err.Error(), "unit 1: ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %s: error %v, want one that names unit 1", kind, form, err)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "all.*")); left != nil {
					t.Errorf("%s: %s: left %v", kind, form, left)
				}
				n++
			}
			if err := os.WriteFile(path, whole, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d copies of a unit that was not as it was made", n)
}
