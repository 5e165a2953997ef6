package quantize

import "fmt"

// Pack returns codes of 4 bits two a byte, along the last axis, whose length must be even. The
// first of two is in the low half of its byte, or in the high one.
func Pack(codes []uint8, high bool) []uint8 {
	packed := make([]uint8, len(codes)/2)
	for i := range packed {
		a, b := codes[2*i], codes[2*i+1]
		if high {
			a, b = b, a
		}
		packed[i] = a&15 | b<<4
	}
	return packed
}

// Unpack is the inverse of Pack.
func Unpack(packed []uint8, high bool) []uint8 {
	codes := make([]uint8, 2*len(packed))
	for i, p := range packed {
		a, b := p&15, p>>4
		if high {
			a, b = b, a
		}
		codes[2*i], codes[2*i+1] = a, b
	}
	return codes
}

// Unpacked returns codes one a byte for a tensor of such a shape, of bytes that hold one each or, of 4
// bits, two; and whether they held two.
func (s *Spec) Unpacked(raw []uint8, shape, of []int) (codes []uint8, packed bool, err error) {
	n := len(of)
	same := len(shape) == n
	for i := 0; same && i < n-1; i++ {
		same = shape[i] == of[i]
	}
	switch {
	case same && (n == 0 || shape[n-1] == of[n-1]):
		codes = make([]uint8, len(raw))
		for i, b := range raw {
			codes[i] = b & s.Element.mask()
		}
		return codes, false, nil
	case same && s.Element.Bits() == 4 && of[n-1]%2 == 0 && shape[n-1] == of[n-1]/2:
		return Unpack(raw, s.High), true, nil
	}
	want := fmt.Sprint(of)
	if s.Element.Bits() == 4 {
		want += ", or half of that along the last axis"
	}
	return nil, false, fmt.Errorf("shape %v: want the input's, %s", shape, want)
}
