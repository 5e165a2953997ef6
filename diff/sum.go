package diff

import "math"

// total is a sum of numbers of 0 or more whose mean is right even where the sum is
// beyond float64.
type total struct {
	low  float64 // of numbers below 2^900
	high float64 // of the others, in units of 2^64
}

func (s *total) add(x float64) {
	if x < 0x1p900 {
		s.low += x
	} else {
		s.high += float64(x * 0x1p-64)
	}
}

// mean returns the mean of n numbers.
func (s *total) mean(n float64) float64 {
	return s.low/n + float64(s.high/n*0x1p64)
}

// squares is a sum of squares whose root mean square is right even where squares
// leave float64: numbers of ordinary size, greater ones and smaller ones are summed
// apart, the latter two scaled by powers of two (J. Blue, "A portable Fortran
// program to find the Euclidean norm of a vector", ACM TOMS 4, 1978).
type squares struct {
	ordinary float64
	great    float64 // of numbers beyond 2^480, in units of 2^1080
	small    float64 // of numbers below 2^-480, in units of 2^-1200
}

func (s *squares) add(x float64) {
	switch x = math.Abs(x); {
	case x > 0x1p480:
		x *= 0x1p-540
		s.great += float64(x * x)
	case x < 0x1p-480:
		x *= 0x1p600
		s.small += float64(x * x)
	default:
		s.ordinary += float64(x * x)
	}
}

// rms returns the root of the mean of n squares. What is left out beside greater
// ones is less than their rounding.
func (s *squares) rms(n float64) float64 {
	switch {
	case s.great > 0:
		return math.Sqrt((s.great+float64(s.ordinary*0x1p-540*0x1p-540))/n) * 0x1p540
	case s.small > 0 && s.ordinary < 0x1p-800:
		return math.Sqrt((s.small+float64(s.ordinary*0x1p600*0x1p600))/n) * 0x1p-600
	}
	return math.Sqrt(s.ordinary / n)
}
