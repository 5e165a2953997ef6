package rollout

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryBit changes a bit of each byte of a file in turn, of HDF5 files of every fifth one: none goes by unseen, one
// in a state or in its diagnostics is named by the state, and the file has another seal, if it has one. So it was when
// states had a SHA-256 each: ../dataset/testdata/unsealed.
func TestEveryBit(t *testing.T) {
	dir := t.TempDir()
	old := func(name string) string { return filepath.Join("../dataset/testdata/unsealed", name) }
	for _, ext := range []string{".safetensors", ".h5", ".hdf5"} {
		path := filepath.Join(dir, "new"+ext)
		finished(t, job(t, path, func(c *Case) { c.Rollout.Timesteps, c.Rollout.Realizations = 2, 2 }))
		everyBit(t, path)
	}
	for _, from := range []string{old("safetensors/units/00000/00000000.safetensors"), old("h5/units/00000/00000000.h5")} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "old"+filepath.Ext(from))
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		everyBit(t, path)
	}
}

func everyBit(t *testing.T, path string) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	right, err := Verify(path)
	if err != nil || !right.OK || right.Seal == "" || right.Digest == "" {
		t.Fatalf("%s: %+v, %v", path, right, err)
	}
	s, close, err := openSealed(path)
	if err != nil {
		t.Fatal(err)
	}
	close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := 1
	if s.packed != nil { // larger files
		step = 5
	}
	for at := 0; at < len(whole); at += step {
		b := whole[at]
		if _, err := f.WriteAt([]byte{b ^ 1<<(at%8)}, int64(at)); err != nil {
			t.Fatal(err)
		}
		named := -1
		for i := range s.count[0] * s.count[1] {
			for _, e := range s.parts(i) {
				if int64(at) >= e.at && int64(at) < e.at+e.n {
					named = i
				}
			}
		}
		v, err := Verify(path)
		if err == nil && (v.OK || named >= 0 && (len(v.Differ) == 0 || !strings.HasPrefix(v.Differ[0], s.call(named)+":"))) {
			t.Errorf("%s: byte %d: %+v, of record %d", filepath.Base(path), at, v, named)
		}
		if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	// A state with which CRC and seal have been made to agree is found by the digest.
	if s.crc && s.packed == nil {
		bad := slices.Clone(whole)
		e := s.parts(0)
		bad[e[0].at]++
		var parts [][]byte
		for _, e := range e {
			parts = append(parts, bad[e.at:e.at+e.n])
		}
		is := crcOf(parts...)
		copy(bad[s.table:], is[:crcSize])
		seal, err := rest(path, bytes.NewReader(bad), int64(len(bad)), slices.Clone(s.kept))
		if err != nil {
			t.Fatal(err)
		}
		copy(bad[s.sealAt.at:], seal[:])
		if err := os.WriteFile(path, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(path); err != nil || !slices.Equal(v.Differ, []string{"its digest"}) {
			t.Errorf("a state, its CRC and the seal: %+v, %v", v, err)
		}
	}
}
