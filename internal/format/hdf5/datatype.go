package hdf5

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/x448/float16"
)

// class says how the bytes of an element are read.
type class uint8

const (
	classFloat class = iota
	classSigned
	classUnsigned
	classString   // of fixed size
	classSequence // a string of variable length
	classBool     // the enumeration of [Bool]
)

// element is a datatype as a file describes it.
type element struct {
	class class
	size  int
	order binary.ByteOrder
}

// message decodes the message of a kind that an object must have.
func (f *File) message(h *header, kind uint16, what string) (*cursor, error) {
	m := h.get(kind)
	if m == nil {
		return nil, f.wrong(h.name+" "+what, "missing", "a dataset")
	}
	if m.shared {
		return nil, f.wrong(h.name+" "+what, "stored elsewhere", "one in the object header")
	}
	return &cursor{b: m.body}, nil
}

// element decodes a datatype.
func (f *File) element(name string, c *cursor) (element, error) {
	b := c.b
	wrong := func(what string) (element, error) {
		return element{}, f.wrong(name+" datatype", what, "IEEE numbers of 2, 4 or 8 bytes, integers, h5py's bool or strings")
	}
	kind := c.byte()
	bits := c.uint(3)
	size := c.uint(4)
	if c.short || size == 0 || size > math.MaxInt32 || kind>>4 == 0 {
		return wrong(fmt.Sprintf("% x", b[:min(len(b), 8)]))
	}
	e := element{size: int(size), order: binary.LittleEndian}
	if kind&15 <= 1 && bits&1 != 0 { // numbers
		e.order = binary.BigEndian
	}
	number := size == 1 || size == 2 || size == 4 || size == 8
	switch kind & 15 {
	case 0:
		e.class = classUnsigned
		if bits&8 != 0 {
			e.class = classSigned
		}
		if offset, precision := c.uint(2), c.uint(2); c.short || bits&^9 != 0 || !number || offset != 0 ||
			precision != 8*size {
			return wrong(fmt.Sprintf("an integer of %d bits in %d bytes", precision, size))
		}
	case 1:
		// The one layout of each size, apart from the order of the bytes.
		t := map[uint64]Type{2: Float16, 4: Float32, 8: Float64}[size]
		if t == 0 {
			return wrong(fmt.Sprintf("a float of %d bytes", size))
		}
		ieee := t.message()
		ieee[0] = kind
		ieee[1] |= byte(bits & 1)
		if len(b) < len(ieee) || string(b[:len(ieee)]) != string(ieee) {
			return wrong(fmt.Sprintf("a float of %d bytes that is not IEEE", size))
		}
	case 3:
		e.class = classString
	case 8:
		if len(b) < len(boolType) || string(b[:len(boolType)]) != string(boolType) {
			return wrong("an enumeration")
		}
		e.class = classBool
	case 9:
		if bits&15 != 1 || size != 16 {
			return wrong("a sequence")
		}
		e.class = classSequence
	default:
		return wrong(fmt.Sprintf("class %d", kind&15))
	}
	return e, nil
}

// exported returns the type of a dataset of such elements.
func (e element) exported() (Type, bool) {
	switch {
	case e.class == classFloat:
		return map[int]Type{2: Float16, 4: Float32, 8: Float64}[e.size], true
	case e.class == classSigned && e.size == 4:
		return Int32, true
	case e.class == classSigned && e.size == 8:
		return Int64, true
	case e.class == classUnsigned && e.size == 1:
		return Uint8, true
	case e.class == classBool:
		return Bool, true
	}
	return 0, false
}

// int returns the integer in b; one above 2^63-1 is an error.
func (e element) int(b []byte) (int64, bool) {
	var u uint64
	for i := range e.size {
		k := i
		if e.order == binary.BigEndian {
			k = e.size - 1 - i
		}
		u |= uint64(b[k]) << (8 * i)
	}
	if e.class == classUnsigned {
		return int64(u), u <= math.MaxInt64
	}
	unused := 64 - 8*e.size
	return int64(u<<unused) >> unused, true
}

// floats decodes len(dst) numbers, which float64 must contain exactly: of the
// integers, those are the ones up to 2^53. Every NaN becomes [fp16.NaN].
func (e element) floats(dst []float64, b []byte) (ok bool) {
	for i := range dst {
		x := b[i*e.size:][:e.size]
		var v float64
		switch {
		case e.class != classFloat:
			n, ok := e.int(x)
			if !ok || n > 1<<53 || n < -1<<53 {
				return false
			}
			v = float64(n)
		case e.size == 8:
			v = math.Float64frombits(e.order.Uint64(x))
		case e.size == 4:
			v = float64(math.Float32frombits(e.order.Uint32(x)))
		default:
			v = float64(float16.Frombits(e.order.Uint16(x)).Float32())
		}
		if v != v {
			v = fp16.NaN
		}
		dst[i] = v
	}
	return true
}

// dataspace decodes a shape.
func (f *File) dataspace(name string, c *cursor) ([]int, error) {
	version, rank, flags := c.byte(), int(c.byte()), c.byte()
	null := false
	switch version {
	case 1:
		c.take(5)
	case 2:
		null = c.byte() == 2
	default:
		return nil, f.wrong(name+" dataspace", fmt.Sprintf("version %d", version), "version 1 or 2")
	}
	if rank > maxRank || null || flags&^1 != 0 {
		return nil, f.wrong(name+" dataspace", fmt.Sprintf("%d axes, empty %v, flags %d", rank, null, flags),
			fmt.Sprintf("a shape of at most %d axes", maxRank))
	}
	shape := make([]int, rank)
	for i := range shape {
		d := c.uint(8)
		if d > math.MaxInt {
			return nil, f.wrong(name+" dataspace", fmt.Sprint("a dimension of ", d), "one that an int holds")
		}
		shape[i] = int(d)
	}
	if c.short {
		return nil, f.wrong(name+" dataspace", "cut short", "a whole one")
	}
	return shape, nil
}
