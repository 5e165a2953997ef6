package asm

// Measure is a set of kernels for what sums a state up: sums in the order of the numbers, as a
// loop forms them, its least and largest number, and its histogram. Every length n is a
// positive multiple of 4.
type Measure struct {
	// Sums adds x*x, |x| and x-first to to[0]. It takes to[1] and to[2] to the least and the
	// largest of x and themselves, in each of 4 lanes; first is all of to[3].
	Sums func(x *float64, n int, to *[4][4]float64)

	// Count adds dx = x-a, dx*dx and dx*(y-b) to sum, and one to counts[i%8][k], where k is
	// (x-lo)*bins/span, truncated, and of that the last six bits. by holds a, b, lo, bins and
	// span.
	Count func(x, y *float64, n int, by *[5]float64, sum *[4]float64, counts *[8][64]int32)
}

// MeasureKernels returns the kernels of the backend that runs, nil if it has none.
func MeasureKernels() *Measure { return current().measure }
