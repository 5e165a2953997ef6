package hdf5

import (
	"strings"
	"testing"
)

// FuzzNew: whatever a file holds, all of it is read or refused in one line, in memory
// and time that its size allows.
func FuzzNew(f *testing.F) {
	for _, b := range testdata(f) {
		f.Add(b)
	}
	m := newMemory()
	w, err := Create(m, trajectory(4).specs)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range trajectory(4).pieces(1) {
		if err := w.Write(p.path, p.at, p.values); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		f.Fatal(err)
	}
	f.Add(m.b)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 { // a mutation copies all of it
			return
		}
		examine(t, data)
	})
}

// FuzzResume: an unfinished file, whatever it holds, is continued or refused in one
// line.
func FuzzResume(f *testing.F) {
	specs := []Spec{
		{Path: "/a", Type: Float32, Shape: []int{3}},
		{Path: "/b/c", Type: Float16, Shape: []int{3, 2}, Chunk: []int{1, 2}, Gzip: 1},
	}
	m := newMemory()
	w, err := Create(m, specs)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 2 {
		if err := w.Write("/b/c", []int{i, 0}, []float64{1, 2}); err != nil {
			f.Fatal(err)
		}
	}
	s, err := w.Checkpoint()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.b, s.Size, 3)
	f.Add(m.b, int64(0), -1)
	f.Add(m.b[:len(m.b)-1], s.Size, 4)
	f.Fuzz(func(t *testing.T, data []byte, size int64, missing int) {
		m := newMemory()
		m.b = append(m.b, data...)
		w, err := Resume(m, specs, State{Layout: s.Layout, Size: size, Missing: []int{missing}})
		if err == nil {
			err = w.Finish() // which may lack elements
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), ": want ")) {
			t.Errorf("not one line: %q", err)
		}
	})
}
