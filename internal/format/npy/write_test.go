package npy

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// A small file, byte by byte.
func TestWriteBytes(t *testing.T) {
	got := write(t, fp16.Float32, []int{2}, []float64{1, -2})
	want := magic + "\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" +
		"                                                            \n" +
		"\x00\x00\x80\x3f\x00\x00\x00\xc0"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Data begin at a multiple of 64 whatever the shape, and every shape is read
// back.
func TestAligned(t *testing.T) {
	for rank := range maxRank + 1 {
		for _, d := range []int{0, 1, 10, 1234567} {
			shape := slices.Repeat([]int{1}, rank)
			if rank > 0 {
				shape[rank/2], shape[0] = d, 0
			}
			head := headerFor("<f4", shape)
			if len(head)%align != 0 {
				t.Fatalf("%v: header of %d bytes", shape, len(head))
			}
			if rank == 0 {
				head = append(head, 0, 0, 0, 0)
			}
			if a, err := parse("x", head); err != nil || !slices.Equal(a.Shape, shape) {
				t.Fatalf("%v: %v %v", shape, a, err)
			}
		}
	}
}

// However the values are cut into calls of Write, the bytes are the same.
func TestWriteInParts(t *testing.T) {
	values := make([]float64, 10_000) // more than one buffer
	for i := range values {
		values[i] = float64(i-5000) / 8
	}
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		for i, v := range values {
			values[i] = f.Round(v)
		}
		whole := write(t, f, []int{100, 100}, values)
		var b bytes.Buffer
		w, err := NewWriter(&b, f, []int{100, 100})
		if err != nil {
			t.Fatal(err)
		}
		for rest, n := values, 0; len(rest) > 0; n = (n*2 + 1) % 300 {
			k := min(n, len(rest))
			if err := w.Write(rest[:k]); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), whole) {
			t.Errorf("%v: the parts differ from the whole", f)
		}
		a, err := parse("x", whole)
		if err != nil {
			t.Fatal(err)
		}
		if f == fp16.BFloat16 {
			if a, err = a.BFloat16(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		same(t, f.String(), got, values)
	}
}

// A value that is not on the grid, too many, too few and shapes that cannot be
// are errors that stay.
func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		format fp16.Format
		values []float64
		want   string
	}{
		{fp16.Float16, []float64{1, 0.1}, "value 1: 0.1: want a float16 number"},
		{fp16.Float16, []float64{65520}, "value 0: 65520: want a float16 number"},
		{fp16.BFloat16, []float64{257}, "value 0: 257: want a bfloat16 number"},
		{fp16.TF32, []float64{2049}, "value 0: 2049: want a tf32 number"},
		{fp16.Float32, []float64{0, 0, 1e-46}, "value 2: 1e-46: want a float32 number"},
		{fp16.Float64, []float64{1, 2, 3, 4}, "data: 4 values: want at most the 3 left of 3"},
		{fp16.Float64, []float64{1, 2}, "data: 2 values: want 3"},
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, c.format, []int{3})
		if err != nil {
			t.Fatal(err)
		}
		first := w.Write(c.values)
		n := b.Len()
		if err := w.Close(); err == nil || err.Error() != c.want || first != nil && first != err {
			t.Errorf("got  %v, %v\nwant %s", first, err, c.want)
		}
		if first != nil && (w.Write([]float64{1}) != first || b.Len() != n) {
			t.Errorf("written after the error %v", first)
		}
	}
	w, err := NewWriter(&bytes.Buffer{}, fp16.Float64, []int{2})
	if err != nil || w.Write([]float64{1}) != nil {
		t.Fatal(err)
	}
	if err := w.Write([]float64{1, math.NaN()}); err == nil ||
		err.Error() != "data: 2 values: want at most the 1 left of 2" {
		t.Error(err)
	}

	for _, c := range []struct {
		shape []int
		want  string
	}{
		{[]int{2, -1}, "shape: [2,-1]: want dimensions of 0 or more"},
		{[]int{1 << 60}, "shape: [1152921504606846976]: want fewer bytes of data than an int counts"},
		{slices.Repeat([]int{1}, 65), "shape: 65 dimensions: want at most 64"},
	} {
		var b bytes.Buffer
		if _, err := NewWriter(&b, fp16.Float64, c.shape); err == nil || err.Error() != c.want || b.Len() > 0 {
			t.Errorf("got  %v (%d bytes written)\nwant %s", err, b.Len(), c.want)
		}
	}
}

// full fails after n bytes.
type full struct{ n int }

var errFull = errors.New("full")

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.n {
		return 0, errFull
	}
	f.n -= len(b)
	return len(b), nil
}

// What goes wrong while writing is passed on, now and at the end.
func TestWriteFails(t *testing.T) {
	if _, err := NewWriter(&full{127}, fp16.Float64, []int{2}); err != errFull {
		t.Error(err)
	}
	w, err := NewWriter(&full{135}, fp16.Float64, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]float64{1, 2}); err != errFull {
		t.Error(err)
	}
	if err := w.Close(); err != errFull {
		t.Error(err)
	}
}

func TestUnknownFormat(t *testing.T) {
	defer func() {
		if p := recover(); p != "npy: unknown number format" {
			t.Errorf("panic %v", p)
		}
	}()
	NewWriter(&bytes.Buffer{}, fp16.Format(9), nil)
}
