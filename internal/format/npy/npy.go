// Package npy reads and writes numpy's .npy files and .npz archives, described
// in https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html:
// a magic string, a version, a header that is a Python dict literal naming
// element type, order and shape, and then the elements.
//
// numpy has no bfloat16. Such numbers are written as <u2, their bits as
// unsigned 16-bit integers; in Python
//
//	(a.astype(numpy.uint32) << 16).view(numpy.float32)
//
// are the numbers. Nothing in the file says so: a reader has to know, and to
// ask by [Array.BFloat16].
//
// Files may come from anywhere, so reading trusts nothing: what a file claims
// is compared with what it holds before it is used, nothing is executed or
// unpickled, and no memory is taken on the strength of a claim alone.
package npy

import (
	"compress/flate"
	"errors"
	"io"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Array is an array in a file; its elements are read when asked for.
type Array struct {
	Shape        []int  // an empty shape is a scalar
	DType        string // of the elements, as in the file, such as "<f4"
	FortranOrder bool   // the file runs through the first index fastest

	source
	element element
	count   int
	data    *io.SectionReader // the elements
	file    io.Closer         // nil if there is nothing to close
}

// Open opens the regular .npy file at path. Errors about its content are of
// type [*Error]. The array must be closed.
func Open(path string) (*Array, error) {
	file, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	a, err := Parse(path, file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	a.file = file
	return a, nil
}

// Parse reads the header of a .npy file of size bytes and checks that the data
// fill the rest of it exactly; path only names it in messages. Elements are
// read from r as they are asked for.
func Parse(path string, r io.ReaderAt, size int64) (*Array, error) {
	src := source{path: path}
	h, err := readHeader(src, io.NewSectionReader(r, 0, size), size)
	if err != nil {
		return nil, err
	}
	return h.array(src, io.NewSectionReader(r, h.end, size-h.end)), nil
}

func (h *header) array(src source, data *io.SectionReader) *Array {
	return &Array{Shape: h.shape, DType: h.descr, FortranOrder: h.fortran,
		source: src, element: h.element, count: h.count, data: data}
}

// Close closes the file of an array from [Open]; for others it does nothing.
func (a *Array) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// Len returns the number of elements.
func (a *Array) Len() int { return a.count }

// Format returns the number format of the elements; ok is false for integers.
func (a *Array) Format() (f fp16.Format, ok bool) { return a.element.format() }

// BFloat16 returns a view of an array of u2, whose file it shares, as the
// bfloat16 numbers of these bits. Any other type is an error.
func (a *Array) BFloat16() (*Array, error) {
	if a.element.kind != 'u' || a.element.size != 2 {
		return nil, a.wrong("descr", fault.Text(a.DType), "<u2 or >u2, the bits of bfloat16 numbers")
	}
	b := *a
	b.element.kind = 'b'
	return &b, nil
}

// readError says what data that end too soon or cannot be unpacked mean for the
// file; whatever else went wrong while reading is passed on.
func (s source) readError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &corrupt):
		return s.wrong("data", corrupt.Error(), "deflated bytes")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return s.wrong("data", "end early", "the bytes that size and header promise")
	}
	return err
}
