package hdf5

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// memory is a file in memory. Its left-th operation fails, and all after it.
type memory struct {
	b    []byte
	left int
	log  string // of operations: W, T, S, and 0 for a write of the superblock
}

var errFull = errors.New("disk full")

func newMemory() *memory { return &memory{left: math.MaxInt} }

func (m *memory) use(op string) error {
	m.log += op
	if m.left--; m.left < 0 {
		return errFull
	}
	return nil
}

func (m *memory) ReadAt(b []byte, at int64) (int, error) { return bytes.NewReader(m.b).ReadAt(b, at) }

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	op := "W"
	if at == 0 {
		op = "0"
	}
	if err := m.use(op); err != nil {
		return 0, err
	}
	if n := int(at) + len(b); n > len(m.b) {
		m.b = append(m.b, make([]byte, n-len(m.b))...)
	}
	return copy(m.b[at:], b), nil
}

func (m *memory) Truncate(n int64) error {
	if err := m.use("T"); err != nil {
		return err
	}
	m.b = append(m.b[:min(int(n), len(m.b))], make([]byte, max(0, int(n)-len(m.b)))...)
	return nil
}

func (m *memory) Sync() error { return m.use("S") }

func (m *memory) open(t *testing.T) *File {
	t.Helper()
	f, err := New("m.h5", m, int64(len(m.b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// piece is one call of Write.
type piece struct {
	path   string
	at     []int
	values []float64
}

// sample is a file to be written.
type sample struct {
	specs []Spec
	attrs []attr
}

type attr struct {
	path, name string
	value      any
}

// value is element i of a dataset of the given type. Among the first are
// all kinds of floating-point numbers.
func value(t Type, i int) float64 {
	special := []float64{0, math.Copysign(0, -1), 1, -1, fp16.NaN, math.Inf(1), math.Inf(-1)}
	switch {
	case t == Int32:
		return []float64{-1 << 31, 1<<31 - 1, float64(i)}[min(i, 2)]
	case t == Int64:
		return []float64{-1 << 53, 1 << 53, float64(-i)}[min(i, 2)]
	case i < len(special):
		return special[i]
	case i%5 == 0: // least numbers
		return float64(i%3) * map[Type]float64{Float16: 0x1p-24, Float32: 0x1p-149, Float64: 0x1p-1074}[t]
	}
	return t.format().Round(math.Sqrt(float64(i%1021)) - 10)
}

// elements are all of a dataset.
func elements(s Spec) []float64 {
	n, _ := product(1, s.Shape)
	v := make([]float64, n)
	for i := range v {
		v[i] = value(s.Type, i)
	}
	return v
}

// pieces cuts all datasets into calls of Write, in a random order.
func (s sample) pieces(seed uint64) []piece {
	var all []piece
	for _, d := range s.specs {
		v := elements(d)
		if d.Chunk == nil {
			for i := 0; i < len(v); i += 5 {
				all = append(all, piece{d.Path, index(i, d.Shape), v[i:min(i+5, len(v))]})
			}
			continue
		}
		counts := d.grid().counts()
		n, _ := product(1, counts)
		for k := range n {
			at := index(k, counts)
			for i := range at {
				at[i] *= d.Chunk[i]
			}
			extent := d.grid().inside(at)
			size, _ := product(1, extent)
			x := make([]float64, size)
			for i := range x {
				where := index(i, extent)
				for k := range where {
					where[k] += at[k]
				}
				x[i] = v[number(where, d.Shape)]
			}
			all = append(all, piece{d.Path, at, x})
		}
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (s sample) setAttrs(t *testing.T, w *Writer) {
	t.Helper()
	for _, a := range s.attrs {
		if err := w.Attr(a.path, a.name, a.value); err != nil {
			t.Fatal(err)
		}
	}
}

func (s sample) write(t *testing.T, f Storage) {
	t.Helper()
	w, err := Create(f, s.specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pieces(1) {
		if err := w.Write(p.path, p.at, p.values); err != nil {
			t.Fatal(err)
		}
	}
	s.setAttrs(t, w)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

// read compares a file with what it was made from.
func (s sample) read(t *testing.T, f *File) {
	t.Helper()
	for _, want := range s.specs {
		d, err := f.Dataset(want.Path)
		if err != nil {
			t.Fatal(err)
		}
		if d.Type != want.Type || !slices.Equal(d.Shape, want.Shape) {
			t.Fatalf("%s: %v %v, want %v %v", want.Path, d.Type, d.Shape, want.Type, want.Shape)
		}
		v, err := d.At()
		if err != nil {
			t.Fatal(err)
		}
		if i, ok := same(v, elements(want)); !ok {
			t.Errorf("%s: element %d differs", want.Path, i)
		}
	}
	for _, a := range s.attrs {
		want := a.value
		switch v := want.(type) {
		case int:
			want = int64(v)
		case []int:
			w := []int64{}
			for _, x := range v {
				w = append(w, int64(x))
			}
			want = w
		}
		if got, err := f.Attr(a.path, a.name); err != nil ||
			fmt.Sprintf("%T%#v", got, got) != fmt.Sprintf("%T%#v", want, want) {
			t.Errorf("%s %s: %.80v %v, want %.80v", a.path, a.name, got, err, want)
		}
	}
}

// same compares bits.
func same(a, b []float64) (int, bool) {
	if len(a) != len(b) {
		return min(len(a), len(b)), false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i, false
		}
	}
	return 0, true
}

// trajectory is the layout in which Spinlock keeps trajectories, with one state
// to a chunk and the diagnostics in one run.
func trajectory(gzip int) sample {
	const m, steps, c, g = 2, 3, 2, 5
	s := sample{specs: []Spec{{Path: "/trajectories", Type: Float32,
		Shape: []int{1, m, steps, c, g, g}, Chunk: []int{1, 1, 1, c, g, g}, Gzip: gzip}}}
	for _, n := range []string{"energy", "entropy", "autocorrelation", "variance", "mean_magnitude"} {
		s.specs = append(s.specs, Spec{Path: "/metrics/" + n, Type: Float32, Shape: []int{1, m, steps}})
	}
	s.attrs = append(s.attrs, []attr{
		{"/metadata", "policy", "convex"},
		{"/metadata", "num_timesteps", steps},
		{"/metadata", "num_operators", 1},
		{"/metadata", "num_realizations", m},
		{"/metadata", "normalization", "none"},
		{"/metadata", "clamp_range", "[-10.0, 10.0]"},
	}...)
	return s
}

// kinds has every type, filter, rank and kind of attribute, edges and empty
// arrays.
func kinds(gzip bool) sample {
	var s sample
	for _, t := range []Type{Float16, Float32, Float64, Int32, Int64} {
		for _, level := range []int{0, 6, Huffman} {
			if level != 0 && !gzip {
				continue
			}
			for _, shuffle := range []bool{false, true} {
				s.specs = append(s.specs, Spec{
					Path: fmt.Sprintf("/%s/gzip%d/shuffle %v", t, level, shuffle),
					Type: t, Shape: []int{5, 4, 7}, Chunk: []int{2, 4, 3}, Gzip: level, Shuffle: shuffle,
				})
			}
		}
		s.specs = append(s.specs,
			Spec{Path: fmt.Sprintf("/%s/run", t), Type: t, Shape: []int{3, 7}},
			Spec{Path: fmt.Sprintf("/%s/scalar", t), Type: t, Shape: []int{}},
			Spec{Path: fmt.Sprintf("/%s/empty run", t), Type: t, Shape: []int{3, 0}},
			Spec{Path: fmt.Sprintf("/%s/empty", t), Type: t, Shape: []int{0, 3}, Chunk: []int{1, 2}},
			Spec{Path: fmt.Sprintf("/%s/line", t), Type: t, Shape: []int{9}, Chunk: []int{4}},
		)
	}
	s.attrs = []attr{
		{"/", "root", "größe \n\"x\""}, {"/", "empty", ""}, {"/", "i", -7}, {"/", "i64", int64(math.MinInt64)},
		{"/", "x", math.Pi}, {"/", "list", []float64{1, -2.5, 0x1p-1074}}, {"/", "ints", []int{1, -2}},
		{"/", "ints64", []int64{math.MaxInt64}}, {"/", "words", []string{"a", "", strings.Repeat("long ", 5)}},
		{"/", "none", []float64{}}, {"/", "no words", []string{}},
		{"/float32/run", "unit", "1"}, {"/new/group", "k", 1},
		{"/", "big", strings.Repeat("0123456789", 10_000)},
		{"/", "wide", slices.Repeat([]float64{1.5}, 8170)},
		{"/", strings.Repeat("long name ", 30), "v"},
	}
	return s
}

// many has 5000 chunks, which make a B-tree of three levels.
func many() sample {
	return sample{
		specs: []Spec{{Path: "/many", Type: Float32, Shape: []int{50, 100, 2, 2}, Chunk: []int{1, 1, 2, 2}, Gzip: 4}},
	}
}

// crowd has groups of 0, 8, 9, 40 and 300 members; the last needs a B-tree of
// two levels.
func crowd() sample {
	s := sample{attrs: []attr{{"/n0", "empty", "group"}}}
	for _, n := range []int{8, 9, 40, 300} {
		for i := range n {
			s.specs = append(s.specs, Spec{Path: fmt.Sprintf("/n%d/%d", n, i), Type: Int32, Shape: []int{i % 3}})
			s.attrs = append(s.attrs, attr{fmt.Sprintf("/n%d", n), fmt.Sprint("a", i), i})
		}
	}
	s.specs = append(s.specs, Spec{
		Path: "/deep" + strings.Repeat("/er", 50) + "/" + strings.Repeat("name", 500), Type: Float64, Shape: []int{1},
	})
	return s
}

var samples = map[string]func() sample{
	"trajectory":   func() sample { return trajectory(4) },
	"trajectory 0": func() sample { return trajectory(0) },
	"kinds":        func() sample { return kinds(true) },
	"kinds 0":      func() sample { return kinds(false) },
	"many":         many,
	"crowd":        crowd,
	"nothing":      func() sample { return sample{} },
}

func TestRoundTrip(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			s().write(t, m)
			s().read(t, m.open(t))
		})
	}
}

// The bytes of files without deflate, whose output may change with Go's
// version. h5py 3.7 (HDF5 1.10.8), 3.8 (1.12.2) and 3.16 (2.0.0) have read
// every element and attribute of the samples, and h5dump has listed them
// without complaint; whoever changes a byte has to ask them again.
func TestPinned(t *testing.T) {
	for name, want := range map[string]string{
		"trajectory 0": "1d8b02d021fe610b0a6be9bb970779d50322d1b5c749725b22b2502956e435f2",
		"kinds 0":      "35e6cb3bbbded7fa6792598fd9fa8d31fb695e45b308351ffa31ccfab7b506d8",
		"crowd":        "e5d506ee48106e827accb4439499d05edb070957ecfccdc44f6946d6cf8e7dae",
		"nothing":      "533305a1ce34219bc6abf8152dcc3b2d11fc22a9e07753cdba93bc7c5233df4f",
	} {
		m := newMemory()
		samples[name]().write(t, m)
		if got := fmt.Sprintf("%x", sha256.Sum256(m.b)); got != want {
			t.Errorf("%s: %d bytes with SHA-256 %s, want %s", name, len(m.b), got, want)
		}
	}
}

// Wherever a run is killed, what remains of it does not open, and continued
// from its last checkpoint it ends with the same bytes.
func TestResume(t *testing.T) {
	for name, every := range map[string]int{"trajectory": 1, "kinds": 9} {
		s := samples[name]()
		whole := newMemory()
		s.write(t, whole)
		all := s.pieces(1)
		for stop := 0; stop <= len(all); stop += every {
			m := newMemory()
			w, err := Create(m, s.specs)
			if err != nil {
				t.Fatal(err)
			}
			write := func(pieces []piece) {
				for _, p := range pieces {
					if err := w.Write(p.path, p.at, p.values); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(all[:stop])
			state, err := w.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(state)
			if err != nil {
				t.Fatal(err)
			}
			// What the checkpoint does not know: more pieces, and a torn one;
			// once, a whole file.
			write(all[stop:min(stop+3, len(all))])
			m.b = append(m.b, "torn"...)
			if _, err := New("m.h5", m, int64(len(m.b))); err == nil {
				t.Fatalf("%s: opens when killed after %d of %d pieces", name, stop, len(all))
			}
			if stop == 4*every {
				m.b = bytes.Clone(whole.b)
			}

			state = State{}
			if err := json.Unmarshal(text, &state); err != nil {
				t.Fatal(err)
			}
			if w, err = Resume(m, s.specs, state); err != nil {
				t.Fatal(err)
			}
			if _, err := New("m.h5", m, int64(len(m.b))); err == nil {
				t.Fatalf("%s: opens when resumed after %d of %d pieces", name, stop, len(all))
			}
			write(all[stop:])
			s.setAttrs(t, w)
			if err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.b, whole.b) {
				t.Fatalf("%s: other bytes when killed after %d of %d pieces", name, stop, len(all))
			}
		}
	}
}

// The file opens only after the last write of Finish; an error leaves all as
// it was, to be tried again.
func TestFinishFails(t *testing.T) {
	s := trajectory(4)
	whole := newMemory()
	s.write(t, whole)
	for left := 0; ; left++ {
		m := newMemory()
		w, err := Create(m, s.specs)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.pieces(1) {
			if err := w.Write(p.path, p.at, p.values); err != nil {
				t.Fatal(err)
			}
		}
		s.setAttrs(t, w)
		m.left = left
		if err = w.Finish(); err == nil {
			if left < 10 {
				t.Fatalf("finished after %d operations", left)
			}
			return
		}
		_, opens := New("m.h5", m, int64(len(m.b)))
		if last := bytes.Equal(m.b, whole.b); !errors.Is(err, errFull) || (opens == nil) != last {
			t.Fatalf("failed after %d operations: %v; opening it: %v", left, err, opens)
		}
		m.left = math.MaxInt
		if err := w.Finish(); err != nil || !bytes.Equal(m.b, whole.b) {
			t.Fatalf("finished again after %d operations: %v", left, err)
		}
	}
}

func TestWriteFails(t *testing.T) {
	s := trajectory(4)
	whole := newMemory()
	s.write(t, whole)
	m := newMemory()
	w, err := Create(m, s.specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pieces(1) {
		m.left = 0
		if err := w.Write(p.path, p.at, p.values); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		if _, err := w.Checkpoint(); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		m.left = 1
		if err := w.Write(p.path, p.at, p.values); err != nil {
			t.Fatal(err)
		}
	}
	m.left = math.MaxInt
	s.setAttrs(t, w)
	if err := w.Finish(); err != nil || !bytes.Equal(m.b, whole.b) {
		t.Errorf("other bytes after failures: %v", err)
	}
	for m.left = range 3 {
		n := memory{b: bytes.Clone(whole.b), left: m.left}
		if _, err := Create(&n, s.specs); !errors.Is(err, errFull) {
			t.Error(err)
		}
	}
}

// All is on the disk before the superblock, and the superblock before Finish
// returns; so is what a checkpoint speaks of.
func TestOrder(t *testing.T) {
	m := newMemory()
	w, err := Create(m, []Spec{{Path: "/x", Type: Float32, Shape: []int{1}, Chunk: []int{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("/x", []int{0}, []float64{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	// The tree and header of /x, then those of the root with heap and symbols.
	if err := w.Finish(); err != nil || m.log != "T0T"+"W"+"S"+"WWWWWWW"+"TS0S" {
		t.Error(m.log, err)
	}
}

// What the file held before leaves no trace.
func TestOverwrite(t *testing.T) {
	for _, name := range []string{"trajectory", "kinds"} {
		fresh, used := newMemory(), newMemory()
		used.b = bytes.Repeat([]byte{0xaa}, 1<<20)
		samples[name]().write(t, fresh)
		samples[name]().write(t, used)
		if !bytes.Equal(fresh.b, used.b) {
			t.Errorf("%s: other bytes over an old file", name)
		}
	}
}

func TestOSFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.h5")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	s := trajectory(4)
	s.write(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	s.write(t, m)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, m.b) {
		t.Errorf("other bytes on disk: %v", err)
	}
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s.read(t, file)
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	ok := Spec{Path: "/a", Type: Float32, Shape: []int{4}, Chunk: []int{2}}
	with := func(change func(s *Spec)) []Spec {
		s := ok
		change(&s)
		return []Spec{s}
	}
	path := func(paths ...string) (s []Spec) {
		for _, p := range paths {
			s = append(s, Spec{Path: p, Type: Float32})
		}
		return s
	}
	for _, c := range []struct {
		specs []Spec
		want  string
	}{
		{with(func(s *Spec) { s.Type = 0 }),
			`"/a" type: Type(0): want float16, float32, float64, int32, int64, uint8 or bool`},
		{with(func(s *Spec) { s.Shape = []int{-1} }),
			`"/a" shape: [-1]: want dimensions of 0 or more and fewer bytes than an int counts`},
		{with(func(s *Spec) { s.Shape = []int{1 << 31, 1 << 31, 0} }),
			`"/a" shape: [2147483648,2147483648,0]: want dimensions of 0 or more and fewer bytes than an int counts`},
		{with(func(s *Spec) { s.Shape = make([]int, 33) }),
			`"/a" shape: [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,...]: want at most 32 axes`},
		{with(func(s *Spec) { s.Chunk = nil; s.Gzip = 1 }),
			`"/a" chunk: none: want a shape, for only chunks can be compressed or shuffled`},
		{with(func(s *Spec) { s.Chunk = nil; s.Shuffle = true }),
			`"/a" chunk: none: want a shape, for only chunks can be compressed or shuffled`},
		{with(func(s *Spec) { s.Chunk = []int{2, 1} }),
			`"/a" chunk: [2,1]: want a shape of 1 axes, as many as [4] has and not none`},
		{with(func(s *Spec) { s.Chunk = []int{}; s.Shape = nil }),
			`"/a" chunk: []: want a shape of 0 axes, as many as [] has and not none`},
		{with(func(s *Spec) { s.Chunk = []int{5} }), `"/a" chunk: [5]: want dimensions from 1 to those of [4]`},
		{with(func(s *Spec) { s.Chunk = []int{0} }), `"/a" chunk: [0]: want dimensions from 1 to those of [4]`},
		{with(func(s *Spec) { s.Shape = []int{1 << 30}; s.Chunk = s.Shape }),
			`"/a" chunk: 4294967296 bytes: want at most 2^32-2^21`},
		{with(func(s *Spec) { s.Shape = []int{1<<28 + 1}; s.Chunk = []int{1} }),
			`"/a" chunk: [1]: want at most 268435456 chunks of [268435457]`},
		{with(func(s *Spec) { s.Gzip = 10 }), `"/a" gzip: 10: want a level from 1 to 9, or 0 for none`},
		{with(func(s *Spec) { s.Gzip = -1 }), `"/a" gzip: -1: want a level from 1 to 9, or 0 for none`},
		{[]Spec{
			{Path: "/a", Type: Float64, Shape: []int{1 << 59}}, {Path: "/b", Type: Float64, Shape: []int{1<<60 - 1}},
		}, `"/b" shape: [1152921504606846975]: want a file of fewer than 2^63 bytes`},
		{path("/a", "/a"), `path: "/a": want no dataset "/a" on the way`},
		{path("/a", "/a/b"), `path: "/a/b": want no dataset "/a" on the way`},
		{path("/a/b", "/a"), `path: "/a": want no group of that name`},
		{path(""), `path: "": want one that begins with /`},
		{path("a"), `path: "a": want one that begins with /`},
		{path("/"), `path: "/": want names between single slashes`},
		{path("/a/"), `path: "/a/": want names between single slashes`},
		{path("//a"), `path: "//a": want names between single slashes`},
		{path("/a/./b"), `path: "/a/./b": want names between single slashes`},
		{path("/a\n"), `path: "/a\n": want printable ASCII`},
		{path("/ä"), `path: "/ä": want printable ASCII`},
		{path("/" + strings.Repeat("a", 4096)), `path: "/` + strings.Repeat("a", 59) + `...": want at most 4096 bytes`},
	} {
		m := newMemory()
		if _, err := Create(m, c.specs); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if len(m.b) > 0 {
			t.Errorf("%s: %d bytes written", c.want, len(m.b))
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	w, err := Create(newMemory(), []Spec{
		{Path: "/c", Type: Float16, Shape: []int{3, 4}, Chunk: []int{2, 2}},
		{Path: "/r", Type: Int32, Shape: []int{2, 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("/c", []int{0, 0}, make([]float64, 4)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write("/r", []int{0, 1}, make([]float64, 4)); err != nil {
		t.Fatal(err)
	}
	const huge = math.MaxInt
	for _, c := range []struct {
		path   string
		at     []int
		values []float64
		want   string
	}{
		{"/x", nil, nil, `path: "/x": want a dataset of this file`},
		{"/c", []int{0}, nil, `"/c" index: [0]: want one within [3,4]`},
		{"/c", []int{0, 4}, nil, `"/c" index: [0,4]: want one within [3,4]`},
		{"/c", []int{-2, 0}, nil, `"/c" index: [-2,0]: want one within [3,4]`},
		{"/c", []int{huge, huge}, nil, fmt.Sprintf(`"/c" index: [%d,%d]: want one within [3,4]`, huge, huge)},
		{"/c", []int{0, 1}, make([]float64, 4), `"/c" index: [0,1]: want a multiple of [2,2]`},
		{"/c", []int{0, 0}, make([]float64, 4), `"/c" chunk [0,0]: written again: want each written once`},
		{"/c", []int{0, 2}, make([]float64, 3), `"/c" chunk [0,2]: 3 values: want the 4 of [2,2]`},
		{"/c", []int{2, 2}, make([]float64, 4), `"/c" chunk [2,2]: 4 values: want the 2 of [1,2]`},
		{"/c", []int{2, 2}, []float64{0, 65505}, `"/c" value 1 of [2,2]: 65505: want a number of float16`},
		{"/c", []int{2, 2}, []float64{0x1p-25, 0}, `"/c" value 0 of [2,2]: 2.9802322387695312e-08: want a number of float16`},
		{"/r", []int{1, 0}, make([]float64, 4), `"/r" elements: 4 from [1,0]: want at most the 3 that follow`},
		{"/r", []int{0, 0}, make([]float64, 3), `"/r" elements: 3 from [0,0]: want each written once`},
		{"/r", []int{0, 0}, []float64{0.5}, `"/r" value 0 of [0,0]: 0.5: want a number of int32`},
		{"/r", []int{0, 0}, []float64{1 << 31}, `"/r" value 0 of [0,0]: 2.147483648e+09: want a number of int32`},
		{"/r", []int{0, 0}, []float64{math.NaN()}, `"/r" value 0 of [0,0]: NaN: want a number of int32`},
	} {
		if err := w.Write(c.path, c.at, c.values); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	for _, c := range []struct {
		path, name string
		value      any
		want       string
	}{
		{"/g", "", 1, `"/g" attribute "": name: want 1 to 4096 characters of printable ASCII`},
		{"/g", "ä", 1, `"/g" attribute "ä": name: want 1 to 4096 characters of printable ASCII`},
		{"/g", "a", float32(1), `"/g" attribute "a": float32: want a string, bool, int, int64, float64 or a slice of these`},
		{"/g", "a", nil, `"/g" attribute "a": <nil>: want a string, bool, int, int64, float64 or a slice of these`},
		{"/g", "a", "x\x00", `"/g" attribute "a": "x\x00": want UTF-8 of at most 2 GiB, without NUL`},
		{"/g", "a", []string{"\xff"}, `"/g" attribute "a": "\xff": want UTF-8 of at most 2 GiB, without NUL`},
		{"/g", "a", make([]float64, 9000),
			`"/g" attribute "a": 72056 bytes: want at most 65528 (a longer text fits as one string)`},
		{"/g", "a", make([]string, 1<<16), `"/g" attribute "a": 65536 strings in the file: want at most 65535`},
		{"/c/d", "a", 1, `path: "/c/d": want no dataset "/c" on the way`},
		{"g", "a", 1, `path: "g": want one that begins with /`},
	} {
		if err := w.Attr(c.path, c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if err := w.Attr("/c", "k", 1); err != nil {
		t.Error(err)
	}
	if err := w.Attr("/c", "k", 1); err == nil || err.Error() != `"/c" attribute "k": set again: want each name once` {
		t.Error(err)
	}
	if err := w.Finish(); err == nil || err.Error() != `"/c" data: 3 chunks not written: want every chunk written` {
		t.Error(err)
	}
	for _, at := range [][]int{{0, 2}, {2, 0}, {2, 2}} {
		if err := w.Write("/c", at, make([]float64, 4-2*(at[0]/2))); err != nil {
			t.Error(err)
		}
	}
	if err := w.Finish(); err == nil || err.Error() != `"/r" data: 2 elements not written: want every element written` {
		t.Error(err)
	}
	for _, at := range [][]int{{0, 0}, {1, 2}} {
		if err := w.Write("/r", at, make([]float64, 1)); err != nil {
			t.Error(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Error(err)
	}
	if err := w.Finish(); err != nil {
		t.Error(err)
	}
	if err := w.Write("/r", []int{0, 0}, nil); err == nil ||
		err.Error() != `"/r" elements: [0,0]: want nothing after Finish` {
		t.Error(err)
	}
	if err := w.Attr("/r", "a", 1); err == nil || err.Error() != `"/r" attribute "a": set: want nothing after Finish` {
		t.Error(err)
	}
}

func TestResumeRefuses(t *testing.T) {
	specs := []Spec{
		{Path: "/c", Type: Float32, Shape: []int{3}, Chunk: []int{1}},
		{Path: "/r", Type: Float64, Shape: []int{2}},
	}
	m := newMemory()
	w, err := Create(m, specs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := w.Write("/c", []int{i}, []float64{1}); err != nil {
			t.Fatal(err)
		}
	}
	good, err := w.Checkpoint() // 96 + 16 bytes of /r, then records of 16 + 4
	if err != nil || good.Size != 152 || !slices.Equal(good.Missing, []int{2}) {
		t.Fatal(good, err)
	}
	for _, c := range []struct {
		change func(s *State, m *memory)
		want   string
	}{
		{func(s *State, m *memory) { s.Layout ^= 0x1 }, `state layout: `},
		{func(s *State, m *memory) { s.Size = 0 }, `state size: 0: want the end of a chunk`},
		{func(s *State, m *memory) { s.Size = -5 }, `state size: -5: want the end of a chunk`},
		{func(s *State, m *memory) { s.Size++ }, `record at 152: EOF: want a chunk of these datasets`},
		{func(s *State, m *memory) { s.Size-- },
			`record at 132: 00 00 00 00 04 00 00 00 01 00 00 00 00 00 00 00: want a chunk of these datasets`},
		{func(s *State, m *memory) { s.Missing = nil }, `state missing: []: want a count for each dataset without chunks`},
		{func(s *State, m *memory) { s.Missing = []int{3} },
			`state missing: [3]: want a count for each dataset without chunks`},
		{func(s *State, m *memory) { s.Missing = []int{-1} },
			`state missing: [-1]: want a count for each dataset without chunks`},
		{func(s *State, m *memory) { m.b = m.b[:151] }, `partial file: EOF: want 152 bytes`},
		{func(s *State, m *memory) { m.b = m.b[:140] }, `record at 132: EOF: want a chunk of these datasets`},
		{func(s *State, m *memory) { m.b = nil }, `record at 112: EOF: want a chunk of these datasets`},
		{func(s *State, m *memory) { m.b[112] = 2 }, `record at 112: 02 00 00 00`},
		{func(s *State, m *memory) { m.b[112] = 1 }, `record at 112: 01 00 00 00`},
		{func(s *State, m *memory) { m.b[116] = 0 }, `record at 112: 00 00 00 00 00`},
		{func(s *State, m *memory) { m.b[120] = 3 }, `record at 112: 00 00 00 00 04 00 00 00 03`},
		{func(s *State, m *memory) { m.b[140] = 0 }, `record at 132: 00 00 00 00 04 00 00 00 00`}, // twice
	} {
		s, n := good, newMemory()
		n.b = bytes.Clone(m.b)
		c.change(&s, n)
		before := bytes.Clone(n.b)
		if _, err := Resume(n, specs, s); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if !bytes.Equal(n.b, before) {
			t.Errorf("%s: the file was changed", c.want)
		}
	}
	other := slices.Clone(specs)
	other[0].Gzip = 1
	if _, err := Resume(m, other, good); err == nil || !strings.HasPrefix(err.Error(), "state layout: ") {
		t.Error(err)
	}
	if _, err := Resume(m, specs, good); err != nil {
		t.Error(err)
	}
}

// TestCodedParts: of numbers with noise in their low bits the bytes of the exponents get codes,
// the others stand as they are, and all come back; parts longer than a stored block can be, too.
func TestCodedParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 100, 5000, 70_000} {
		s := Spec{Path: "/a", Type: Float32, Shape: []int{n}, Chunk: []int{n}, Gzip: Huffman, Shuffle: true}
		raw := make([]byte, 0, 4*n)
		for range n {
			raw = le.AppendUint32(raw, math.Float32bits(float32(random.NormFloat64())))
		}
		w, err := Create(newMemory(), []Spec{s})
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.WriteChunk("/a", []int{0}, raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Unpack(b)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%d numbers: not what was written: %v", n, err)
		}
		if share := float64(len(b)) / float64(len(raw)); n >= 5000 && (share < 0.80 || share > 0.86) {
			t.Errorf("%d numbers take %.2f of their bytes, want 0.83: the exponents' a third", n, share)
		}
		if r, err := zlib.NewReader(bytes.NewReader(b)); err != nil { // it checks the sum, too
			t.Error(err)
		} else if sorted, err := io.ReadAll(r); err != nil || len(sorted) != len(raw) {
			t.Errorf("%d numbers: %d bytes inflated: %v", n, len(sorted), err)
		}
	}
}
