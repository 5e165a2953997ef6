package hdf5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
)

// h5pyValues are the elements testdata/make.py writes.
func h5pyValues(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(37*i%1009-500) / 8
	}
	return v
}

func openTestdata(t *testing.T, name string) *File {
	t.Helper()
	f, err := Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Every dataset and attribute of files that h5py wrote.
func TestH5py(t *testing.T) {
	edges := Dataset{Path: "/edges", Type: Float32, Shape: []int{5, 7}}
	all := []Dataset{
		edges,
		{Path: "/trajectories", Type: Float32, Shape: []int{1, 2, 3, 2, 5, 5}},
		{Path: "/metrics/energy", Type: Float32, Shape: []int{1, 2, 3}},
		{Path: "half", Type: Float16, Shape: []int{3, 4}},
		{Path: "/double", Type: Float64, Shape: []int{4, 3}},
		{Path: "/scalar", Type: Float32, Shape: []int{}},
		{Path: "/n", Type: Int32, Shape: []int{2}},
	}
	for name, want := range map[string][]Dataset{
		"default.h5": all, "latest.h5": all, "edges108.h5": {edges}, "edges110.h5": {edges},
	} {
		t.Run(name, func(t *testing.T) {
			f := openTestdata(t, name)
			for _, w := range want {
				d, err := f.Dataset(w.Path)
				if err != nil {
					t.Fatal(err)
				}
				if d.Type != w.Type || !slices.Equal(d.Shape, w.Shape) {
					t.Errorf("%s: %v %v, want %v %v", w.Path, d.Type, d.Shape, w.Type, w.Shape)
				}
				v, err := d.At()
				if err != nil {
					t.Fatal(err)
				}
				n, _ := product(1, w.Shape)
				values := h5pyValues(n)
				if w.Path == "/n" {
					values = []float64{-7, 1<<31 - 1}
				}
				if i, ok := same(v, values); !ok {
					t.Errorf("%s: element %d differs", w.Path, i)
				}
			}
			if len(want) == 1 {
				return
			}
			for attr, want := range map[string]any{
				"policy":        "convex",
				"num_timesteps": int64(3),
				"clamp":         []float64{-1.5, 2.5},
				"names":         []string{"mean", "", "größe"},
				"fixed":         "none",
				"padded":        "no",
			} {
				if got, err := f.Attr("metrics", attr); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %#v %v, want %#v", attr, got, err, want)
				}
			}
			for attr, want := range map[string]string{
				"missing": `/metrics" attribute "missing" `,
				"x": `"/metrics" attribute: "x": want one of the attributes of "/metrics": "policy", ` +
					`"num_timesteps", "clamp", "names", "fixed", "padded", "missing"`,
			} {
				if _, err := f.Attr("/metrics", attr); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			}
		})
	}
}

// What is not understood is an error that says so.
func TestRefused(t *testing.T) {
	f := openTestdata(t, "refused.h5")
	for path, want := range map[string]string{
		"/grows": `"/grows" chunk index: 4 (extensible array): want a version-1 B-tree, ` +
			`a fixed array or a single chunk; a file of the default libver has the first`,
		"/grows2": `"/grows2" chunk index: 5 (version-2 B-tree): want a version-1 B-tree, ` +
			`a fixed array or a single chunk; a file of the default libver has the first`,
		"/lzf":     `"/lzf" filter: 32000: want deflate (1), shuffle (2) and fletcher32 (3), each at most once`,
		"/crowd/1": `"/crowd": links in a fractal heap: want a group with few members, or of the default libver`,
		"/crowd":   `"/crowd" dataspace: missing: want a dataset`,
		"/none": `path: "/none": want one of the members of "/": "grows2", "lzf", "bytes", "unwritten", ` +
			`"part", "grows", "crowd"`,
		"/bytes/inside": `"/bytes": not a group: want a group`,
	} {
		if _, err := f.Dataset(path); err == nil || err.Error() != "testdata/refused.h5: "+want {
			t.Errorf("got  %v\nwant testdata/refused.h5: %s", err, want)
		}
	}
	d, err := f.Dataset("/unwritten")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.At(); err == nil ||
		!strings.HasSuffix(err.Error(), `"/unwritten" elements: never written: want a complete file`) {
		t.Error(err)
	}
	// A fixed array of two pages, the first of which is not there.
	if d, err = f.Dataset("/part"); err != nil {
		t.Fatal(err)
	}
	want := h5pyValues(1100)
	for i := range want {
		v, err := d.At(i)
		if i >= 1050 {
			if _, ok := same(v, want[i:i+1]); !ok || err != nil {
				t.Errorf("element %d: %v %v, want %v", i, v, err, want[i])
			}
		} else if err == nil ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf(`"/part" chunk [%d]: never written: want a complete file`, i)) {
			t.Errorf("element %d: %v %v", i, v, err)
		}
	}
	for _, path := range []string{"testdata", "testdata/make.py", "testdata/none.h5"} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
	}
	if _, err := Open("testdata/none.h5"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// At with leading indices is a slice of the whole.
func TestAt(t *testing.T) {
	s := kinds(true)
	m := newMemory()
	s.write(t, m)
	f := m.open(t)
	for _, spec := range s.specs {
		all := elements(spec)
		d, err := f.Dataset(spec.Path)
		if err != nil {
			t.Fatal(err)
		}
		for axes := range len(spec.Shape) + 1 {
			lead, rest := spec.Shape[:axes], spec.Shape[axes:]
			n, _ := product(1, lead)
			size, _ := product(1, rest)
			for i := range n {
				at := index(i, lead)
				v, err := d.At(at...)
				if err != nil {
					t.Fatal(err)
				}
				if k, ok := same(v, all[i*size:(i+1)*size]); !ok {
					t.Fatalf("%s %v: element %d differs", spec.Path, at, k)
				}
			}
		}
		for _, at := range [][]int{{9}, {-1}, {0, 1 << 40}, {0, 0, 0, 0}} {
			if _, err := d.At(at...); err == nil || !strings.Contains(err.Error(), `index: `+fault.Dims(at)+`: want `) {
				t.Errorf("%s %v: %v", spec.Path, at, err)
			}
		}
	}
}

// walk reads everything in a file, down to the given depth of groups.
func walk(f *File, path string, depth int, each func(path string, v any, err error)) {
	f.renew()
	h, err := f.find(path)
	if err != nil {
		each(path, nil, err)
		return
	}
	for _, m := range h.messages {
		if m.kind == msgAttribute {
			c := cursor{b: m.body}
			version := c.byte()
			c.take(1)
			n := int(c.uint(2))
			c.take(4)
			if version == 3 {
				c.take(1)
			}
			name := strings.TrimRight(string(c.take(n)), "\x00")
			v, err := f.Attr(path, name)
			each(path+" "+name, v, err)
		}
	}
	if h.get(msgLayout) != nil {
		d, err := f.Dataset(path)
		var v []float64
		if err == nil {
			v, err = d.At()
		}
		each(path, v, err)
		return
	}
	f.renew()
	links, err := f.links(h)
	each(path, nil, err)
	if depth > 0 {
		for _, l := range links[:min(len(links), 8)] {
			walk(f, path+"/"+l.name, depth-1, each)
		}
	}
}

// examine reads everything in a file that may be anything. It fails where an
// error is not of the form of one, or where reading takes more memory than
// the file's size allows: each dataset, in 8 bytes an element, at most 4*1032
// times the file, and the walk reads at most a few dozen.
func examine(t *testing.T, data []byte) (errs int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls := uint64(1)
	check := func(_ string, _ any, err error) {
		calls++
		if err == nil {
			return
		}
		errs++
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%T: %v", err, err)
		}
		if line := err.Error(); !strings.HasPrefix(line, "f.h5: ") || !strings.Contains(line, ": want ") ||
			strings.ContainsAny(line, "\n\r") || len(line) > 1000 {
			t.Errorf("not the form of an error: %q", line)
		}
	}
	f, err := New("f.h5", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		check("", nil, err)
	} else {
		walk(f, "/", 3, check)
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, calls*(1<<17+2*4*1032*uint64(len(data))); got > most {
		t.Errorf("%d bytes allocated to read %d bytes of file in %d calls", got, len(data), calls)
	}
	return errs
}

func testdata(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range []string{"default", "latest", "edges108", "edges110", "refused"} {
		b, err := os.ReadFile("testdata/" + name + ".h5")
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

// A file that ends early is refused, whatever its length.
func TestTruncated(t *testing.T) {
	for name, b := range testdata(t) {
		for n := range len(b) {
			if _, err := New("f.h5", bytes.NewReader(b[:n]), int64(n)); err == nil {
				t.Fatalf("%s: %d of %d bytes are accepted", name, n, len(b))
			}
		}
	}
}

// With checksums on the metadata and on the chunks, no damaged byte goes
// unnoticed: it does no harm or is an error.
func TestDamage(t *testing.T) {
	b := testdata(t)["edges110"]
	want := h5pyValues(35)
	noticed := 0
	for i := range b {
		for _, bit := range []byte{1, 0x80} {
			c := bytes.Clone(b)
			c[i] ^= bit
			var v []float64
			var d *Dataset
			f, err := New("f.h5", bytes.NewReader(c), int64(len(c)))
			if err == nil {
				d, err = f.Dataset("/edges")
			}
			if err == nil {
				v, err = d.At()
			}
			if err != nil {
				noticed++
			} else if k, ok := same(v, want); !ok {
				t.Errorf("bit %#x of byte %d changes element %d, and no error", bit, i, k)
			}
		}
	}
	if noticed < 1000 { // the rest is outside all structures that are read
		t.Errorf("%d of %d changes are errors", noticed, 2*len(b))
	}

	// Each byte of every chunk, with one checksum or two. (A changed bit of
	// deflate's may still say the same, such as an equal string elsewhere.)
	for _, name := range []string{"latest", "default"} {
		b := testdata(t)[name]
		for _, path := range []string{"/trajectories", "/metrics/energy", "/edges", "/half"} {
			f, err := New("f.h5", bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			d, err := f.Dataset(path)
			if err != nil {
				t.Fatal(err)
			}
			good, err := d.At()
			if err != nil || len(d.places) == 0 {
				t.Fatal(len(d.places), err)
			}
			for _, p := range d.places {
				for i := p.at; i < p.at+p.size; i++ {
					b[i] ^= 4
					d.cache = cache{}
					if v, err := d.At(); err == nil && !slices.Equal(v, good) {
						t.Errorf("%s %s: a change of byte %d is no error", name, path, i)
					}
					b[i] ^= 4
				}
			}
		}
	}
}

// A chunk says which filters it skipped.
func TestSkippedFilter(t *testing.T) {
	m := newMemory()
	w, err := Create(m,
		[]Spec{{Path: "/x", Type: Float32, Shape: []int{2, 2}, Chunk: []int{1, 2}, Gzip: 1, Shuffle: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := w.Write("/x", []int{i, 0}, []float64{1, 2}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	at := uint64(len(m.b))
	m.b = Float32.append(m.b, []float64{3, 4})
	d, err := m.open(t).Dataset("/x")
	if err != nil {
		t.Fatal(err)
	}
	d.places[1] = extent{at, 8, 3}
	if v, err := d.At(); err != nil || !slices.Equal(v, []float64{1, 2, 3, 4}) {
		t.Error(v, err)
	}
	d.places[1], d.cache = extent{at, 8, 2}, cache{} // still shuffled
	if v, err := d.At(1); err != nil || slices.Equal(v, []float64{3, 4}) {
		t.Error(v, err)
	}
}

func TestElementRefuses(t *testing.T) {
	f := &File{path: "f.h5"}
	for _, c := range []struct {
		message string
		want    string // an element, or the value of the error
	}{
		{string(Float16.message()), "{0 2 LittleEndian}"},
		{string(Float32.message()), "{0 4 LittleEndian}"},
		{string(Float64.message()), "{0 8 LittleEndian}"},
		{string(Int32.message()), "{1 4 LittleEndian}"},
		{"\x10\x00\x00\x00\x04\x00\x00\x00\x00\x00\x20\x00", "{2 4 LittleEndian}"},
		{"\x10\x09\x00\x00\x08\x00\x00\x00\x00\x00\x40\x00", "{1 8 BigEndian}"},
		{"\x10\x08\x00\x00\x04\x00\x00\x00\x00\x00\x1f\x00", "an integer of 31 bits in 4 bytes"},
		{"\x10\x08\x00\x00\x03\x00\x00\x00\x00\x00\x18\x00", "an integer of 24 bits in 3 bytes"},
		{"\x10\x08\x00\x00\x04\x00\x00\x00", "an integer of 0 bits in 4 bytes"},
		{"\x11\x20\x1f\x00\x04\x00\x00\x00\x00\x00\x20\x00\x17\x08\x00\x17\x64\x00\x00\x00",
			"a float of 4 bytes that is not IEEE"},
		{"\x11\x60\x1f\x00\x04\x00\x00\x00\x00\x00\x20\x00\x17\x08\x00\x17\x7f\x00\x00\x00",
			"a float of 4 bytes that is not IEEE"},
		{string(Float32.message()[:19]), "a float of 4 bytes that is not IEEE"},
		{"\x11\x20\x4f\x00\x10\x00\x00\x00", "a float of 16 bytes"},
		{"\x13\x00\x00\x00\x05\x00\x00\x00", "{3 5 LittleEndian}"},
		{"\x13\x00\x00\x00\x00\x00\x00\x00", "13 00 00 00 00 00 00 00"},
		{"\x13\x00\x00\x00\xff\xff\xff\xff", "13 00 00 00 ff ff ff ff"},
		{"\x13\x00\x00", "13 00 00"},
		{string(stringType), "{4 16 LittleEndian}"},
		{"\x19\x00" + string(stringType[2:]), "a sequence"},
		{"\x16\x00\x00\x00\x05\x00\x00\x00", "class 6"},
	} {
		e, err := f.element("x", &cursor{b: []byte(c.message)})
		var got string
		if err != nil {
			got = err.(*Error).Value
		} else {
			got = fmt.Sprintf("{%d %d %v}", e.class, e.size, e.order)
		}
		if got != c.want {
			t.Errorf("% x: %s, want %s", c.message, got, c.want)
		}
		if _, ok := e.exported(); err == nil && ok != (e.class <= classSigned) {
			t.Errorf("% x: a dataset of these: %v", c.message, ok)
		}
	}
}

// Elements without chunks that are not where the file says.
func TestHostileRun(t *testing.T) {
	const size = "\x08\x00\x18\x00\x00\x00\x00\x00\x03\x01" // the layout's message, of 24 bytes
	for _, c := range []struct {
		offset int
		value  uint64
		want   string
	}{
		{2, 96, ""},
		{2, 1 << 40, `"/x" layout: 48 bytes at 1099511627776: want an end within the file's `},
		{2, 1200, `"/x" layout: 48 bytes at 1200: want an end within the file's 1224 bytes`},
		{2, math.MaxUint64 - 7, `"/x" layout: 48 bytes at 18446744073709551608: want an end within`},
		{2, math.MaxUint64, `"/x" elements: never written: want a complete file`},
		{10, 47, `"/x" layout: 47 bytes: want those of [6] float64`},
		{10, 56, `"/x" layout: 56 bytes: want those of [6] float64`},
		{1, 1 | 96<<8 | 9<<56, `"/x" layout: 48 bytes at 2533274790396000: want an end within`},
		{1, 0, `"/x" layout: version 3, class 0: want version 3 to 5, class 1 (contiguous) or 2 (chunked)`},
		{0, 2, `"/x" layout: version 2, class 0: want version 3 to 5`},
		{-4, 2, `"/x" layout: stored elsewhere: want one in the object header`},
	} {
		m := newMemory()
		s := sample{specs: []Spec{{Path: "/x", Type: Float64, Shape: []int{6}}}}
		s.write(t, m)
		i := bytes.Index(m.b, []byte(size)) + len(size) - 2
		le.PutUint64(m.b[i+c.offset:], c.value)
		examine(t, m.b)
		d, err := m.open(t).Dataset("/x")
		if err == nil {
			_, err = d.At()
		}
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// Whatever bytes are changed, reading ends, in bounded memory, without panic.
func TestMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	files := testdata(t)
	m := newMemory()
	trajectory(4).write(t, m)
	files["trajectory"] = m.b
	for name, b := range files {
		refused := 0
		n := 400
		for range n {
			c := bytes.Clone(b)
			for range 1 + r.IntN(3) {
				at := r.IntN(len(c) - 8)
				switch r.IntN(3) {
				case 0:
					c[at] = byte(r.Uint32())
				case 1:
					binary.LittleEndian.PutUint64(c[at&^7:], r.Uint64N(uint64(len(c))))
				case 2:
					copy(c[at:at+8], bytes.Repeat([]byte{255}, 8))
				}
			}
			if examine(t, c) > 0 {
				refused++
			}
			if t.Failed() {
				t.Fatalf("%s", name)
			}
		}
		if refused == 0 {
			t.Errorf("%s: none of %d mutations was noticed", name, n)
		}
	}
}

// Lies that only a reader with a plan would tell.
func TestHostile(t *testing.T) {
	le := binary.LittleEndian
	field := func(b []byte, signature string, nth, offset int) []byte {
		at := 0
		for range nth + 1 {
			i := bytes.Index(b[at:], []byte(signature))
			if i < 0 {
				t.Fatalf("no %s", signature)
			}
			at += i + len(signature)
		}
		return b[at-len(signature)+offset:]
	}
	address := func(b []byte, signature string, nth int) uint64 {
		return uint64(len(b) - len(field(b, signature, nth, 0)))
	}
	spec := func(gzip int) []Spec {
		return []Spec{{Path: "/x", Type: Float64, Shape: []int{100, 2}, Chunk: []int{1, 2}, Gzip: gzip}}
	}
	layout := string([]byte{3, 2, 3}) // of the message: version 3, chunked, 3 axes
	// In these files the trees follow one another: two leaves and the root of
	// the chunks, then the tree of the group.
	const root = 2
	for _, c := range []struct {
		name   string
		gzip   int
		change func(b []byte)
		want   string
	}{
		{"as it is", 0, func(b []byte) {}, ""},
		{"compressed", 4, func(b []byte) {}, ""},
		{"tree in a circle", 0, func(b []byte) {
			le.PutUint64(field(b, "TREE", root, 24+32), address(b, "TREE", root))
		}, `level 1: want level 0`},
		{"tree that skips a level", 0, func(b []byte) { field(b, "TREE", root, 5)[0] = 2 }, `level 0: want level 1`},
		{"tree of the other kind", 0, func(b []byte) { field(b, "TREE", root, 4)[0] = 0 }, `kind 0: want kind 1`},
		{"leaf twice", 0, func(b []byte) { le.PutUint64(field(b, "TREE", root, 24+32+40), address(b, "TREE", 0)) },
			`listed twice: want each chunk once`},
		{"tree without end", 0, func(b []byte) { le.PutUint16(field(b, "TREE", 0, 6), 65535) },
			`want an end within the file's`},
		{"chunk outside the file", 0, func(b []byte) { le.PutUint64(field(b, "TREE", 0, 24+32), 1<<62) },
			`16 bytes at 4611686018427387904: want an end within`},
		{"chunk that ends outside", 0, func(b []byte) { le.PutUint64(field(b, "TREE", 0, 24+32), uint64(len(b)-15)) },
			`want an end within the file's`},
		{"chunk too short", 0, func(b []byte) { le.PutUint32(field(b, "TREE", 0, 24), 15) },
			`"/x" chunk [0,0]: 15 bytes: want what the filters make of 16`},
		{"chunk too long", 0, func(b []byte) { le.PutUint32(field(b, "TREE", 0, 24), 17) },
			`"/x" chunk [0,0]: 17 bytes: want what the filters make of 16`},
		{"chunk off the grid", 0, func(b []byte) { le.PutUint64(field(b, "TREE", 0, 24+16), 1) },
			`index 1 on axis 1: want a multiple of [1,2] within [100,2]`},
		{"chunk off the shape", 0, func(b []byte) { le.PutUint64(field(b, "TREE", 0, 24+8), 100) },
			`index 100 on axis 0: want a multiple of [1,2] within [100,2]`},
		{"chunks that overlap", 4, func(b []byte) {
			for i := range 64 {
				le.PutUint32(field(b, "TREE", 0, 24+40*i), 1000)
				le.PutUint64(field(b, "TREE", 0, 24+40*i+32), 100)
			}
		}, ` bytes of chunks: want at most the file's `},
		{"filter skipped", 4, func(b []byte) { field(b, "TREE", 0, 28)[0] = 1 }, `want what the filters make of 16`},
		{"deflated chunk damaged", 4, func(b []byte) { b[111+le.Uint32(b[100:])] ^= 1 },
			`inflating: zlib: invalid checksum: want the bytes that were written`},
		{"not deflated", 4, func(b []byte) { le.PutUint64(field(b, "TREE", 0, 24+32), 300) },
			`inflating: zlib: invalid header: want the bytes that were written`},
		{"deflated chunk too long", 4, func(b []byte) { le.PutUint32(field(b, layout, 0, 15), 3) },
			`inflating: unexpected EOF: want the bytes that were written`},
		{"deflated chunk too short", 4, func(b []byte) { // of one column
			le.PutUint32(field(b, layout, 0, 15), 1)
			le.PutUint64(field(b, "\x01\x02\x00\x00\x00\x00\x00\x00\x64", 0, 16), 1)
		}, `inflating: more than 8 bytes: want`},
		{"bomb", 4, func(b []byte) {
			le.PutUint32(field(b, layout, 0, 11), 1<<24)
			le.PutUint32(field(b, layout, 0, 15), 16)
		}, `want what the filters make of 2147483648`},
		{"chunk of 4 GiB", 4, func(b []byte) { le.PutUint32(field(b, layout, 0, 11), 1<<29) }, `want fewer than 2^32 bytes`},
		{"chunk of nothing", 4, func(b []byte) { le.PutUint32(field(b, layout, 0, 11), 0) },
			`a dimension of 0: want one from 1 to 2^32-1`},
		{"element of 4 bytes", 4, func(b []byte) { le.PutUint32(field(b, layout, 0, 19), 4) },
			`chunk: [1,2,4]: want the axes of [100,2] and the 8 bytes of an element`},
		{"shape of 2^62", 0, func(b []byte) {
			le.PutUint64(field(b, "\x01\x02\x00\x00\x00\x00\x00\x00\x64", 0, 8), 1<<60)
		}, `want fewer bytes than an int counts`},
		{"shape of 2^40", 0, func(b []byte) {
			le.PutUint64(field(b, "\x01\x02\x00\x00\x00\x00\x00\x00\x64", 0, 8), 1<<40)
		}, `chunk [100,0]: never written: want a complete file`},
		{"no superblock", 0, func(b []byte) { clear(b[:96]) },
			`want the signature of HDF5; a file that was never finished has none`},
		{"superblock 4", 0, func(b []byte) { b[8] = 4 }, `superblock version: 4: want 0 to 3`},
		{"offsets of 4 bytes", 0, func(b []byte) { b[13] = 4 }, `offsets of 4 and lengths of 8 bytes: want 8 bytes each`},
		{"base", 0, func(b []byte) { b[25] = 2 }, `superblock base address: 512: want 0`},
		{"longer than it is", 0, func(b []byte) { le.PutUint64(b[40:], uint64(len(b)+1)) }, `bytes: want the `},
		{"root nowhere", 0, func(b []byte) { le.PutUint64(b[64:], math.MaxUint64) },
			`object header at 18446744073709551615: 0 bytes: want an end within`},
		{"root in the data", 0, func(b []byte) { le.PutUint64(b[64:], 96) },
			`version 0: want version 1 or the signature OHDR`},
		{"header without end", 0, func(b []byte) { le.PutUint32(b[le.Uint64(b[64:])+8:], 1<<31) },
			`2147483648 bytes: want an end within`},
		{"header in a circle", 0, func(b []byte) { // its only message, of 16 bytes, a continuation to itself
			root := le.Uint64(b[64:])
			le.PutUint16(b[root+16:], msgContinuation)
			le.PutUint64(b[root+24:], root+16)
			le.PutUint64(b[root+32:], 24)
		}, `read again: want metadata that does not refer to itself`},
		{"message cut short", 0, func(b []byte) { b[le.Uint64(b[64:])+18] = 24 }, `a message cut short: want whole messages`},
		{"heap nowhere", 0, func(b []byte) { le.PutUint64(field(b, "HEAP", 0, 24), 1<<40) },
			`local heap at 1099511627776: 16 bytes: want an end within`},
		{"name outside the heap", 0, func(b []byte) { le.PutUint64(field(b, "SNOD", 0, 8), 1<<40) },
			`name at: 1099511627776: want one that ends within the heap's 16 bytes`},
		{"name without end", 0, func(b []byte) { copy(b[le.Uint64(field(b, "HEAP", 0, 24)):], "0123456789abcdef") },
			`name at: 8: want one that ends within the heap's 16 bytes`},
		{"soft link", 0, func(b []byte) { field(b, "SNOD", 0, 24)[0] = 2 },
			`path: "/x": want an object in this file, not a soft or external link`},
		{"group in itself", 0, func(b []byte) { le.PutUint64(field(b, "SNOD", 0, 16), le.Uint64(b[64:])) },
			`"/x" dataspace: missing: want a dataset`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			w, err := Create(m, spec(c.gzip))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if err := w.Write("/x", []int{i, 0}, []float64{float64(i), 0.5}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			c.change(m.b)
			examine(t, m.b)
			f, err := New("dir/f.h5", m, int64(len(m.b)))
			var d *Dataset
			if err == nil {
				d, err = f.Dataset("/x")
			}
			if err == nil {
				_, err = d.At()
			}
			if err == nil && c.want != "" || err != nil && (c.want == "" ||
				!strings.HasPrefix(err.Error(), "dir/f.h5: ") || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got  %v\nwant dir/f.h5: ... %s", err, c.want)
			}
		})
	}
}

// Integers that float64 does not contain, and NaNs with a payload.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		e    element
		b    []byte
		want float64
		ok   bool
	}{
		{element{classSigned, 8, binary.LittleEndian}, []byte{0, 0, 0, 0, 0, 0, 32, 0}, 1 << 53, true},
		{element{classSigned, 8, binary.LittleEndian}, []byte{1, 0, 0, 0, 0, 0, 32, 0}, 0, false},
		{element{classSigned, 8, binary.BigEndian}, []byte{255, 224, 0, 0, 0, 0, 0, 0}, -1 << 53, true},
		{element{classSigned, 8, binary.BigEndian}, []byte{255, 223, 255, 255, 255, 255, 255, 255}, 0, false},
		{element{classUnsigned, 8, binary.LittleEndian}, []byte{0, 0, 0, 0, 0, 0, 0, 128}, 0, false},
		{element{classSigned, 1, binary.LittleEndian}, []byte{0x80}, -128, true},
		{element{classUnsigned, 2, binary.BigEndian}, []byte{0x80, 1}, 0x8001, true},
		{element{classFloat, 2, binary.LittleEndian}, []byte{1, 0xfc}, fp16.NaN, true},
		{element{classFloat, 2, binary.BigEndian}, []byte{0x80, 1}, -0x1p-24, true},
		{element{classFloat, 4, binary.LittleEndian}, []byte{1, 0, 0x80, 0xff}, fp16.NaN, true},
		{element{classFloat, 4, binary.BigEndian}, []byte{0x80, 0, 0, 0}, math.Copysign(0, -1), true},
		{element{classFloat, 8, binary.BigEndian}, []byte{0x7f, 0xf0, 0, 0, 0, 0, 0, 1}, fp16.NaN, true},
	} {
		v := make([]float64, 1)
		ok := c.e.floats(v, c.b)
		if ok != c.ok || ok && math.Float64bits(v[0]) != math.Float64bits(c.want) {
			t.Errorf("%v % x: %v %v, want %v %v", c.e, c.b, v, ok, c.want, c.ok)
		}
	}
}

// Values of the checksums from outside: lookup3 of its author's examples, and
// fletcher32 of the chunks that libhdf5 wrote is checked by TestH5py.
func TestChecksums(t *testing.T) {
	for s, want := range map[string]uint32{"": 0xdeadbeef, "Four score and seven years ago": 0x17770551} {
		if got := lookup3([]byte(s)); got != want {
			t.Errorf("lookup3(%q) = %#x, want %#x", s, got, want)
		}
	}
	// The sums of the definition, without any folding on the way.
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 3, 719, 720, 721, 100_001} {
		random, ones := make([]byte, n), bytes.Repeat([]byte{255}, n)
		for i := range random {
			random[i] = byte(r.Uint32())
		}
		for _, b := range [][]byte{random, ones, make([]byte, n)} {
			var s1, s2 uint64
			for i := 0; i < len(b); i += 2 {
				s1 += uint64(b[i]) << 8
				if i+1 < len(b) {
					s1 += uint64(b[i+1])
				}
				s2 += s1
			}
			modulo := func(s uint64) uint32 {
				if s > 0 && s%65535 == 0 {
					return 65535
				}
				return uint32(s % 65535)
			}
			if got, want := fletcher32(b), modulo(s2)<<16|modulo(s1); got != want {
				t.Errorf("fletcher32 of %d bytes: %#x, want %#x", n, got, want)
			}
		}
	}
}
