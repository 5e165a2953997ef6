package fp16

import (
	"encoding/binary"
	"math"
	"slices"
)

// Bytes returns how many bytes a number of the format takes in files: TF32 is
// stored as float32.
func (f Format) Bytes() int {
	switch f {
	case Float64:
		return 8
	case Float16, BFloat16:
		return 2
	}
	return 4
}

// Half reports whether the format is one of 16 bits, Float16 or BFloat16.
func (f Format) Half() bool { return f == Float16 || f == BFloat16 }

// Append rounds each number to the format and appends its little-endian bytes
// to b. NaNs are stored as the canonical quiet one.
func (f Format) Append(b []byte, values []float64) []byte {
	at, n := len(b), f.Bytes()
	b = slices.Grow(b, n*len(values))[:at+n*len(values)]
	to := b[at:]
	switch f {
	case Float64:
		for i, v := range values {
			if v != v {
				v = NaN
			}
			binary.LittleEndian.PutUint64(to[8*i:][:8], math.Float64bits(v))
		}
	case Float32:
		for i, v := range values {
			if v != v {
				v = NaN
			}
			binary.LittleEndian.PutUint32(to[4*i:4*i+4:len(to)], math.Float32bits(float32(v)))
		}
	case TF32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(to[4*i:][:4], uint32(f.Bits(v)))
		}
	default:
		// A bfloat16 is the upper half of a float32. A float16's exponent has a bias of 15
		// where a float32's has 127: times 2^-112, which is exact and takes subnormals to
		// subnormals, the bits below the sign are its own, 13 further up.
		scale, shift := float32(1), 16
		if f == Float16 {
			scale, shift = 0x1p-112, 13
		}
		var part [256]float64
		for len(values) > 0 {
			x := part[:min(len(values), len(part))]
			f.RoundSlice(x, values[:len(x)])
			for i, v := range x {
				bits := math.Float32bits(float32(v) * scale)
				h := uint16(bits>>16&0x8000 | bits>>shift&0x7fff)
				if v-v != 0 { // no finite number
					h = uint16(f.Bits(v))
				}
				binary.LittleEndian.PutUint16(to[2*i:2*i+2:len(to)], h)
			}
			values, to = values[len(x):], to[2*len(x):]
		}
	}
	return b
}

// Decode is the inverse of Append: it fills dst with the numbers that
// len(dst)*Bytes() bytes of b hold. Every NaN becomes [NaN].
func (f Format) Decode(dst []float64, b []byte) {
	n := f.Bytes()
	for i := range dst {
		var bits uint64
		switch p := b[i*n:][:n]; n {
		case 8:
			bits = binary.LittleEndian.Uint64(p)
		case 4:
			bits = uint64(binary.LittleEndian.Uint32(p))
		default:
			bits = uint64(binary.LittleEndian.Uint16(p))
		}
		dst[i] = f.FromBits(bits)
	}
}
