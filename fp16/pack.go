package fp16

import "math"

// A float is a number in memory; both kinds hold every 16-bit number exactly.
type float interface{ float32 | float64 }

// Pack sets dst[i] to the bits of src[i], rounded once to f, which is Float16 or
// BFloat16: as f.Bits does. The slices are of one length. Elements may be of any
// type that is a uint16 underneath, such as Float16 of x448/float16.
func Pack[B ~uint16, F float](f Format, dst []B, src []F) {
	mustMatch(len(dst), len(src))
	dst = dst[:len(src)]
	mustBeHalf(f)
	w := &walks[f]
	below := (w.low - 1) << (w.frac & 63) // codes of the exponents that the format lacks
	for i, v := range src {
		bits := math.Float64bits(float64(v)) // exact: float64 has every float32
		a := bits &^ signBit
		if a-1 < w.subnormals || a >= w.top {
			dst[i] = B(f.Bits(float64(v))) // rare: subnormal, too large, NaN
			continue
		}
		// The carry of RoundSlice, here on the bits that stay.
		odd := a >> (w.drop & 63) & 1
		c := (a+w.last>>1+odd)>>(w.drop&63) - below
		if a == 0 {
			c = 0
		}
		dst[i] = B(c | bits>>63<<15)
	}
}

// Unpack sets dst[i] to the number of f, which is Float16 or BFloat16, with the
// bits src[i]; exact, and [NaN] for every NaN. The slices are of one length.
func Unpack[F float, B ~uint16](f Format, dst []F, src []B) {
	mustMatch(len(dst), len(src))
	dst = dst[:len(src)]
	mustBeHalf(f)
	for i, b := range src {
		dst[i] = F(f.FromBits(uint64(b)))
	}
}

func mustBeHalf(f Format) {
	if f != Float16 && f != BFloat16 {
		panic("fp16: not a format of 16 bits")
	}
}
