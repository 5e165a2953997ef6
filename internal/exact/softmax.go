package exact

import (
	"math"
	"math/big"
	"slices"
)

// Softmax decides the roundings of e^x / (e^x_1 + ... + e^x_n) for the numbers x_i of a
// line, float32 numbers or -Inf, not all of them -Inf.
//
// If all finite x_i are equal, the value is 1 over their number. Otherwise it is no
// rational number: r times the denominator less the numerator is a sum of powers of e
// with different rational exponents, which is 0 only if every coefficient is
// (Lindemann, Weierstrass), and that of an x_i other than x is r. So ziv ends.
type Softmax struct {
	values []float64 // finite ones, each once, the greatest first
	counts []int64
	sums   map[uint]*big.Float // of e^(x_i - x_1), by precision
	rest   map[uint]*big.Float // the same but for one of the greatest
}

// softmaxFar is how far below the greatest number a term may lie to be looked at:
// e^-softmaxFar is below 2^-11800, less than any bit of the numbers, and not half of those
// that ziv goes to.
const softmaxFar = 1 << 13

// NewSoftmax returns the line of those numbers.
func NewSoftmax(xs []float64) *Softmax {
	s := &Softmax{sums: map[uint]*big.Float{}, rest: map[uint]*big.Float{}}
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	for _, x := range sorted {
		switch last := len(s.values) - 1; {
		case math.IsInf(x, -1):
		case last >= 0 && s.values[last] == x:
			s.counts[last]++
		default:
			s.values, s.counts = append(s.values, x), append(s.counts, 1)
		}
	}
	return s
}

// Settle returns the share of x, one of the numbers and finite, rounded to odd.
func (s *Softmax) Settle(x float64) float64 {
	most := s.values[0]
	near := s.near()
	switch {
	case most-x >= softmaxFar:
		return math.SmallestNonzeroFloat64
	case near == 1:
		// x is the greatest number, and the others together are less than any
		// difference of 1 over a whole number from a float64.
		y := Quotient(big.NewInt(1), 0, big.NewInt(s.counts[0]))
		if n := s.counts[0]; len(s.values) > 1 && n&(n-1) == 0 {
			y = Beside(y, -1)
		}
		return y
	}
	return ziv(func(w uint) *big.Float {
		sum := s.sums[w]
		if sum == nil {
			sum = newBig(w)
			for i, v := range s.values[:near] {
				t := bigExp(difference(v, most, w), w)
				sum.Add(sum, t.Mul(t, bigInt(w, s.counts[i])))
			}
			s.sums[w] = sum
		}
		return newBig(w).Quo(bigExp(difference(x, most, w), w), sum)
	})
}

// difference returns a - b.
func difference(a, b float64, w uint) *big.Float {
	return newBig(w).Sub(bigFloat(w, a), bigFloat(w, b))
}

// SettleLog returns x less the logarithm of the sum of all e^x_i, rounded to odd, for x, one
// of the numbers and finite. It is 0 if x is the only finite number, and irrational otherwise:
// see [Softmax].
func (s *Softmax) SettleLog(x float64) float64 {
	most := s.values[0]
	switch {
	case len(s.values) == 1 && s.counts[0] == 1:
		return 0
	case s.near() == 1 && s.counts[0] == 1: // a little below x - most
		var d Sum
		d.Add(x)
		d.Add(-most)
		if x == most {
			return -math.SmallestNonzeroFloat64
		}
		m, exp := d.Int()
		return oddBelow(m, exp)
	}
	return ziv(func(w uint) *big.Float {
		v := difference(x, most, w)
		return v.Sub(v, bigLog1p(s.others(w), w))
	})
}

// LogSum returns the logarithm of the sum of all e^x_i, rounded to odd.
func (s *Softmax) LogSum() float64 {
	most := s.values[0]
	switch {
	case len(s.values) == 1 && s.counts[0] == 1:
		return most
	case s.near() == 1 && s.counts[0] == 1: // a little above the greatest
		if most == 0 {
			return math.SmallestNonzeroFloat64
		}
		var d Sum
		d.Add(-most)
		m, exp := d.Int()
		return -oddBelow(m, exp)
	}
	return ziv(func(w uint) *big.Float {
		if most == 0 {
			return bigLog1p(s.others(w), w)
		}
		// The two may cancel: what that costs is added to w.
		for more := uint(0); ; {
			v := newBig(w+more).Add(bigFloat(w, most), bigLog1p(s.others(w+more), w+more))
			lost := bigFloat(w, most).MantExp(nil) - v.MantExp(nil)
			if v.Sign() != 0 && lost <= int(more) {
				return v
			}
			more = 2*more + 64
		}
	})
}

// near returns how many of the different numbers are close enough to the greatest to be
// looked at.
func (s *Softmax) near() int {
	n := 0
	for n < len(s.values) && s.values[0]-s.values[n] < softmaxFar {
		n++
	}
	return n
}

// others returns the sum of e^(x_i - x_1) of all numbers but one of the greatest.
func (s *Softmax) others(w uint) *big.Float {
	if s.rest[w] == nil {
		sum := bigInt(w, s.counts[0]-1)
		for i, v := range s.values[1:s.near()] {
			t := bigExp(difference(v, s.values[0], w), w)
			sum.Add(sum, t.Mul(t, bigInt(w, s.counts[i+1])))
		}
		s.rest[w] = sum
	}
	return s.rest[w]
}

// oddBelow returns m*2^exp, which is not 0, less what is smaller than any of its bits,
// rounded to odd.
func oddBelow(m *big.Int, exp int) float64 {
	m = new(big.Int).Lsh(m, 64)
	if m.Sign() < 0 { // greater in magnitude
		return oddInt(m, exp-64, true)
	}
	return oddInt(m.Sub(m, big.NewInt(1)), exp-64, true)
}
