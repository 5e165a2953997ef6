package npy

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/x448/float16"
)

// element is the number type of an array's elements.
type element struct {
	kind byte // 'f', 'i' or 'u' as in numpy, or 'b': the bits of a bfloat16
	size int  // bytes
	big  bool // most significant byte first
}

const known = "a number type f2, f4, f8, i1 to i8 or u1 to u8 with its byte order, such as <f4: " +
	"no pickled objects, no structures"

// elementOf reads numpy's name of a type: its byte order, which bytes do not
// have, its kind and its size.
func elementOf(descr string) (e element, ok bool) {
	if len(descr) != 3 {
		return e, false
	}
	e = element{descr[1], int(descr[2] - '0'), descr[0] == '>'}
	switch e.kind {
	case 'f':
		ok = e.size == 2 || e.size == 4 || e.size == 8
	case 'i', 'u':
		ok = e.size == 1 || e.size == 2 || e.size == 4 || e.size == 8
	}
	switch descr[0] {
	case '<', '>':
	case '|':
		ok = ok && e.size == 1
	default:
		ok = false
	}
	return e, ok
}

// format returns the number format of the elements; ok is false for integers.
func (e element) format() (f fp16.Format, ok bool) {
	switch {
	case e.kind == 'b':
		return fp16.BFloat16, true
	case e.kind != 'f':
		return 0, false
	case e.size == 2:
		return fp16.Float16, true
	case e.size == 4:
		return fp16.Float32, true
	}
	return fp16.Float64, true
}

// bits returns the element that b begins with, as an unsigned number.
func (e element) bits(b []byte) uint64 {
	var u uint64
	switch e.size {
	case 1:
		u = uint64(b[0])
	case 2:
		u = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		u = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		u = binary.LittleEndian.Uint64(b)
	}
	if e.big {
		u = bits.ReverseBytes64(u) >> (64 - 8*e.size)
	}
	return u
}

// signed extends the sign of an i element.
func (e element) signed(u uint64) int64 {
	unused := 64 - 8*e.size
	return int64(u<<unused) >> unused
}

// value returns the number with these bits, [fp16.NaN] for every NaN; exact is
// false for an integer that float64 does not contain.
func (e element) value(u uint64) (v float64, exact bool) {
	switch e.kind {
	case 'u':
		return float64(u), fits(u)
	case 'i':
		s := e.signed(u)
		if s < 0 {
			return float64(s), fits(-uint64(s))
		}
		return float64(s), fits(u)
	case 'b': // the upper half of a float32
		v = float64(math.Float32frombits(uint32(u) << 16))
	default:
		switch e.size {
		case 2:
			v = float64(float16.Frombits(uint16(u)).Float32())
		case 4:
			v = float64(math.Float32frombits(uint32(u)))
		case 8:
			v = math.Float64frombits(u)
		}
	}
	if v != v {
		v = fp16.NaN
	}
	return v, true
}

// fits reports whether float64 contains u: 53 bits hold what is between its
// first and last 1.
func fits(u uint64) bool { return bits.Len64(u)-bits.TrailingZeros64(u) <= 53 }

// TypeOf returns what numpy calls the type in which numbers of format f are written.
func TypeOf(f fp16.Format) string { return descrOf(f) }

// descrOf returns the type in which numbers of format f are written. TF32 has
// none of its own and is written as float32, bfloat16 as its bits.
func descrOf(f fp16.Format) string {
	switch f {
	case fp16.Float64:
		return "<f8"
	case fp16.Float32, fp16.TF32:
		return "<f4"
	case fp16.Float16:
		return "<f2"
	case fp16.BFloat16:
		return "<u2"
	}
	panic("npy: unknown number format")
}
