package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/tensor"
)

// load returns the tensor of a message. What it says of its size is compared with what
// there is of numbers before memory is taken.
func (m *Model) load(t *tensorProto) (*tensor.Tensor, error) {
	of, ok := dtypes[t.dtype]
	if !ok {
		return nil, fmt.Errorf("%v numbers: want a type that a graph holds", t.dtype)
	}
	n := int64(1)
	for _, d := range t.dims {
		if d < 0 || d > 0 && n > 1<<40/int64(d) {
			return nil, fmt.Errorf("shape %v: want sizes from 0 on, and at most 2^40 numbers", t.dims)
		}
		n *= int64(d)
	}
	bytes := (n*int64(of.bits) + 7) / 8
	r, at := m.file, t.raw.at
	switch {
	case t.outside:
		var err error
		if r, at, err = m.outside(t, bytes); err != nil {
			return nil, err
		}
	case !t.isRaw:
		return m.typed(t, n)
	case t.raw.size() != bytes:
		return nil, fmt.Errorf("%d bytes: want %d, for shape %v of %v", t.raw.size(), bytes, t.dims, t.dtype)
	}
	x, err := m.take(t, n)
	if err != nil {
		return nil, err
	}
	return x, decode(x.Data, t.dtype, io.NewSectionReader(r, at, bytes))
}

// take takes the memory of n numbers, if there is room for them and those before: a file may be far longer than what
// a disk holds of it.
func (m *Model) take(t *tensorProto, n int64) (*tensor.Tensor, error) {
	m.taken = memory.Sum(m.taken, memory.Product(8, n))
	if err := memory.Fits(m.taken); err != nil {
		return nil, fmt.Errorf("shape %v: with the constants before it %w", t.dims, err)
	}
	return tensor.New(dtypes[t.dtype].format, t.dims...), nil
}

// decode sets numbers by their bytes, the least first.
func decode(dst []float64, d DType, r io.Reader) error {
	of := dtypes[d]
	part := make([]byte, min(64<<10, (len(dst)*of.bits+7)/8))
	for len(dst) > 0 {
		n := min(len(dst), len(part)*8/of.bits)
		b := part[:(n*of.bits+7)/8]
		if _, err := io.ReadFull(r, b); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errEnd
			}
			return err
		}
		switch of.bits {
		case 64:
			for i := range n {
				dst[i] = d.number(binary.LittleEndian.Uint64(b[8*i:]))
			}
		case 32:
			for i := range n {
				dst[i] = d.number(uint64(binary.LittleEndian.Uint32(b[4*i:])))
			}
		case 16:
			for i := range n {
				dst[i] = d.number(uint64(binary.LittleEndian.Uint16(b[2*i:])))
			}
		case 8:
			for i := range n {
				dst[i] = d.number(uint64(b[i]))
			}
		default:
			for i := range n {
				dst[i] = d.number(uint64(b[i*of.bits/8]) >> (i * of.bits % 8) & (1<<of.bits - 1))
			}
		}
		dst = dst[n:]
	}
	return nil
}

// typed returns a tensor whose numbers are in one of the fields with a type.
func (m *Model) typed(t *tensorProto, n int64) (*tensor.Tensor, error) {
	of := dtypes[t.dtype]
	number, width, each := 5, 0, int64(1) // int32_data
	switch t.dtype {
	case Float32:
		number, width = 4, 4
	case Float64:
		number, width = 10, 8
	case Int64:
		number = 7
	case Uint32, Uint64:
		number = 11
	case Int4, Uint4, Float4E2M1:
		each = 2
	case Int2, Uint2:
		each = 4
	}
	// A number takes a byte or more.
	if (n+each-1)/each > t.of.size() {
		return nil, fmt.Errorf("shape %v: want numbers for it, in %d bytes", t.dims, t.of.size())
	}
	x, err := m.take(t, n)
	if err != nil {
		return nil, err
	}
	w := &wire{r: m.file, size: m.size, left: mostMessages}
	k := int64(0)
	err = w.fields(t.of, func(v field) error {
		if int(v.number) != number {
			return nil
		}
		return w.numbers(v, width, func(bits uint64) {
			for j := range each {
				if k < n {
					x.Data[k] = t.dtype.number(bits >> (int64(of.bits) * j))
				}
				k++
			}
		})
	})
	if err == nil && (k+each-1)/each != (n+each-1)/each {
		err = fmt.Errorf("%d numbers: want %d, for shape %v", k, n, t.dims)
	}
	return x, err
}

// outside returns where the numbers of a tensor lie in another file.
func (m *Model) outside(t *tensorProto, bytes int64) (io.ReaderAt, int64, error) {
	name := t.external["location"]
	if !local(name) {
		return nil, 0, fmt.Errorf("location %.60q: want the name of a file in the model's folder", name)
	}
	if m.open == nil {
		return nil, 0, fmt.Errorf("location %.60q: numbers in another file: want a way to open it", name)
	}
	var at, length int64 = 0, bytes
	for key, to := range map[string]*int64{"offset": &at, "length": &length} {
		if s, ok := t.external[key]; ok {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil || v < 0 {
				return nil, 0, fmt.Errorf("%s %.40q: want a number of bytes", key, s)
			}
			*to = v
		}
	}
	f, ok := m.others[name]
	if !ok {
		r, size, err := m.open(name)
		if err != nil {
			return nil, 0, fmt.Errorf("location %.60q: %w", name, err)
		}
		if c, ok := r.(io.Closer); ok {
			m.closers = append(m.closers, c)
		}
		if m.others == nil {
			m.others = map[string]*io.SectionReader{}
		}
		f = io.NewSectionReader(r, 0, size)
		m.others[name] = f
	}
	size := f.Size()
	switch {
	case length != bytes:
		return nil, 0, fmt.Errorf("length %d: want %d, for shape %v of %v", length, bytes, t.dims, t.dtype)
	case at > size || bytes > size-at:
		return nil, 0, fmt.Errorf("bytes %d to %d of %.60q: want what it has, %d bytes", at, at+bytes, name, size)
	}
	return f, at, nil
}

// local reports whether a name is that of a file in a folder or below it, on every system.
func local(name string) bool {
	if name == "" || strings.ContainsAny(name, "\\:\x00") {
		return false
	}
	for _, part := range strings.Split(strings.TrimPrefix(name, "./"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}
