package hdf5

import (
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Write writes elements of the dataset at path, beginning with the one whose
// index is at, which for a scalar is empty. Each element is written once.
//
// In a dataset with chunks, at is the first index of a chunk and values are
// the chunk's elements in row-major order; of a chunk that reaches beyond the
// shape, those inside. In one without, values are any run of the dataset's
// elements in row-major order; of them only the number is checked in the end.
//
// Storing never rounds: a value that the type does not contain is an error.
// NaNs are stored as the quiet one without payload.
func (w *Writer) Write(path string, at []int, values []float64) error {
	d := w.datasets[path]
	if d == nil {
		return &Error{Field: "path", Value: fault.Text(path), Want: "a dataset of this file"}
	}
	if w.done {
		return d.wrong("elements", fault.Dims(at), "nothing after Finish")
	}
	if err := d.within(at); err != nil {
		return err
	}
	for i, v := range values {
		if !d.Type.holds(v) {
			return d.wrong(fmt.Sprintf("value %d of %s", i, fault.Dims(at)), strconv.FormatFloat(v, 'g', -1, 64),
				"a number of "+d.Type.String())
		}
	}
	w.raw = d.Type.append(w.raw[:0], values)
	if d.Chunk == nil {
		return w.run(d, at, len(values))
	}
	return w.chunk(d, at, w.raw)
}

// within compares an index with the shape.
func (d *output) within(at []int) error {
	wrong := len(at) != len(d.Shape)
	for i := 0; i < len(at) && !wrong; i++ {
		wrong = at[i] < 0 || at[i] >= d.Shape[i]
	}
	if wrong {
		return d.wrong("index", fault.Dims(at), "one within "+fault.Dims(d.Shape))
	}
	return nil
}

// vacant returns the number of the chunk that begins at an index, which is not written yet.
func (d *output) vacant(at []int) (int, error) {
	where := make([]int, len(at))
	for i, x := range at {
		if where[i] = x / d.Chunk[i]; x%d.Chunk[i] != 0 {
			return 0, d.wrong("index", fault.Dims(at), "a multiple of "+fault.Dims(d.Chunk))
		}
	}
	k := number(where, d.grid().counts())
	if d.chunks[k].size != 0 {
		return 0, d.wrong("chunk "+fault.Dims(at), "written again", "each written once")
	}
	return k, nil
}

// run stores w.raw, n elements, at its place.
func (w *Writer) run(d *output, at []int, n int) error {
	first := number(at, d.Shape)
	if total, _ := product(1, d.Shape); n > total-first {
		return d.wrong("elements", fmt.Sprintf("%d from %s", n, fault.Dims(at)),
			fmt.Sprintf("at most the %d that follow", total-first))
	}
	if n > d.left {
		return d.wrong("elements", fmt.Sprintf("%d from %s", n, fault.Dims(at)), "each written once")
	}
	if _, err := w.f.WriteAt(w.raw, d.at+int64(first*d.Type.Size())); err != nil {
		return err
	}
	d.left -= n
	return nil
}

// chunk stores the bytes of elements as a chunk, and leaves them as they are.
func (w *Writer) chunk(d *output, at []int, values []byte) error {
	size := d.Type.Size()
	n := len(values) / size
	k, err := d.vacant(at)
	if err != nil {
		return err
	}
	extent := d.grid().inside(at)
	have, _ := product(1, extent)
	whole, _ := product(1, d.Chunk)
	if n != have {
		return d.wrong("chunk "+fault.Dims(at), fault.Count(n, "value"),
			fmt.Sprintf("the %d of %s", have, fault.Dims(extent)))
	}
	raw := values
	if have != whole { // fill it up with zeros
		raw = make([]byte, whole*size)
		zero := make([]int, len(at))
		rows(extent, part{extent, zero}, part{d.Chunk, zero}, func(from, to, n int) {
			copy(raw[to*size:], values[from*size:(from+n)*size])
		})
	}
	if d.Shuffle {
		w.sorted = slices.Grow(w.sorted[:0], len(raw))[:len(raw)]
		shuffle(w.sorted, raw, size)
		raw = w.sorted
	}
	var record [recordSize]byte
	w.packed.Reset()
	w.packed.Write(record[:]) // room for it
	switch {
	case d.Gzip == 0:
		w.packed.Write(raw)
	case d.Gzip == Huffman && d.Shuffle:
		w.code(raw, whole)
	default:
		err = w.deflate(raw, d.Gzip)
	}
	if err != nil {
		return err
	}
	return w.put(d, k)
}

// put appends chunk k, whose bytes stand in w.packed behind room for the record.
func (w *Writer) put(d *output, k int) error {
	b := w.packed.Bytes()
	stored := uint32(len(b) - recordSize)
	le.PutUint32(b, d.ordinal)
	le.PutUint32(b[4:], stored)
	le.PutUint64(b[8:], uint64(k))
	if _, err := w.f.WriteAt(b, w.end); err != nil {
		return err
	}
	d.chunks[k] = place{w.end + recordSize, stored}
	d.left--
	w.end += int64(len(b))
	return nil
}

// deflate appends the compressed bytes to w.packed.
func (w *Writer) deflate(raw []byte, level int) error {
	if w.z == nil || w.level != level {
		var err error
		if w.z, err = zlib.NewWriterLevel(&w.packed, level); err != nil {
			return err
		}
		w.level = level
	} else {
		w.z.Reset(&w.packed)
	}
	w.z.Write(raw) // an error stays with it
	return w.z.Close()
}

// code appends shuffled bytes as deflate has them to w.packed. Each part of that size, the bytes
// of one significance, has codes of its own, or stands as it is where codes would gain little.
func (w *Writer) code(raw []byte, part int) {
	w.packed.Write([]byte{0x78, 0x01}) // RFC 1950: deflate, a window of 32 KB, the fastest
	for p := range slices.Chunk(raw, part) {
		if uneven(p) {
			w.codes.write(&w.packed, p)
			continue
		}
		for b := range slices.Chunk(p, 1<<16-1) { // RFC 1951, 3.2.4
			n := uint16(len(b))
			w.packed.Write([]byte{0, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)})
			w.packed.Write(b)
		}
	}
	w.packed.Write([]byte{1, 0, 0, 0xff, 0xff}) // the last block, of nothing
	w.packed.Write(binary.BigEndian.AppendUint32(nil, adler(raw)))
}

// uneven reports whether two of some 4096 of the bytes are equal more than twice as often as if
// all bytes were as likely; codes of others save a few hundredths at most.
func uneven(b []byte) bool {
	var counts [256]int
	step := max(1, len(b)>>12) | 1
	n := 0
	for i := 0; i < len(b); i += step {
		counts[b[i]]++
		n++
	}
	equal := 0
	for _, c := range counts {
		equal += c * (c - 1)
	}
	return 128*equal > n*(n-1)
}

// replay takes the chunk at w.end, which ends before limit, into the index.
func (w *Writer) replay(limit int64) error {
	wrong := func(value string) error {
		return &Error{Field: fmt.Sprintf("record at %d", w.end), Value: value, Want: "a chunk of these datasets"}
	}
	var b [recordSize]byte
	if _, err := w.f.ReadAt(b[:], w.end); err == io.EOF {
		return wrong(err.Error())
	} else if err != nil {
		return err
	}
	ordinal, stored := le.Uint32(b[:]), le.Uint32(b[4:])
	k := le.Uint64(b[8:])
	next := w.end + recordSize + int64(stored)
	if ordinal >= uint32(len(w.order)) || next > limit {
		return wrong(fmt.Sprintf("% x", b))
	}
	d := w.order[ordinal]
	if k >= uint64(len(d.chunks)) || d.chunks[k].size != 0 || stored == 0 {
		return wrong(fmt.Sprintf("% x", b))
	}
	d.chunks[k] = place{w.end + recordSize, stored}
	d.left--
	w.end = next
	return nil
}

// Checkpoint makes everything written so far durable and returns the state
// from which [Resume] continues.
func (w *Writer) Checkpoint() (State, error) {
	if err := w.f.Sync(); err != nil {
		return State{}, err
	}
	s := State{Layout: w.layout, Size: w.end}
	for _, d := range w.order {
		if d.Chunk == nil {
			s.Missing = append(s.Missing, d.left)
		}
	}
	return s, nil
}

// append appends values, which the type contains, to b.
func (t Type) append(b []byte, values []float64) []byte {
	switch t {
	case Int32:
		for _, v := range values {
			b = le.AppendUint32(b, uint32(int32(v)))
		}
	case Int64:
		for _, v := range values {
			b = le.AppendUint64(b, uint64(int64(v)))
		}
	case Uint8, Bool:
		for _, v := range values {
			b = append(b, uint8(v))
		}
	default:
		return t.format().Append(b, values)
	}
	return b
}
