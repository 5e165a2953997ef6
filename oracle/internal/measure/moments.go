package measure

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// ZLimit is the number of standard deviations that one of n normal statistics
// exceeds with a probability of 1e-9 at most, by P(|z| > x) <= exp(-x^2/2).
func ZLimit(n float64) float64 { return math.Sqrt(2 * (elem.Log(max(n, 1)) + elem.Log(1e9))) }

// Dot returns the sum of a[i] b[i].
func Dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

// Scaled returns a x.
func Scaled(x []float64, a float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(a * v)
	}
	return y
}

// Mix64 is the finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast
// splittable pseudorandom number generators", OOPSLA 2014).
func Mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// MeanSquare returns the mean of x^2.
func MeanSquare(x []float64) float64 {
	var s float64
	for _, v := range x {
		s += float64(v * v)
	}
	return s / float64(len(x))
}

// Moments returns the mean and the biased variance.
func Moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := v - mean
		variance += float64(d * d)
	}
	return mean, variance / float64(len(x))
}

// LnAbove returns the logarithm of n >= 1 from above, to the next power of two.
func LnAbove(n float64) float64 { return math.Ln2 * float64(math.Ilogb(n)+1) }

// RMS returns the root mean square, 0 of nothing.
func RMS(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	return math.Sqrt(Ratio(sum, float64(len(x))))
}

// RMSDiff returns the root mean square of a-b; infinite if it is not a number.
func RMSDiff(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		d := v - b[i]
		sum += float64(d * d)
	}
	if r := math.Sqrt(Ratio(sum, float64(len(a)))); Finite(r) {
		return r
	}
	return math.Inf(1)
}
