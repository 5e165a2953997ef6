package fp16

import (
	"math"

	"github.com/x448/float16"
)

// tail is how many bits of the float32 that TF32 is stored as are not its own.
const tail = 13

// code counts the numbers of the format from 0 to the one nearest to |y|, whose
// own bits are a: to +Inf for NaN. See walk: in the binade of |y| it counts the
// multiples of q, and adds 2^(p-1) for every binade below. That count is also
// what IEEE 754 stores: a significand that rounds up to 2^p carries into the
// exponent, and one below 2^(p-1), in the lowest binade, has exponent field 0.
func (w *walk) code(a uint64) uint64 {
	e, b := w.base(a)
	n := math.Float64bits(math.Float64frombits(a)+math.Float64frombits(b)) - b
	return min(n+(e-w.low)<<(w.frac&63), w.inf)
}

// steps is code for any format and a number of either sign, which is not NaN.
func (f Format) steps(v float64) uint64 {
	a := math.Float64bits(v) &^ signBit
	if f == Float64 {
		return a
	}
	return walks[f].code(a)
}

// Bits returns the bits of v in the format, after rounding to it once, as they
// stand in a file or in a device's memory; of TF32, those of the float32 that it
// is stored as. Every NaN has the bits of the one NaN.
func (f Format) Bits(v float64) uint64 {
	switch f {
	case Float64:
		return math.Float64bits(f.Round(v))
	case Float32, TF32:
		return uint64(math.Float32bits(float32(f.Round(v))))
	}
	w := &walks[f]
	if v != v {
		return w.inf | w.inf>>1 // the first bit of the mantissa: quiet
	}
	bits := math.Float64bits(v)
	return w.code(bits&^signBit) | bits>>63<<15
}

// FromBits returns the number with these bits, and [NaN] for every NaN. Bits
// beyond the format's width are ignored. Of TF32 it is the float32 with these
// bits, which lies on the grid if the last 13 of them are 0.
func (f Format) FromBits(b uint64) float64 {
	var v float64
	switch f {
	case Float64:
		v = math.Float64frombits(b)
	case Float16:
		v = float64(float16.Frombits(uint16(b)).Float32())
	case BFloat16:
		v = float64(math.Float32frombits(uint32(b) << 16))
	default:
		v = float64(math.Float32frombits(uint32(b)))
	}
	if v != v {
		return NaN
	}
	return v
}
