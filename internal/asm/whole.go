package asm

// Whole is a set of kernels for products of matrices of whole numbers of 16 bits, and for making such numbers. Two
// products are added in 32 bits, and so are all sums, which the caller keeps from overflowing: then they are exact, and
// the same in any order.
type Whole struct {
	// Multiply sets sums [WholeLines][WholeColumns] to the products of as many lines of a, line bytes apart, with a
	// panel b [pairs][WholeColumns][2]. A line has pairs of terms, 1 or more.
	Multiply func(a *int16, line int, b *int16, pairs int, sums *int32)
	// MultiplyLine is Multiply of one line, for sums [WholeColumns].
	MultiplyLine func(a *int16, line int, b *int16, pairs int, sums *int32)
	// MultiplyBytes is MultiplyLine for a panel of numbers of 8 bits, of which memory has half as much to bring.
	MultiplyBytes func(a *int16, b *int8, pairs int, sums *int32)
	// Widen sets dst to n numbers of 8 bits, a positive multiple of 32.
	Widen func(dst *int16, src *int8, n int)
	// Floats sets dst to WholeColumns sums plus a number, in float64.
	Floats func(dst *float64, sums *int32, add float64)
	// Weave sets dst to WholeColumns numbers of a and as many of b, in turns.
	Weave func(dst, a, b *int16)
	// Narrow sets dst to n numbers, a positive multiple of 8, and returns the greatest absolute value: at least 2^15 if
	// one is not whole or too large, and dst is of no use then.
	Narrow func(dst *int16, src *float64, n int) (most uint32)

	// Integers makes n numbers, a positive multiple of 8, whole ones of 32 bits, if they are: only -0 becomes another,
	// 0. It returns how many it has done: all before eight of which one is no such number.
	Integers func(d *float64, n int) (done int)
	// Extremes takes the least and the greatest of n numbers, a positive multiple of 8, and of those that are there, in
	// each of 8 lanes; others is not 0 if a number is not finite, and they are of no use then. Of 0 and -0 it keeps the
	// one that is there.
	Extremes func(x *float64, n int, least, greatest *[8]float64) (others int)
	// Quantize sets dst to the whole numbers next to n numbers of src, a positive multiple of 8, over a scale, to nearest
	// even, plus a zero point, between two others: by has the four. It returns how many it has done: all before eight of
	// which one quotient is halfway between whole numbers, or not finite. dst may be src.
	Quantize func(dst, src *float64, n int, by *[4]float64) (done int)
}

// The lines and the columns that the kernels of Whole multiply at once.
const (
	WholeLines   = 4
	WholeColumns = 16
)

// WholeKernels returns the kernels of the backend that runs, nil if it has none.
func WholeKernels() *Whole { return current().whole }
