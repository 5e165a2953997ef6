package hdf5

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/fault"
)

// view is a dataset that holds no elements: it shows a box of another one of the file.
type view struct {
	path       string
	kind       Type
	shape      []int
	of         string
	from, size []int
}

// View makes the box of a dataset that begins at an index and has a size appear as a
// dataset of its own, a virtual one of HDF5 1.10, of a shape with as many elements: in
// row-major order they are those of the box. Nothing is stored twice. t is what readers
// get; the library converts.
func (w *Writer) View(path string, t Type, shape []int, of string, from, size []int) error {
	v := view{path, t, slices.Clone(shape), of, slices.Clone(from), slices.Clone(size)}
	wrong := func(field, value, want string) error {
		return &Error{Field: fault.Text(path) + " " + field, Value: value, Want: want}
	}
	d := w.datasets[of]
	switch {
	case w.done:
		return wrong("view", fault.Text(of), "nothing after Finish")
	case d == nil:
		return wrong("view", fault.Text(of), "a dataset of this file")
	case t.Size() == 0:
		return wrong("type", t.String(), "one that is known")
	case len(shape) < 1 || len(shape) > maxRank:
		return wrong("shape", fault.Dims(shape), fmt.Sprintf("1 to %d axes", maxRank))
	case len(from) != len(d.Shape) || len(size) != len(d.Shape):
		return wrong("box", fault.Dims(from)+" "+fault.Dims(size), "the axes of "+fault.Dims(d.Shape))
	}
	for i, n := range size {
		if from[i] < 0 || n < 1 || n > d.Shape[i] || from[i] > d.Shape[i]-n || uint64(d.Shape[i]) > math.MaxUint32 {
			return wrong("box", fault.Dims(from)+" "+fault.Dims(size), "a part of "+fault.Dims(d.Shape))
		}
	}
	have, _ := product(1, size)
	if want, ok := product(1, shape); !ok || want != have {
		return wrong("shape", fault.Dims(shape), "as many elements as "+fault.Dims(size))
	}
	if err := w.claim(path); err != nil {
		return err
	}
	w.views = append(w.views, v)
	return nil
}

// words is a dataset of strings.
type words struct {
	path string
	all  []string
}

// Strings adds a dataset of strings, one axis of them, stored with as many bytes each as
// the longest takes.
func (w *Writer) Strings(path string, all []string) error {
	if w.done {
		return &Error{Field: fault.Text(path), Value: "strings", Want: "nothing after Finish"}
	}
	for _, s := range all {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > 1<<16 {
			return &Error{Field: fault.Text(path), Value: fault.Text(s), Want: "UTF-8 of at most 64 KiB, without NUL"}
		}
	}
	if err := w.claim(path); err != nil {
		return err
	}
	w.words = append(w.words, words{path, all})
	return nil
}

// Group adds a group that may stay empty.
func (w *Writer) Group(path string) error {
	if w.groups[path] {
		return nil
	}
	return w.enter(path, false)
}

// claim takes a path for a dataset.
func (w *Writer) claim(path string) error {
	if err := w.enter(path, true); err != nil {
		return err
	}
	w.taken[path] = true
	return nil
}

// mappings are the heap objects of views: a version, one mapping, its source (this file),
// and the two selections, of which that of the view is all; then a checksum.
func mappings(all []view) []string {
	var out []string
	for _, v := range all {
		b := le.AppendUint64([]byte{0}, 1)
		b = append(append(append(b, ".\x00"...), v.of...), 0)
		// A hyperslab of one block: type, version, reserved, bytes that follow, axes, blocks,
		// first and last index.
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, 2), 1), 0)
		b = le.AppendUint32(b, uint32(8+8*len(v.from)))
		b = le.AppendUint32(le.AppendUint32(b, uint32(len(v.from))), 1)
		for _, x := range v.from {
			b = le.AppendUint32(b, uint32(x))
		}
		for i, x := range v.from {
			b = le.AppendUint32(b, uint32(x+v.size[i]-1))
		}
		b = le.AppendUint32(le.AppendUint32(b, 3), 1)
		b = le.AppendUint64(b, 0)
		out = append(out, string(le.AppendUint32(b, lookup3(b))))
	}
	return out
}

// view writes the header of a view whose mapping is an object of a global heap.
func (t *tail) view(v view, heap uint64, object int, attrs []attribute) uint64 {
	at := le.AppendUint64([]byte{4, 3}, heap)
	return t.header([]message{
		{msgDataspace, dataspace(v.shape)},
		{msgDatatype, v.kind.message()},
		{msgFill, []byte{2, 3, 2, 1, 0, 0, 0, 0}},
		{msgLayout, le.AppendUint32(at, uint32(object))},
	}, attrs)
}

// words writes a dataset of strings.
func (t *tail) words(v words, attrs []attribute) uint64 {
	width := 1
	for _, s := range v.all {
		width = max(width, len(s))
	}
	data := make([]byte, width*len(v.all))
	for i, s := range v.all {
		copy(data[i*width:], s)
	}
	n := uint64(len(data))
	at := uint64(undefined)
	if n > 0 {
		at = t.add(pad(data))
	}
	kind := le.AppendUint32([]byte{0x13, 0x11, 0, 0}, uint32(width)) // filled up with NUL, UTF-8
	return t.header([]message{
		{msgDataspace, dataspace([]int{len(v.all)})},
		{msgDatatype, kind},
		{msgFill, []byte{2, 3, 2, 1, 0, 0, 0, 0}},
		{msgLayout, le.AppendUint64(le.AppendUint64([]byte{3, 1}, at), n)},
	}, attrs)
}
