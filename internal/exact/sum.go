// Package exact decides what the float64 evaluation of an operation could not:
// it evaluates the mathematics without error, or to whatever precision the
// rounding needs, and always comes to an end.
//
// Every function here returns the exact value rounded to odd: truncated
// towards zero to a float64, with the last bit set if anything was cut off. A
// number rounded to odd with 53 bits can be rounded again, to nearest even, to
// any format of at most 51 bits, and the result is the exact value rounded
// once (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded
// sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57,
// 2008). So the caller finishes with fp16.Format.Round.
package exact

import (
	"math"
	"math/bits"
)

// The accumulator is one fixed-point number: limb i holds a multiple of
// 2^(32i+low), signed, with 31 bits of room above for carries to wait in.
const (
	low   = -352 // below the square of float32's least subnormal, 2^-298
	limbs = 24   // up to 2^416
)

// Sum accumulates float64 numbers without error. It is made for products of
// two float32 numbers (which are exact in float64) and integer multiples of
// them: every finite term must be a multiple of 2^-352 and below 2^352 in size.
// A term below that grid panics, and so does one that reaches beyond the last
// limb. The zero value is an empty sum.
//
// Infinities and NaNs follow IEEE 754: Inf-Inf and NaN give NaN.
type Sum struct {
	limb    [limbs]int64
	pending int     // terms since the carries were last settled
	special float64 // sum of the non-finite terms, 0 if there are none
}

// Reset empties the sum.
func (s *Sum) Reset() { *s = Sum{} }

// Add adds x.
func (s *Sum) Add(x float64) {
	b := math.Float64bits(x)
	e := int(b >> 52 & 0x7ff)
	m := b & (1<<52 - 1)
	switch {
	case e == 0x7ff:
		s.special += x
		return
	case e == 0:
		if m == 0 {
			return
		}
		panic("exact: term below 2^-352")
	}
	m |= 1 << 52
	// x = m * 2^(e-1075); drop trailing zeros only if the term reaches below
	// the last limb.
	at := e - 1075 - low
	if at < 0 {
		tz := bits.TrailingZeros64(m)
		if tz < -at {
			panic("exact: term below 2^-352")
		}
		m >>= -at
		at = 0
	}
	i, sh := at>>5, uint(at&31)
	if i+2 >= limbs {
		panic("exact: term too large")
	}
	lo := m << sh
	hi := m >> 1 >> (63 - sh)
	l := s.limb[i : i+3 : i+3]
	if b>>63 == 0 {
		l[0] += int64(lo & 0xffffffff)
		l[1] += int64(lo >> 32)
		l[2] += int64(hi)
	} else {
		l[0] -= int64(lo & 0xffffffff)
		l[1] -= int64(lo >> 32)
		l[2] -= int64(hi)
	}
	if s.pending++; s.pending == 1<<30 {
		s.carry()
	}
}

// carry brings every limb but the last into [0, 2^32).
func (s *Sum) carry() {
	var c int64
	for i := range s.limb[:limbs-1] {
		v := s.limb[i] + c
		s.limb[i] = v & 0xffffffff
		c = v >> 32
	}
	s.limb[limbs-1] += c
	s.pending = 0
}

// Odd returns the sum rounded to odd. An exact sum of zero is +0.
func (s *Sum) Odd() float64 {
	if s.special != 0 {
		return s.special
	}
	t := *s
	t.carry()
	negative := t.limb[limbs-1] < 0
	if negative {
		for i := range t.limb {
			t.limb[i] = -t.limb[i]
		}
		t.carry()
	}
	top := limbs - 1
	for top >= 0 && t.limb[top] == 0 {
		top--
	}
	if top < 0 {
		return 0
	}
	// The leading 64 bits or more, and whether anything lies below them.
	word := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return uint64(t.limb[i])
	}
	z := uint(bits.LeadingZeros32(uint32(word(top))))
	m := word(top)<<(32+z) | word(top-1)<<z | word(top-2)>>(32-z)
	rest := word(top-2) << (32 + z)
	for i := top - 3; i >= 0; i-- {
		rest |= word(i)
	}
	if m&(1<<11-1) != 0 || rest != 0 {
		m |= 1 << 11
	}
	v := math.Ldexp(float64(m>>11), 32*(top-1)+low-int(z)+11)
	if negative {
		return -v
	}
	return v
}
