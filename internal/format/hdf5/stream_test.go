package hdf5

import (
	"fmt"
	"strings"
	"testing"
)

// TestRead: elements read from any place are those of the whole, whatever the chunks
// are, and an index that is none is an error.
func TestRead(t *testing.T) {
	for _, shape := range [][]int{{}, {7}, {5, 6}, {3, 4, 5}, {2, 3, 4, 3, 5}} {
		for _, edge := range []int{0, 1, 2, 3, 4, 100} {
			spec := Spec{Path: "/x", Type: Float32, Shape: shape}
			if edge > 0 && len(shape) > 0 {
				spec.Gzip, spec.Shuffle = 1, true
				for i, n := range shape {
					if i%2 == 1 && edge == 3 { // whole axes between others
						spec.Chunk = append(spec.Chunk, n)
					} else {
						spec.Chunk = append(spec.Chunk, min(edge, n))
					}
				}
			}
			m := newMemory()
			sample{specs: []Spec{spec}}.write(t, m)
			d, err := m.open(t).Dataset("/x")
			if err != nil {
				t.Fatal(err)
			}
			want := elements(spec)
			for lo := range len(want) + 1 {
				for hi := lo; hi <= len(want); hi += 1 + len(want)/30 {
					v := make([]float64, hi-lo)
					if err := d.Read(v, lo); err != nil {
						t.Fatal(err)
					}
					if k, ok := same(v, want[lo:hi]); !ok {
						t.Fatalf("%v in chunks of %v, elements %d to %d: element %d differs", shape, spec.Chunk, lo, hi, lo+k)
					}
				}
			}
			for _, at := range []int{-1, len(want), 1 << 60} {
				if err := d.Read(make([]float64, 1), at); err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf(`"/x" elements: 1 from %d on: want some of `, at)) {
					t.Errorf("from %d on: %v", at, err)
				}
			}
		}
	}
}

// TestCache: chunks are kept up to a number of bytes, the oldest given up first.
func TestCache(t *testing.T) {
	var c cache
	part := make([]byte, mostCached/4)
	for i := range 9 {
		c.put(i, part)
		if len(c.chunks) != min(i+1, 4) || c.held != len(c.chunks)*len(part) || len(c.order) != len(c.chunks) {
			t.Fatalf("after %d: %d chunks, %d bytes", i, len(c.chunks), c.held)
		}
		if _, ok := c.chunks[i]; !ok {
			t.Fatalf("chunk %d is not kept", i)
		}
	}
	c.put(9, make([]byte, 2*mostCached)) // alone, however large
	if len(c.chunks) != 1 || c.held != 2*mostCached {
		t.Errorf("%d chunks, %d bytes", len(c.chunks), c.held)
	}
}

// TestOneChunk: a chunk that could not be unpacked as a whole by what its file is worth
// is refused, and not before it is read: where it lies can still be asked.
func TestOneChunk(t *testing.T) {
	for _, k := range []struct {
		n    int
		want string
	}{{mostCached / 4, ""}, {mostCached/4 + 1<<16, `"/x" chunk: 33816576 bytes: want at most the `}} {
		m := newMemory()
		w, err := Create(m, []Spec{{Path: "/x", Type: Float32, Shape: []int{k.n}, Chunk: []int{k.n}, Gzip: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write("/x", []int{0}, make([]float64, k.n)); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		d, err := m.open(t).Dataset("/x")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Read(make([]float64, 1), k.n-1); (err == nil) != (k.want == "") ||
			err != nil && !strings.Contains(err.Error(), k.want) {
			t.Errorf("%d elements: %v", k.n, err)
		}
	}
}
