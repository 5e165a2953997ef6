package exact

// pair returns the sum as hi + lo, |lo| less than an ulp of hi, but for 2^-104 of
// itself.
func (s *Sum) pair() (p [2]float64) {
	t := *s
	p[0] = t.Odd()
	t.Add(-p[0])
	p[1] = t.Odd()
	return p
}

// Pairs returns how many numbers there are, and their sum and sum of squares, each
// as two numbers whose sum is within 2^-104 of itself from the exact one. ok is
// false if a number was not finite.
func (m *Moments) Pairs() (n float64, sum, squares [2]float64, ok bool) {
	if !m.squares.Finite() {
		return 0, sum, squares, false
	}
	return float64(m.n), m.sum.pair(), m.squares.pair(), true
}

// IsMean reports whether x, a float32 number, is the exact mean of fewer than 2^29
// finite numbers.
func (m *Moments) IsMean(x float64) bool {
	t := m.sum
	t.Add(-float64(x * float64(m.n)))
	return t.Odd() == 0
}
