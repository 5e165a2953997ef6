package hdf5

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/ground/fault"
)

// StoredChunk returns the bytes of the chunk that begins at an index as they lie in the
// file, filtered, for [Writer.CopyChunk].
func (d *Dataset) StoredChunk(at ...int) ([]byte, error) {
	p, err := d.Place(at...)
	if err != nil {
		return nil, err
	}
	if d.grid.chunk == nil {
		return nil, d.wrong("chunk", "none", "a dataset in chunks")
	}
	b := make([]byte, p.Size)
	if err := d.f.readAt(b, p.At); err != nil {
		return nil, fmt.Errorf("%s: %s: %w: want its elements", d.f.path, fault.Text(d.Path), err)
	}
	return b, nil
}

// Storable reports whether chunks of the dataset, as they are stored, are chunks of a
// dataset that s declares: of one type, one shape and the same filters. The level of
// compression is no part of what is stored.
func (d *Dataset) Storable(s Spec) bool {
	var want []filter
	if s.Shuffle {
		want = append(want, filter{filterShuffle, s.Type.Size()})
	}
	if s.Gzip != 0 {
		want = append(want, filter{filterDeflate, 0})
	}
	same := func(a, b filter) bool { return a.id == b.id && (a.id == filterDeflate || a.value == b.value) }
	for _, p := range d.places {
		if p.skipped != 0 {
			return false
		}
	}
	return d.Type == s.Type && slices.Equal(d.grid.chunk, s.Chunk) && slices.EqualFunc(d.filters, want, same)
}

// CopyChunk is [Writer.Write] of a whole chunk of which the stored bytes are known, from
// [Dataset.StoredChunk] of a dataset that is [Dataset.Storable] here. They are not looked into.
func (w *Writer) CopyChunk(path string, at []int, stored []byte) error {
	d, err := w.chunked(path, at)
	if err != nil {
		return err
	}
	k, err := d.vacant(at)
	if err != nil {
		return err
	}
	w.packed.Reset()
	w.packed.Write(make([]byte, recordSize))
	w.packed.Write(stored)
	return w.put(d, k)
}

// chunked returns the dataset of a path, which is in chunks and has an element there.
func (w *Writer) chunked(path string, at []int) (*output, error) {
	d := w.datasets[path]
	if d == nil || d.Chunk == nil {
		return nil, &Error{Field: "path", Value: fault.Text(path), Want: "a dataset in chunks of this file"}
	}
	if w.done {
		return nil, d.wrong("elements", fault.Dims(at), "nothing after Finish")
	}
	return d, d.within(at)
}
