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

// Append rounds each number to the format and appends its little-endian bytes
// to b. NaNs are stored as the canonical quiet one.
func (f Format) Append(b []byte, values []float64) []byte {
	b = slices.Grow(b, f.Bytes()*len(values))
	switch f {
	case Float64:
		for _, v := range values {
			if v != v {
				v = NaN
			}
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	case Float32:
		for _, v := range values {
			if v != v {
				v = NaN
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	case TF32:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, uint32(f.Bits(v)))
		}
	default:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, uint16(f.Bits(v)))
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
