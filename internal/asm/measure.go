package asm

// Measure is a set of kernels for what sums a state up: sums in the order of the numbers, as a
// loop forms them, its least and largest number, and its histogram. Every length n is a
// positive multiple of 4.
type Measure struct {
	// Sums adds x*x, |x| and x-first to to[0], of which the last lane then holds nothing. It takes to[1] and to[2] to
	// the least and the largest of x and themselves, in each of 4 lanes; first is all of to[3].
	Sums func(x *float64, n int, to *[4][4]float64)

	// Count adds dx = x-a, dx*dx and dx*(y-b) to sum, likewise, and one to counts[i%8][k], where k is
	// (x-lo)*bins/span, truncated, and of that the last six bits. by holds a, b, lo, bins and
	// span, each four times.
	Count func(x, y *float64, n int, by *[5][4]float64, sum *[4]float64, counts *[8][64]int32)

	// SumsTwo and CountTwo do the same for two rows of numbers, in little more than half of the
	// time: the sums of one do not wait for those of the other.
	SumsTwo  func(x, x1 *float64, n int, to *[2][4][4]float64)
	CountTwo func(x, y, x1, y1 *float64, n int, by *[2][5][4]float64, sum *[2][4]float64, counts *[2][8][64]int32)
}

// MeasureKernels returns the kernels of the backend that runs, nil if it has none.
func MeasureKernels() *Measure { return current().measure }
