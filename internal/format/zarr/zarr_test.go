package zarr

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// open takes the CRC-32C off bytes.
func open(t *testing.T, b []byte) []byte {
	t.Helper()
	n := len(b) - 4
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		t.Fatalf("%d bytes with another CRC-32C", len(b))
	}
	return b[:n]
}

// TestShard writes an array of 3 rows in files of 2, and reads it as the specification says:
// the second file lacks its last pieces. What zarr-python and xarray read is compared by
// interop/datasets/readers.py.
func TestShard(t *testing.T) {
	for _, level := range []int{0, 5} {
		dir := t.TempDir()
		a := &Array{Shape: []int{3, 4, 5}, Type: fp16.Float16, Rows: 2, Piece: []int{1, 2, 5}, Gzip: level,
			Names: []string{"a", "b", "c"}}
		if a.Files() != 2 {
			t.Fatal(a.Files())
		}
		for k := range 2 {
			err := a.WriteFile(dir, "x", k, func(put func([]float64) error) error {
				for i := range min(4, 6-4*k) {
					v := make([]float64, 10)
					for j := range v {
						v[j] = float64(100*k + 10*i + j)
					}
					if err := put(v); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, "x", "c", fmt.Sprint(k), "0", "0"))
			if err != nil {
				t.Fatal(err)
			}
			index := open(t, b[len(b)-68:])
			for i := range 4 {
				at, n := binary.LittleEndian.Uint64(index[16*i:]), binary.LittleEndian.Uint64(index[16*i+8:])
				if k == 1 && i > 1 {
					if at != math.MaxUint64 || n != math.MaxUint64 {
						t.Errorf("piece %d beyond the array is at %d", i, at)
					}
					continue
				}
				raw := open(t, b[at:at+n])
				if level > 0 {
					z, err := gzip.NewReader(bytes.NewReader(raw))
					if err != nil {
						t.Fatal(err)
					}
					if raw, err = io.ReadAll(z); err != nil {
						t.Fatal(err)
					}
				}
				v := make([]float64, 10)
				fp16.Float16.Decode(v, raw)
				if v[9] != float64(100*k+10*i+9) {
					t.Errorf("file %d, piece %d: %v", k, i, v)
				}
			}
		}
		err := a.WriteFile(dir, "x", 0, func(put func([]float64) error) error { return put(make([]float64, 9)) })
		if err == nil {
			t.Error("a piece of 9 numbers")
		}
	}
}

// TestWhole: a file of one piece is filled up with zeros; what it was before an error stays.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	a := &Array{Shape: []int{3, 2}, Type: fp16.Float64, Rows: 4, Names: []string{"a", "b"},
		Attributes: map[string]any{"unit": "1"}}
	fill := func(n int, err error) error {
		return a.WriteFile(dir, "y", 0, func(put func([]float64) error) error {
			if e := put(slices.Repeat([]float64{7}, n)); e != nil {
				return e
			}
			return err
		})
	}
	if err := fill(6, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "y", "c", "0", "0")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, 8)
	fp16.Float64.Decode(v, open(t, b))
	if !slices.Equal(v, []float64{7, 7, 7, 7, 7, 7, 0, 0}) {
		t.Errorf("%v", v)
	}
	for _, err := range []error{fill(9, nil), fill(2, errors.New("x"))} {
		if err == nil {
			t.Error("written")
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
		t.Errorf("changed: %v", err)
	}
	if err := WriteRoot(dir, map[string]any{"name": "n"}, map[string]*Array{"y": a}); err != nil {
		t.Fatal(err)
	}
	var root struct {
		Format       int            `json:"zarr_format"`
		Attributes   map[string]any `json:"attributes"`
		Consolidated struct {
			Metadata map[string]json.RawMessage `json:"metadata"`
		} `json:"consolidated_metadata"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "zarr.json"))
	if err == nil {
		err = json.Unmarshal(text, &root)
	}
	if err != nil || root.Format != 3 || root.Attributes["name"] != "n" || len(root.Consolidated.Metadata) != 1 {
		t.Errorf("%v: %s", err, text)
	}
}
