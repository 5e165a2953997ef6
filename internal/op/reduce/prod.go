package reduce

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Prod sets dst to the products of src along axes, rounded once; dst is as in [Sum]. The
// product of no numbers is 1. Zeros, infinities and NaN are as in IEEE 754, whatever the
// order. In float64 it is multiplied in order.
//
// Otherwise the significands are multiplied in float64, which n roundings put off by n u, and
// the exponents are added apart: nothing is too great or too small on the way.
func Prod(dst, src *tensor.Tensor, axes ...int) {
	lines(dst, src, axes, func(line []float64) float64 {
		if dst.Format == fp16.Float64 {
			y := 1.0
			for _, x := range line {
				y = float64(y * x)
			}
			return y
		}
		return multiplied(line, dst.Format)
	})
}

func multiplied(line []float64, f fp16.Format) float64 {
	special, y, exp := 1.0, 1.0, 0 // special has the sign
	for _, x := range line {
		if x == 0 || x-x != 0 {
			special *= x
			continue
		}
		special = math.Copysign(special, float64(special*x))
		a, e := math.Frexp(math.Abs(x))
		var e2 int
		y, e2 = math.Frexp(float64(y * a))
		exp += e + e2
	}
	switch {
	case special == 0 || special-special != 0:
		return special
	case exp > 1000: // more than any format has, and less
		return math.Copysign(math.MaxFloat64, special)
	case exp < -1000:
		return math.Copysign(math.SmallestNonzeroFloat64, special)
	}
	y = math.Ldexp(y, exp)
	rounded, ok := f.Decide(y, 1.0001*u*float64(float64(len(line))*y))
	if !ok {
		m, exp := whole(line)
		rounded = exact.Quotient(m, exp, big.NewInt(1))
	}
	return math.Copysign(rounded, special)
}

// whole returns the product of the significands of numbers that are not 0, odd, and its power
// of 2. Halves are multiplied with each other, which takes the least time.
func whole(line []float64) (m *big.Int, exp int) {
	if len(line) > 1 {
		a, b := line[:len(line)/2], line[len(line)/2:]
		m, exp = whole(a)
		n, more := whole(b)
		return m.Mul(m, n), exp + more
	}
	m = big.NewInt(1)
	for _, x := range line {
		if x == 0 || x-x != 0 {
			continue
		}
		frac, e := math.Frexp(math.Abs(x))
		m.SetInt64(int64(math.Ldexp(frac, 53)))
		z := m.TrailingZeroBits()
		m.Rsh(m, z)
		exp = e - 53 + int(z)
	}
	return m, exp
}
