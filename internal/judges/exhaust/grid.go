package exhaust

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// grid is a number format written down once more, apart from package fp16:
// precision p, and the exponents of its least and greatest normal number.
type grid struct {
	p, emin, emax int
	decode        func(bits uint32) float64
}

var grids = map[fp16.Format]*grid{
	fp16.Float32:  {24, -126, 127, func(b uint32) float64 { return float64(math.Float32frombits(b)) }},
	fp16.Float16:  {11, -14, 15, decodeHalf},
	fp16.BFloat16: {8, -126, 127, func(b uint32) float64 { return float64(math.Float32frombits(b << 16)) }},
}

// decodeHalf returns the number of a float16's sign, 5 exponent and 10 mantissa
// bits.
func decodeHalf(b uint32) float64 {
	e, m := int(b>>10&31), float64(b&1023)
	var v float64
	switch {
	case e == 31 && m != 0:
		v = math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e == 0:
		v = m * 0x1p-24
	default:
		v = (1024 + m) * power(e-25)
	}
	if b>>15 != 0 {
		return -v
	}
	return v
}

// power returns 2^e for -1022 <= e <= 1023.
func power(e int) float64 { return math.Float64frombits(uint64(e+1023) << 52) }

// cell returns the open interval of positive numbers that round to a >= 0: up
// to the middles between it and its neighbours, of which the lower one is half
// as far where an exponent begins. All are float64 numbers. ok is false if a is
// not a finite number of the grid.
func (g *grid) cell(a float64) (lo, hi float64, ok bool) {
	if a == 0 {
		return 0, power(g.emin - g.p), true
	}
	e := int(math.Float64bits(a)>>52) - 1023
	if !(a > 0) || e > g.emax {
		return 0, 0, false
	}
	half := power(max(e, g.emin) - g.p)
	if n := a / (2 * half); n != math.Floor(n) {
		return 0, 0, false
	}
	lo, hi = a-half, a+half
	if e > g.emin && a == power(e) {
		lo = a - float64(half/2)
	}
	return lo, hi, true
}
