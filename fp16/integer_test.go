package fp16_test

import (
	"math/bits"

	"github.com/refrun/refrun/fp16"
)

// layout is a format for the judges of these tests, which use integers only and
// nothing of the package: mantissa bits, and the exponents of the least and the
// greatest normal number.
type layout struct{ frac, emin, emax int }

var layouts = map[fp16.Format]layout{
	fp16.Float16:  {10, -14, 15},
	fp16.BFloat16: {7, -126, 127},
	fp16.TF32:     {10, -126, 127},
}

// code rounds the float32 with bits u and returns sign, exponent and mantissa of
// the result next to each other, the sign shifted to bit 31; the one NaN for any.
func (l layout) code(u uint32, r fp16.Rounding) uint32 {
	sign, field, sig := u&(1<<31), int(u>>23&0xff), uint64(u&(1<<23-1))
	inf := uint32(l.emax-l.emin+2) << l.frac
	switch {
	case field == 255 && sig != 0:
		return inf | 1<<(l.frac-1)
	case field == 255:
		return sign | inf
	case field == 0:
		field = 1
	default:
		sig |= 1 << 23
	}
	// |value| = sig * 2^unit, to be counted in 2^last.
	unit := field - 150
	binade := max(bits.Len64(sig)-1+unit, l.emin)
	last := binade - l.frac
	count := sig << max(unit-last, 0)
	if cut := last - unit; cut > 0 {
		cut = min(cut, 30) // 24 bits vanish all the same
		rest, half := sig&(1<<cut-1), uint64(1)<<(cut-1)
		count = sig >> cut
		switch {
		case r == fp16.NearestEven && (rest > half || rest == half && count%2 == 1),
			r == fp16.NearestAway && rest >= half:
			count++
		}
	}
	c := uint32(count) + uint32(binade-l.emin)<<l.frac
	return sign | min(c, inf)
}

// widen returns the float64 bits of the number with that code, from its fields.
func (l layout) widen(c uint32) uint64 {
	sign, field, sig := uint64(c>>31)<<63, int(c&(1<<31-1))>>l.frac, uint64(c)&(1<<l.frac-1)
	switch {
	case field == l.emax-l.emin+2 && sig != 0:
		return 0x7ff8 << 48
	case field == l.emax-l.emin+2:
		return sign | 0x7ff<<52
	case field == 0 && sig == 0:
		return sign
	case field == 0: // shift the first 1 to where the hidden bit is
		up := l.frac + 1 - bits.Len64(sig)
		return sign | uint64(l.emin-up+1023)<<52 | sig<<(52-l.frac+up)&(1<<52-1)
	}
	return sign | uint64(field+l.emin-1+1023)<<52 | sig<<(52-l.frac)
}

// narrow moves the sign of a code of 16 bits to where it belongs.
func narrow(c uint32) uint16 { return uint16(c>>31<<15 | c&0x7fff) }

// wide moves it back.
func wide(b uint16) uint32 { return uint32(b>>15)<<31 | uint32(b&0x7fff) }

// nan returns the code of the one NaN.
func (l layout) nan() uint64 { return uint64(l.code(0x7fc00000, fp16.NearestEven)) }
