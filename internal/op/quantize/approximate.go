package quantize

import "github.com/refrun/refrun/fp16"

// An approximate division, div.full.f32 of NVIDIA's GPUs, which Triton's / is, has an error of at most 2 units in the
// last place of float32 (PTX ISA). So have a product with an approximate reciprocal. A quotient that
// float32 has is not taken for another: there a tie is a tie.
const (
	unitsOff = 2
	// Approximate is the name of the way that allows it.
	Approximate = "an approximate division"
)

// around returns the ends of what so many approximate divisions make of an exact quotient; false if float32 has it.
func around(q float64, divisions int) (low, high float64, ok bool) {
	f := f32(q)
	if f == q || f-f != 0 {
		return 0, 0, false
	}
	low, high = f, f
	for range divisions * unitsOff {
		low = fp16.Float32.NextDown(low)
		high = fp16.Float32.NextUp(high)
	}
	return low, high, true
}

// nearScale reports whether a scale is what approximate divisions may make of a block.
func (s *Spec) nearScale(t stats, g, there float64) bool {
	l, of, divisions := s.largest(), t.amax, 1
	switch {
	case s.Kind == EightBits:
		l, divisions = float64(l*g), 2
	case s.Rule == MinMax:
		l, of = float64(s.Element.High-s.Element.Low), t.high-t.low
	case s.Kind == Float32:
		of = max(of, s.Eps)
	case s.Rule != RCeil:
		return false // no quotient
	}
	low, high, ok := around(of/l, divisions)
	if !ok {
		return false
	}
	switch {
	case s.Kind == EightBits:
		low, high = s.eight(low, 0x1p-9), s.eight(high, 0x1p-9)
	case s.Kind == PowerOf2:
		low, high = scalePower(ceilLog2(low)), scalePower(ceilLog2(high))
	default:
		low, high = s.stored(low), s.stored(high)
	}
	return there >= low && there <= high
}

// nearElement reports whether a code is what an approximate division may make of a number.
func (s *Spec) nearElement(x, scale, g float64, zero int, there uint8) bool {
	low, high, ok := around(x/(scale*g), 1)
	if !ok || s.Rounding == Stochastic {
		return false
	}
	as := s.written()
	v := as.Decode(there)
	return same(as.Decode(s.element(low, zero)), v) || same(as.Decode(s.element(high, zero)), v)
}

// approximate reports whether scales, or elements, come of a division that may be approximate.
func (s *Spec) approximate(scales bool) bool {
	if scales {
		return s.Rule != Given && (s.Kind == Float32 || s.Kind == EightBits || s.Rule == RCeil)
	}
	return s.Kind == Float32 || s.Kind == EightBits
}
