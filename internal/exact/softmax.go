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
}

// softmaxFar is how far below the greatest number a term may lie to be looked at:
// e^-softmaxFar is below 2^-2^16, half the bits that ziv goes to.
const softmaxFar = 1 << 16

// NewSoftmax returns the line of those numbers.
func NewSoftmax(xs []float64) *Softmax {
	s := &Softmax{sums: map[uint]*big.Float{}}
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
	near := 0 // values that are close enough to be looked at
	for near < len(s.values) && most-s.values[near] < softmaxFar {
		near++
	}
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
