package npy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzParse: any bytes are refused in one line or are a file whose numbers
// survive a round trip.
func FuzzParse(f *testing.F) {
	seed(f, "*.npy")
	f.Add(of("'<f4'", "(4294967296, 4294967296)", 0))
	f.Add(version(3, 0, "{\"shape\":(0,2,),'fortran_order':True,'descr':'>f2'}", 0))
	f.Add([]byte(magic + "\x02\x00\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parse("f", data)
		if err != nil {
			oneLine(t, err)
			return
		}
		again(t, a, len(data))
	})
}

// FuzzNPZ: the same of archives; and bytes that are an entry, stored or
// deflated, are the array that they are as a file.
func FuzzNPZ(f *testing.F) {
	seed(f, "*.npz")
	seed(f, "*.npy")
	one := of("'<f4'", "(2,)", 8)
	f.Add(deflate(one))
	f.Add(append(deflate(one), 0))
	f.Add(archive(stored("a.npy", one), deflated("b/c.npy", one)))
	f.Add(archive(deflated("a.npy", one).with(func(e *lie) { e.size = 1 << 40 })))
	f.Add(inDirectory(archive(stored("a.npy", one), stored("b.npy", one)), 42, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		z, err := parseArchive("f", data)
		if err != nil {
			oneLine(t, err)
		} else {
			for _, name := range z.Names() {
				a, err := z.Array(name)
				if err != nil {
					oneLine(t, err)
					continue
				}
				again(t, a, 1032*len(data))
			}
		}

		asEntry(t, stored("a.npy", data), data, true)
		packed := bytes.NewReader(data)
		content, err := io.ReadAll(io.LimitReader(flate.NewReader(packed), 1<<20))
		if err == nil && len(content) < 1<<20 {
			e := stored("a.npy", content)
			e.method, e.packed = zip.Deflate, data
			asEntry(t, e, content, packed.Len() == 0)
		}
	})
}

// asEntry compares an entry of an archive with the same content as a file.
// Unless the entry is whole, it must be refused.
func asEntry(t *testing.T, e lie, content []byte, whole bool) {
	t.Helper()
	z, err := parseArchive("f", archive(e))
	if err != nil {
		t.Fatal(err)
	}
	got, err := z.Array("a")
	if err != nil {
		oneLine(t, err)
	}
	want, wantErr := parse("f", content)
	if (err == nil) != (wantErr == nil && whole) {
		t.Fatalf("as an entry: %v; as a file: %v; whole: %v", err, wantErr, whole)
	}
	if err != nil {
		return
	}
	v, err := got.Float64s()
	w, wantErr := want.Float64s()
	if (err == nil) != (wantErr == nil) || !slices.Equal(got.Shape, want.Shape) || got.DType != want.DType {
		t.Fatalf("as an entry: %v, %v; as a file: %v, %v", got, err, want, wantErr)
	}
	same(t, "as an entry", v, w)
}

func seed(f *testing.F, pattern string) {
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	var e *Error
	line := err.Error()
	if !errors.As(err, &e) || strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "f: ") ||
		!strings.Contains(line, ": want ") {
		t.Errorf("not the form of an error: %q", line)
	}
}

// again reads an array of at most so many bytes whole and in parts, writes it
// and reads it again.
func again(t *testing.T, a *Array, most int) {
	t.Helper()
	if a.Len() > most {
		t.Fatalf("%d elements of %d bytes", a.Len(), most)
	}
	if b, err := a.BFloat16(); err == nil {
		a = b
	}
	values, err := a.Float64s()
	if err != nil {
		oneLine(t, err)
		return
	}
	part := make([]float64, len(values)/2)
	if err := a.ReadFloat64s(part, len(values)/3); err != nil {
		t.Fatal(err)
	}
	same(t, "part", part, values[len(values)/3:][:len(part)])
	format, ok := a.Format()
	if !ok {
		return
	}
	b, err := parse("again", write(t, format, a.Shape, values))
	if err != nil {
		t.Fatal(err)
	}
	if a.element.kind == 'b' {
		if b, err = b.BFloat16(); err != nil {
			t.Fatal(err)
		}
	}
	back, err := b.Float64s()
	if err != nil || !slices.Equal(b.Shape, a.Shape) || b.FortranOrder {
		t.Fatal(b, err)
	}
	same(t, "again", back, values)
	if !bytes.Equal(write(t, format, b.Shape, back), write(t, format, a.Shape, values)) {
		t.Fatal("written differently")
	}
}
