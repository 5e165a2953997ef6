package npy

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Writer writes one array while it is computed.
type Writer struct {
	source
	w      io.Writer
	format fp16.Format
	count  int // of elements the header promises
	done   int
	closed bool
	buf    []byte
	err    error // the first one; all later calls return it
}

// NewWriter writes to w the header of an array of numbers of format f: type
// <f8, <f4 (also for TF32), <f2, or <u2 for the bits of bfloat16 numbers. The
// data begin at a multiple of 64, and the whole is what numpy.save writes for
// the same array, byte for byte. The error names a shape that cannot be, or
// comes from w.
func NewWriter(w io.Writer, f fp16.Format, shape []int) (*Writer, error) {
	to, err := newWriter(source{}, w, descrOf(f), f.Bytes(), shape)
	if err == nil {
		to.format = f
	}
	return to, err
}

func newWriter(src source, w io.Writer, descr string, size int, shape []int) (*Writer, error) {
	n, err := count(src, shape, size)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(headerFor(descr, shape)); err != nil {
		return nil, err
	}
	return &Writer{source: src, w: w, count: n}, nil
}

// Write writes the next elements, in row-major order. Storing never rounds: a
// value that is not a number of the format is an error, and so are more values
// than the shape has. NaNs are written as the quiet NaN without payload.
func (w *Writer) Write(values []float64) error {
	if w.err == nil && len(values) > w.count-w.done {
		w.err = w.wrong("data", fault.Count(int64(len(values)), "value"),
			fmt.Sprintf("at most the %d left of %d", w.count-w.done, w.count))
	}
	for part := range slices.Chunk(values, 1<<12) {
		if w.err != nil {
			break
		}
		w.err = w.write(part)
	}
	return w.err
}

func (w *Writer) write(values []float64) error {
	for i, v := range values {
		if !w.format.Holds(v) {
			return w.wrong("value "+strconv.Itoa(w.done+i), strconv.FormatFloat(v, 'g', -1, 64),
				"a "+w.format.String()+" number")
		}
	}
	w.done += len(values)
	w.buf = w.format.Append(w.buf[:0], values)
	_, err := w.w.Write(w.buf)
	return err
}

// Close checks that the array is whole: an error says how many elements are
// missing, or repeats the first error of Write. It does not close the
// underlying writer.
func (w *Writer) Close() error {
	w.closed = true
	if w.err == nil && w.done != w.count {
		w.err = w.wrong("data", fault.Count(int64(w.done), "value"), strconv.Itoa(w.count))
	}
	return w.err
}
