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
				if err := d.Read(make([]float64, 1), at); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`"/x" elements: 1 from %d on: want some of `, at)) {
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

// TestBounded: few bytes that shall become many are refused, whether of one chunk or of
// thousands.
func TestBounded(t *testing.T) {
	for _, k := range []struct {
		n    int
		want string
	}{{30, ""}, {40, `chunks: 40 of 1048576 bytes each: want at most `}} {
		m := newMemory()
		w, err := Create(m, []Spec{{Path: "/x", Type: Float32, Shape: []int{k.n, 1 << 18}, Chunk: []int{1, 1 << 18}, Gzip: 9}})
		if err != nil {
			t.Fatal(err)
		}
		zeros := make([]float64, 1<<18)
		for i := range k.n {
			if err := w.Write("/x", []int{i, 0}, zeros); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		_, err = m.open(t).Dataset("/x")
		if (err == nil) != (k.want == "") || err != nil && !strings.Contains(err.Error(), k.want) {
			t.Errorf("%d chunks: %v", k.n, err)
		}
	}
}
