package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/format/hdf5"
)

// zerosHDF5 is a dataset of zeros in compressed chunks, of which each is small.
func zerosHDF5(t testing.TB, shape, chunk []int) []byte {
	t.Helper()
	return writtenHDF5(t, shape, chunk, nil)
}

// goodHDF5 is a trajectory [1,1,4,3,4,4] in four chunks.
func goodHDF5(t testing.TB) []byte {
	t.Helper()
	return writtenHDF5(t, []int{1, 1, 4, 3, 4, 4}, []int{1, 1, 1, 3, 4, 4}, func(i int) float64 { return float64(i) })
}

// writtenHDF5 is a dataset /trajectories in whole chunks, all with the same elements, zeros if element is nil.
func writtenHDF5(t testing.TB, shape, chunk []int, element func(i int) float64) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "written.h5"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := hdf5.Create(f,
		[]hdf5.Spec{{Path: "/trajectories", Type: hdf5.Float32, Shape: shape, Chunk: chunk, Gzip: 1, Shuffle: true}})
	if err != nil {
		t.Fatal(err)
	}
	n := 1
	for _, d := range chunk {
		n *= d
	}
	values, at := make([]float64, n), make([]int, len(shape))
	for i := range values {
		if element != nil {
			values[i] = element(i)
		}
	}
	for more := true; more; {
		if err := w.Write("/trajectories", at, values); err != nil {
			t.Fatal(err)
		}
		more = false
		for i := len(at) - 1; i >= 0 && !more; i-- {
			if at[i] += chunk[i]; at[i] < shape[i] {
				more = true
			} else {
				at[i] = 0
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hostileHDF5 adds files in which one thing was changed since a writer made them.
func hostileHDF5(t *testing.T, add func(ext string, data []byte)) {
	t.Helper()
	for _, name := range []string{"default", "latest", "edges108", "edges110", "refused"} {
		b, err := os.ReadFile(filepath.Join(clitest.Root, "internal/format/hdf5/testdata", name+".h5"))
		if err != nil {
			t.Fatal(err)
		}
		for _, cut := range []int{0, 8, 48, 95, len(b) / 2, len(b) - 1} {
			add(".h5", b[:cut])
		}
		if strings.HasPrefix(name, "edges") || name == "refused" {
			add(".h5", b) // without a dataset of that name
		}
	}
	le := binary.LittleEndian
	good := goodHDF5(t)
	dims, chunk := []byte("\x01\x06\x00\x00\x00\x00\x00\x00"), []byte(nil)
	for _, d := range []uint64{1, 1, 4, 3, 4, 4} {
		dims = le.AppendUint64(dims, d)
	}
	for _, d := range []uint32{1, 1, 1, 3, 4, 4, 4} {
		chunk = le.AppendUint32(chunk, d)
	}
	root := le.Uint64(good[64:])
	// change copies the file, with at the place of a pattern.
	change := func(pattern string, last bool, with func(b []byte, at int)) {
		at := bytes.Index(good, []byte(pattern))
		if last {
			at = bytes.LastIndex(good, []byte(pattern))
		}
		if at < 0 {
			t.Fatalf("%q is not in the file", pattern)
		}
		b := bytes.Clone(good)
		with(b, at)
		add(".h5", b)
	}
	for _, last := range []bool{false, true} { // the tree of a group, and that of the chunks
		for _, level := range []byte{1, 2, 255} {
			change("TREE", last, func(b []byte, at int) { b[at+5] = level })
			change("TREE", last, func(b []byte, at int) { // children that are the node itself
				b[at+5] = level
				for i := at + 24; i+8 <= min(at+400, len(b)); i += 8 {
					le.PutUint64(b[i:], uint64(at))
				}
			})
		}
		change("TREE", last, func(b []byte, at int) { le.PutUint16(b[at+6:], math.MaxUint16) })
		change("TREE", last, func(b []byte, at int) { b[at+4] ^= 1 })
		change("TREE", last, func(b []byte, at int) { clear(b[at:]) })
	}
	change("SNOD", false, func(b []byte, at int) { le.PutUint16(b[at+6:], math.MaxUint16) })
	change("SNOD", false, func(b []byte, at int) { le.PutUint64(b[at+8:], math.MaxUint64) }) // a name
	change("SNOD", false, func(b []byte, at int) { le.PutUint64(b[at+16:], root) })          // the group in itself
	change("SNOD", false, func(b []byte, at int) { le.PutUint64(b[at+16:], math.MaxUint64-7) })
	change("HEAP", false, func(b []byte, at int) { le.PutUint64(b[at+8:], math.MaxUint64) })
	change("HEAP", false, func(b []byte, at int) { le.PutUint64(b[at+8:], uint64(len(b))) })
	change("trajectories", false, func(b []byte, at int) { copy(b[at:], "\x1b[2J") })
	for axis := range 6 {
		for _, d := range []uint64{0, 1 << 20, 1 << 32, 1 << 62, math.MaxUint64} {
			change(string(dims), false, func(b []byte, at int) { le.PutUint64(b[at+8+8*axis:], d) })
		}
		for _, d := range []uint32{0, 1 << 20, 1 << 31, math.MaxUint32} {
			change(string(chunk), false, func(b []byte, at int) { le.PutUint32(b[at+4*axis:], d) })
		}
	}
	change(string(chunk), false, func(b []byte, at int) { // one chunk of 2 GiB
		for axis, d := range []uint32{1, 1, 1 << 9, 1 << 10, 1 << 10} {
			le.PutUint32(b[at+4*axis:], d)
		}
	})
	change(string(dims), false, func(b []byte, at int) { b[at+1] = 255 }) // axes
	for _, where := range []int{0, 8, 13, 24, 40, 64} {                   // the superblock
		change("\x89HDF", false, func(b []byte, _ int) { b[where] ^= 0x80 })
	}
	change("\x89HDF", false, func(b []byte, _ int) { le.PutUint64(b[64:], 0) })
	change("\x89HDF", false, func(b []byte, _ int) { le.PutUint16(b[root+2:], math.MaxUint16); b[root] = 9 })
	change("\x89HDF", false, func(b []byte, _ int) { le.PutUint32(b[root+8:], math.MaxUint32) })
	change("\x89HDF", false, func(b []byte, _ int) { // a header that goes on in itself
		le.PutUint16(b[root+16:], 0x10)
		le.PutUint64(b[root+24:], root+16)
		le.PutUint64(b[root+32:], 24)
	})
}
