package asm

// Singles is a set of kernels on lines of float32 numbers, n of them, a positive multiple of
// 16. dst may be any of the sources. Number i is in lane i mod 16.
type Singles struct {
	// Add sets dst to a + b, Mul to a b, and Scale to a times the one number b. Every NaN
	// becomes 0x7fc00000.
	Add, Mul, Scale func(dst, a, b *float32, n int)

	// Shift sets rows of dst, step bytes apart, to rows of src, line bytes apart, plus by, with
	// the one NaN.
	Shift func(dst *float32, step int, src *float32, line int, by *float32, n, rows int)

	// Lay sets dst to n numbers of src, a positive multiple of 8 here: eight of them, and the next
	// eight step bytes on.
	Lay func(dst *float32, step int, src *float32, n int)

	// Blocks adds by, eights of numbers, to rows of src, line bytes apart, with the one NaN: the
	// eights of a row go to dst plane bytes apart, and those of the next row beside them.
	Blocks func(dst *float32, plane int, src *float32, line int, by *float32, blocks, pixels int)

	// Greatest takes the greatest numbers, and of most, in each lane. That of a lane with a
	// NaN is any.
	Greatest func(x *float32, n int, most *[16]float32)

	// Exp sets dst to the exponentials of src - top as [FastExp] is meant, and adds them to sums
	// in order. A NaN is one there too.
	Exp func(dst, src *float32, n int, top *float32, sums *[16]float32)

	// Sums adds numbers to sums in order, and Squares the squares of their float64 differences
	// from a mean, each by an fma.
	Sums    func(x *float32, n int, sums *[16]float64)
	Squares func(x *float32, n int, mean *float64, sums *[16]float64)

	// Line sets dst to fma((src - line[0]) line[1], scale, shift), operations of float64
	// numbers, rounded to float32, with the one NaN.
	Line func(dst, src, scale, shift *float32, n int, line *[2]float64)
}

// FastExp is what the fast exponential is made of. With k = z PerLn2 rounded to a whole number,
// by adding Round and taking it away, and r = z - k High - k Low by two fmas, the exponential of
// z is 2^k times the polynomial of r whose coefficients are Terms, the constant first, and 0 for
// z < Far.
var FastExp = &fastExp

// fastExpVectors are the constants as the kernels read them.
//
//lint:ignore U1000 assembly reads it
var fastExpVectors = func() (all [5 + len(fastExp.Terms)][16]float32) {
	for i, c := range append([]float32{fastExp.Far, fastExp.Round, fastExp.PerLn2, fastExp.High, fastExp.Low},
		fastExp.Terms[:]...) {
		for k := range all[i] {
			all[i][k] = c
		}
	}
	return all
}()

// SingleKernels returns the kernels of the backend that runs, nil if it has none.
func SingleKernels() *Singles { return current().singles }
