package hdf5

import (
	"errors"
	"fmt"
	"io"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Place is where bytes lie in a file.
type Place struct{ At, Size int64 }

// Place returns where the dataset at path lies in the file, if it has no chunks.
func (w *Writer) Place(path string) (Place, bool) {
	d := w.datasets[path]
	if d == nil || d.Chunk != nil {
		return Place{}, false
	}
	n, _ := product(d.Type.Size(), d.Shape)
	return Place{d.at, int64(n)}, true
}

// Chunk is a chunk as a partial file holds it.
type Chunk struct {
	Place            // of its bytes as they are stored
	Path      string // of its dataset
	Number    int    // in row-major order
	recordEnd int64  // of what came before
}

// Survey lists the chunks of a partial file in the order in which they were
// written, as far as the records before them make sense, and at most up to the
// state. It changes nothing; [Resume] with the state that [Truncated] makes of the
// list continues from the last chunk that is wanted.
func Survey(f Storage, specs []Spec, s State) ([]Chunk, error) {
	w, err := newWriter(f, specs)
	if err != nil {
		return nil, err
	}
	var all []Chunk
	for w.end < s.Size {
		before := w.end
		err := w.replay(s.Size)
		var b [recordSize]byte
		if err == nil {
			_, err = f.ReadAt(b[:], before)
		}
		if errors.As(err, new(*Error)) || errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // the disk's, which says nothing of the file
			return nil, err
		}
		d := w.order[le.Uint32(b[:])]
		k := int(le.Uint64(b[8:]))
		p := d.chunks[k]
		all = append(all, Chunk{Place{p.at, int64(p.size)}, d.Path, k, before})
	}
	return all, nil
}

// Layout returns a writer of these datasets that has no file: it knows where they
// begin.
func Layout(specs []Spec) (*Writer, error) { return newWriter(nil, specs) }

// WriteChunk is [Writer.Write] of a whole chunk, of which it is given the elements' bytes, and
// returns the bytes that are stored, which the next call overwrites.
func (w *Writer) WriteChunk(path string, at []int, raw []byte) ([]byte, error) {
	d, err := w.chunked(path, at)
	if err != nil {
		return nil, err
	}
	if err := w.chunk(d, at, raw); err != nil {
		return nil, err
	}
	return w.packed.Bytes()[recordSize:], nil
}

// Unpack returns the bytes of the elements of a whole chunk from what is stored of it.
func (s Spec) Unpack(stored []byte) (raw []byte, err error) {
	raw = stored
	if s.Gzip != 0 {
		n, _ := product(s.Type.Size(), s.Chunk)
		if raw, err = new(inflater).inflate(stored, n); err != nil {
			return nil, err
		}
	}
	if s.Shuffle {
		sorted := raw
		raw = make([]byte, len(sorted))
		unshuffle(raw, sorted, s.Type.Size())
	}
	return raw, nil
}

// Truncated returns the state of a file of these datasets that ends after the first
// n chunks of a survey and lacks so many elements of each dataset without chunks.
func (s State) Truncated(f Storage, specs []Spec, chunks []Chunk, n int, missing []int) (State, error) {
	w, err := newWriter(f, specs)
	if err != nil {
		return State{}, err
	}
	end := w.end
	if n > 0 {
		end = chunks[n-1].At + chunks[n-1].Size
	}
	return State{Layout: s.Layout, Size: end, Missing: missing}, nil
}

// CheckRecord reads the record before a chunk again, which no reader of the finished
// file looks at.
func (w *Writer) CheckRecord(path string, number int) error {
	d := w.datasets[path]
	p := d.chunks[number]
	var want, b [recordSize]byte
	le.PutUint32(want[:], d.ordinal)
	le.PutUint32(want[4:], p.size)
	le.PutUint64(want[8:], uint64(number))
	if _, err := w.f.ReadAt(b[:], p.at-recordSize); err != nil {
		return err
	}
	if b != want {
		return d.wrong(fmt.Sprintf("record at %d", p.at-recordSize), fmt.Sprintf("% x", b),
			fmt.Sprintf("% x, as it was written", want))
	}
	return nil
}

// clearPadding writes the bytes between datasets without chunks once more, so that
// what a disk made of them is not in the finished file.
func (w *Writer) clearPadding() error {
	for _, d := range w.order {
		if d.Chunk != nil {
			continue
		}
		n, _ := product(d.Type.Size(), d.Shape)
		if pad := -n & 7; pad > 0 {
			if _, err := w.f.WriteAt(make([]byte, pad), d.at+int64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Place returns where the bytes of a dataset without chunks lie in the file, or
// those of the chunk that begins at an index, as they are stored.
func (d *Dataset) Place(at ...int) (Place, error) {
	if d.grid.chunk == nil {
		n, ok := product(d.element.size, d.Shape)
		if d.at == undefined || !ok {
			return Place{}, d.wrong("elements", "never written", "a complete file")
		}
		return Place{int64(d.at), int64(n)}, nil
	}
	if len(at) != len(d.Shape) {
		return Place{}, d.wrong("index", fault.Dims(at), "one within "+fault.Dims(d.Shape))
	}
	where := make([]int, len(at))
	for i, x := range at {
		if x < 0 || x >= d.Shape[i] || x%d.grid.chunk[i] != 0 {
			return Place{}, d.wrong("index", fault.Dims(at), "the first of a chunk within "+fault.Dims(d.Shape))
		}
		where[i] = x / d.grid.chunk[i]
	}
	p, ok := d.places[number(where, d.grid.counts())]
	if !ok || p.at > d.f.size || p.size > d.f.size-p.at {
		return Place{}, d.wrong("chunk "+fault.Dims(at), "never written", "a complete file")
	}
	return Place{int64(p.at), int64(p.size)}, nil
}

// Size returns how long the partial file is.
func (w *Writer) Size() int64 { return w.end }
