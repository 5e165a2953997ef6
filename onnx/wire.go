package onnx

import (
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// section is a stretch of a file.
type section struct{ at, end int64 }

func (s section) size() int64 { return s.end - s.at }

// field is one field of a message.
type field struct {
	number protowire.Number
	bits   uint64  // of a number
	of     section // of bytes: a string, a message, packed numbers
	sized  bool    // has bytes
}

// wire reads messages of a file through a window, which moves over it: what is stepped
// over, such as the numbers of weights, is not read.
type wire struct {
	r      io.ReaderAt
	size   int64
	window []byte
	begin  int64 // of the window
	left   int   // messages that may still come
	spent  int64 // bytes of names and of lists of numbers
	depth  int
}

// What a file may hold at most. A message takes some 200 bytes of memory, though two in
// the file may be enough.
const (
	mostMessages = 1 << 20
	mostDepth    = 32       // of messages within messages
	mostText     = 32 << 20 // bytes of names and of lists of numbers, in memory
	windowSize   = 16 << 10
)

var errEnd = errors.New("the file ends within it")

// view returns the bytes from at on, n or as many as there are before end.
func (w *wire) view(at, end int64, n int) ([]byte, error) {
	n = int(min(int64(n), end-at))
	if from := at - w.begin; from < 0 || from+int64(n) > int64(len(w.window)) {
		if w.window == nil {
			w.window = make([]byte, min(windowSize, w.size))
		}
		w.window = w.window[:min(int64(cap(w.window)), w.size-at)]
		w.begin = at
		if k, err := w.r.ReadAt(w.window, at); k < len(w.window) {
			w.window = w.window[:0]
			if err == nil || errors.Is(err, io.EOF) {
				err = errEnd
			}
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
	}
	from := int(at - w.begin)
	return w.window[from:][:n], nil
}

// fields calls f for every field of a message.
func (w *wire) fields(s section, f func(field) error) error {
	if w.depth++; w.depth > mostDepth {
		return fmt.Errorf("byte %d: message within %d others: want fewer", s.at, mostDepth)
	}
	if w.left--; w.left < 0 {
		return fmt.Errorf("byte %d: more than %d messages: want fewer", s.at, mostMessages)
	}
	defer func() { w.depth-- }()
	for at := s.at; at < s.end; {
		b, err := w.view(at, s.end, 20) // a tag and a number
		if err != nil {
			return err
		}
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("byte %d: no field: want an ONNX file", at)
		}
		v := field{number: number}
		b = b[n:]
		tag := n
		switch kind {
		case protowire.VarintType:
			v.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(b)
			v.bits = uint64(bits)
		case protowire.Fixed64Type:
			v.bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v.bits, n = protowire.ConsumeVarint(b)
			v.sized = true
		default:
			return fmt.Errorf("byte %d: field %d: a group: want an ONNX file", at, number)
		}
		if n < 0 {
			return fmt.Errorf("byte %d: field %d: not whole: want an ONNX file", at, number)
		}
		begin := at
		at += int64(tag + n)
		if v.sized {
			if v.bits > uint64(s.end-at) {
				return fmt.Errorf("byte %d: field %d: %d bytes: want at most %d, as there are", begin, number, v.bits, s.end-at)
			}
			v.of = section{at, at + int64(v.bits)}
			at = v.of.end
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// spend counts bytes of memory that what stands in a file takes: a sparse file of 2 GB may say that it has a
// name as long, or a thousand million axes.
func (w *wire) spend(at, bytes int64) error {
	if w.spent += bytes; w.spent > mostText {
		return fmt.Errorf("byte %d: more than %d bytes of names and of lists of numbers: want fewer", at, mostText)
	}
	return nil
}

// text returns bytes as a string.
func (w *wire) text(s section) (string, error) {
	if err := w.spend(s.at, s.size()); err != nil {
		return "", err
	}
	if s.size() <= windowSize {
		b, err := w.view(s.at, s.end, int(s.size()))
		return string(b), err
	}
	b := make([]byte, s.size())
	if k, err := w.r.ReadAt(b, s.at); k < len(b) {
		return "", fmt.Errorf("byte %d: %w", s.at, err)
	}
	return string(b), nil
}

// set returns a function that sets a string.
func (w *wire) set(to *string, v field) (err error) {
	*to, err = w.text(v.of)
	return err
}

// appendText adds a string to a list.
func (w *wire) appendText(to *[]string, v field) error {
	s, err := w.text(v.of)
	*to = append(*to, s)
	return err
}

// numbers calls f for every number of a repeated field, packed or not, of 1 to 10 bytes
// if width is 0, or of width bytes.
func (w *wire) numbers(v field, width int, f func(bits uint64)) error {
	if !v.sized {
		f(v.bits)
		return nil
	}
	for at := v.of.at; at < v.of.end; {
		b, err := w.view(at, v.of.end, 10)
		if err != nil {
			return err
		}
		var bits uint64
		n := width
		switch {
		case width == 0:
			bits, n = protowire.ConsumeVarint(b)
		case len(b) < width:
			n = -1
		case width == 4:
			var short uint32
			short, n = protowire.ConsumeFixed32(b)
			bits = uint64(short)
		default:
			bits, n = protowire.ConsumeFixed64(b)
		}
		if n < 0 {
			return fmt.Errorf("byte %d: a number that is not whole: want an ONNX file", at)
		}
		f(bits)
		at += int64(n)
	}
	return nil
}

// ints adds the numbers of a field to a list, of which each may be one byte.
func (w *wire) ints(to *[]int, v field) error {
	if err := w.spend(v.of.at, 8*max(1, v.of.size())); err != nil {
		return err
	}
	return w.numbers(v, 0, func(bits uint64) { *to = append(*to, int(int64(bits))) })
}

// floats adds those of four bytes.
func (w *wire) floats(to *[]float64, v field) error {
	if err := w.spend(v.of.at, 2*max(4, v.of.size())); err != nil {
		return err
	}
	return w.numbers(v, 4, func(bits uint64) { *to = append(*to, float32Of(bits)) })
}

func float32Of(bits uint64) float64 { return float64(math.Float32frombits(uint32(bits))) }
