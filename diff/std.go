package diff

import "math"

// Std returns the population standard deviation of all finite numbers of the
// parts together, 0 if there are none. Two passes, and a correction for the
// rounded mean (T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the
// sample variance", The American Statistician 37, 1983): a mean that is large
// against the deviation does no harm. Neither does the size of the numbers: they
// are scaled by a power of two, which rounds none that matters.
func Std(parts ...[]float64) float64 {
	var s deviation
	for pass := range stdPasses {
		for _, part := range parts {
			s.add(pass, part)
		}
	}
	return s.std()
}

// deviation is [Std] of numbers that come in pieces: all of them stdPasses
// times, in the same order.
type deviation struct {
	n, greatest float64 // of the finite numbers, known after pass 0
	sum         float64 // of the scaled numbers: pass 1
	rest, sq    float64 // of x-mean, which is 0 but for rounding, and (x-mean)^2: pass 2
}

const stdPasses = 3

func (s *deviation) add(pass int, part []float64) {
	switch pass {
	case 0:
		for _, x := range part {
			if finite(x) {
				s.n++
				s.greatest = max(s.greatest, math.Abs(x))
			}
		}
	case 1:
		scale, sum := math.Ldexp(1, -s.exponent()), s.sum
		for _, x := range part {
			if finite(x) {
				sum += float64(x * scale)
			}
		}
		s.sum = sum
	case 2:
		scale, mean := math.Ldexp(1, -s.exponent()), s.sum/s.n
		rest, sq := s.rest, s.sq
		for _, x := range part {
			if finite(x) {
				d := float64(x*scale) - mean
				rest += d
				sq += float64(d * d)
			}
		}
		s.rest, s.sq = rest, sq
	}
}

// exponent is that of the greatest number, of those whose power of two float64
// has with its inverse.
func (s *deviation) exponent() int {
	_, exponent := math.Frexp(s.greatest)
	return min(max(exponent, -1022), 1022)
}

func (s *deviation) std() float64 {
	if s.greatest == 0 {
		return 0
	}
	std := math.Sqrt(max(0, s.sq-float64(s.rest*s.rest)/s.n) / s.n)
	return min(s.greatest, math.Ldexp(std, s.exponent())) // rounding could leave float64
}
