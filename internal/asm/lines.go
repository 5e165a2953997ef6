package asm

// Lines is a set of kernels on lines of float64 numbers.
type Lines struct {
	// Add sets dst to a + b, Mul to a b, and Scale to a times the one number b, each
	// rounded to float64 and then to float32: n numbers, a positive multiple of 8. Every
	// NaN becomes the one NaN. dst may be a or b.
	Add, Mul, Scale func(dst, a, b *float64, n int)

	// Greatest takes the greatest of n numbers, a positive multiple of 8, and their sum, in
	// each of 8 lanes in order. The sum of a lane with a NaN is one, and its greatest number
	// any.
	Greatest func(x *float64, n int, most, sums *[8]float64)

	// Narrow sets dst to n numbers of src, a positive multiple of 8, rounded to float32: eight
	// of them, and the next eight step bytes on.
	Narrow func(dst *float32, step int, src *float64, n int)

	// Shift sets dst to the float32 sums of src and by, with the one NaN: n numbers, a positive
	// multiple of 8. Widen sets it to src alone.
	Shift func(dst *float64, src, by *float32, n int)
	Widen func(dst *float64, src *float32, n int)

	// Weave lays Abreast lines out side by side: number t of line l, which begins line
	// bytes after the one before, goes to dst, l numbers and t times width bytes on. There
	// are n numbers of each, a positive multiple of Abreast.
	Weave   func(dst *float64, width int, src *float64, line, n int)
	Abreast int
}

// LineKernels returns the kernels of the backend that runs, nil if it has none.
func LineKernels() *Lines { return current().lines }
