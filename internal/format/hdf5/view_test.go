package hdf5

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// views writes a file of every kind that is not in the other samples: truth values,
// strings, an empty group, views.
func views(t *testing.T, m *memory) {
	t.Helper()
	w, err := Create(m, []Spec{
		{Path: "/trajectories", Type: Float16, Shape: []int{2, 3, 4, 2, 5, 6}, Chunk: []int{1, 1, 1, 2, 5, 6}},
		{Path: "/bc/mask", Type: Bool, Shape: []int{5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 24 {
		v := make([]float64, 60)
		for i := range v {
			v[i] = float64((60*k + i) % 1000)
		}
		if err := w.Write("/trajectories", []int{k / 12, k / 4 % 3, k % 4, 0, 0, 0}, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		w.Write("/bc/mask", []int{0}, []float64{1, 0, 0, 0, 1}),
		w.Attr("/bc", "sample_varying", false), w.Attr("/bc", "dims", []bool{true, false}),
		w.Attr("/bc", "names", []string{"x"}),
		w.Group("/empty"), w.Group("/bc"), w.Attr("/none", "field_names", []string{}),
		w.Strings("/metadata/ic_types", []string{"white", "", "größe"}), w.Strings("/metadata/no", nil),
		w.View("/t0_fields/c0", Float32, []int{6, 4, 5, 6}, "/trajectories", []int{0, 0, 0, 0, 0, 0},
			[]int{2, 3, 4, 1, 5, 6}),
		w.View("/t0_fields/c1", Float32, []int{6, 4, 5, 6}, "/trajectories", []int{0, 0, 0, 1, 0, 0},
			[]int{2, 3, 4, 1, 5, 6}),
		w.View("/outputs/fields", Float16, []int{2, 3, 4, 2, 5, 6}, "/trajectories", make([]int, 6), []int{2, 3, 4, 2, 5, 6}),
		w.Attr("/t0_fields/c1", "time_varying", true),
		w.Finish(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestViews pins a file whose every element and attribute h5py 3.16 (HDF5 2.0.0) has read:
// whoever changes a byte has to ask it again.
func TestViews(t *testing.T) {
	m := newMemory()
	views(t, m)
	const want = "6c0240fac39cc09bbae6d9c32c4e475c0d8d17503b6190a844f3ef94d3f73dbc"
	if got := fmt.Sprintf("%x", sha256.Sum256(m.b)); got != want {
		t.Errorf("%d bytes with SHA-256 %s, want %s", len(m.b), got, want)
	}
	f := m.open(t)
	d, err := f.Dataset("/bc/mask")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := d.At(); err != nil || d.Type != Bool || !slices.Equal(v, []float64{1, 0, 0, 0, 1}) {
		t.Errorf("%v %v %v", d.Type, v, err)
	}
	for name, want := range map[string]any{"sample_varying": false, "dims": []bool{true, false}} {
		if v, err := f.Attr("/bc", name); err != nil || fmt.Sprint(v) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	if v, err := f.Attr("/t0_fields/c1", "time_varying"); v != true {
		t.Errorf("%v, %v", v, err)
	}
	for path, want := range map[string]string{
		"/t0_fields/c1": `m.h5: "/t0_fields/c1" layout: a view of other datasets: want the dataset that ` +
			`holds the elements`,
		"/metadata/ic_types": `m.h5: "/metadata/ic_types" datatype: other than numbers: want float16`,
	} {
		if _, err := f.Dataset(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCopyChunk copies the chunks of a file into another one: those of the values.
func TestCopyChunk(t *testing.T) {
	s := trajectory(4)
	m := newMemory()
	s.write(t, m)
	d, err := m.open(t).Dataset("/trajectories")
	if err != nil {
		t.Fatal(err)
	}
	spec := s.specs[0]
	for want, change := range map[bool]func(*Spec){
		true: func(s *Spec) { s.Gzip = 9 }, false: func(s *Spec) { s.Gzip = 0 },
	} {
		other := spec
		if change(&other); d.Storable(other) != want {
			t.Errorf("%+v: storable %v", other, !want)
		}
	}
	other := spec
	other.Type = Float16
	shuffled := spec
	shuffled.Shuffle = true
	if d.Storable(other) || d.Storable(shuffled) {
		t.Error("chunks of other types or filters are taken")
	}
	n := newMemory()
	w, err := Create(n, s.specs[:1])
	if err != nil {
		t.Fatal(err)
	}
	first := []int{0, 0, 0, 0, 0, 0}
	for k := range 6 {
		at := []int{0, k / 3, k % 3, 0, 0, 0}
		b, err := d.StoredChunk(at...)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.CopyChunk("/trajectories", at, b); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := d.StoredChunk(first...)
	if err := w.CopyChunk("/trajectories", first, b); err == nil ||
		!strings.HasSuffix(err.Error(), "written again: want each written once") {
		t.Errorf("%v", err)
	}
	if err := w.CopyChunk("/trajectories", []int{0, 0, 3, 0, 0, 0}, b); err == nil ||
		!strings.HasSuffix(err.Error(), "want one within [1,2,3,2,5,5]") {
		t.Errorf("%v", err)
	}
	if err := w.CopyChunk("/x", first, b); err == nil {
		t.Error("a dataset that is none")
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	sample{specs: s.specs[:1]}.read(t, n.open(t))
	if !bytes.Contains(n.b, b) {
		t.Error("not the bytes that were stored")
	}
}

func TestViewRefuses(t *testing.T) {
	w, err := Create(newMemory(), []Spec{{Path: "/a", Type: Float32, Shape: []int{2, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path       string
		kind       Type
		shape      []int
		of         string
		from, size []int
		want       string
	}{
		{"/v", Float32, []int{6}, "/b", nil, nil, `"/v" view: "/b": want a dataset of this file`},
		{"/v", 0, []int{6}, "/a", []int{0, 0}, []int{2, 3}, `"/v" type: Type(0): want one that is known`},
		{"/v", Float32, nil, "/a", []int{0, 0}, []int{2, 3}, `"/v" shape: []: want 1 to 32 axes`},
		{"/v", Float32, []int{6}, "/a", []int{0}, []int{2, 3}, `"/v" box: [0] [2,3]: want the axes of [2,3]`},
		{"/v", Float32, []int{6}, "/a", []int{1, 0}, []int{2, 3}, `"/v" box: [1,0] [2,3]: want a part of [2,3]`},
		{"/v", Float32, []int{5}, "/a", []int{0, 0}, []int{2, 3}, `"/v" shape: [5]: want as many elements as [2,3]`},
		{"/a", Float32, []int{6}, "/a", []int{0, 0}, []int{2, 3}, `path: "/a": want no dataset "/a" on the way`},
	} {
		if err := w.View(c.path, c.kind, c.shape, c.of, c.from, c.size); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if err := w.Strings("/s", []string{"\xff"}); err == nil {
		t.Error("no UTF-8")
	}
	if err := w.Strings("/a/s", nil); err == nil {
		t.Error("below a dataset")
	}
}
