package fp16

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
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
	for _, v := range values {
		v = f.Round(v)
		switch f {
		case Float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case Float16:
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(float32(v)).Bits())
		case BFloat16:
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(v))>>16))
		default:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	return b
}

// Decode is the inverse of Append: it fills dst with the numbers that
// len(dst)*Bytes() bytes of b hold. Every NaN becomes [NaN].
func (f Format) Decode(dst []float64, b []byte) {
	n := f.Bytes()
	for i := range dst {
		var v float64
		switch p := b[i*n : (i+1)*n]; f {
		case Float64:
			v = math.Float64frombits(binary.LittleEndian.Uint64(p))
		case Float16:
			v = float64(float16.Frombits(binary.LittleEndian.Uint16(p)).Float32())
		case BFloat16:
			v = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(p)) << 16))
		default:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(p)))
		}
		if v != v {
			v = NaN
		}
		dst[i] = v
	}
}
