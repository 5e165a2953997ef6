package elem

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/internal/exact/double"
)

// reduceFar is reduce for |x| > 2^18 (M. Payne, R. Hanek, "Radian reduction for
// trigonometric functions", SIGNUM Newsletter 18, 1983).
//
// x = m 2^e with a whole m < 2^53, and of 2/pi only those bits count whose
// product with 2^e is below 4: those before them add whole turns. The first 192
// of them, as a number P 2^-190, are off by less than 2^-190, so m P 2^-190 mod 4
// is off by 2^-137 quarters. The nearest that a float64 comes to a multiple of
// pi/2 is 2^-61 (J.-M. Muller, "Elementary Functions", table 11.1), so r + low is
// good to 2^-75, and the roundings of its product with pi/2 are of order 2^-105.
func reduceFar(x float64) (n int, r, low float64) {
	b := math.Float64bits(x)
	m := b&(1<<52-1) | 1<<52
	e := int(b>>52&0x7ff) - 1075

	// twoOverPi begins with 64 zeros: e is negative for x < 2^53.
	at := e - 2 + 64
	t, sh := twoOverPi[at/64:], uint(at%64)
	word := func(i int) uint64 { return t[i]<<sh | t[i+1]>>(64-sh) } // a shift by 64 gives 0

	c, p2 := bits.Mul64(m, word(2))
	h, p1 := bits.Mul64(m, word(1))
	p1, carry := bits.Add64(p1, c, 0)
	p0 := m*word(0) + h + carry

	// Two bits of quarters; the others are a fraction in [-1/2, 1/2) of one.
	n = int(p0 >> 62)
	p0, p1, p2 = p0<<2|p1>>62, p1<<2|p2>>62, p2<<2
	negative := p0>>63 != 0
	if negative {
		n++
		p2, carry = bits.Sub64(0, p2, 0)
		p1, carry = bits.Sub64(0, p1, carry)
		p0, _ = bits.Sub64(0, p0, carry)
	}
	shift := 0
	for p0>>63 == 0 && shift < 128 {
		k := max(1, bits.LeadingZeros64(p0))
		if k > 63 {
			k = 63
		}
		p0, p1, p2 = p0<<k|p1>>(64-k), p1<<k|p2>>(64-k), p2<<k
		shift += k
	}
	unit := math.Float64frombits(uint64(1023-shift) << 52)
	hi := float64(float64(p0>>11)*0x1p-53) * unit
	lo := float64(float64(p0<<53|p1>>11)*0x1p-117) * unit
	if negative != (x < 0) {
		hi, lo = -hi, -lo
	}
	if x < 0 {
		n = -n
	}
	p := double.Product(hi, halfPiHi)
	p = double.Sum(p.Hi, p.Lo+(float64(hi*halfPiLo)+float64(lo*halfPiHi)))
	return n & 3, p.Hi, p.Lo
}
