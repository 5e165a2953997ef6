package asm

// Whole is a set of kernels for products of matrices of whole numbers of 16 bits. Two products are added in 32 bits,
// and so are all sums, which the caller keeps from overflowing: then they are exact, and the same in any order.
type Whole struct {
	// Multiply sets sums [WholeLines][WholeColumns] to the products of as many lines of a, line bytes apart, with a
	// panel b [pairs][WholeColumns][2]. A line has pairs of terms, 1 or more.
	Multiply func(a *int16, line int, b *int16, pairs int, sums *int32)
	// MultiplyLine is Multiply of one line, for sums [WholeColumns].
	MultiplyLine func(a *int16, line int, b *int16, pairs int, sums *int32)
	// MultiplyBytes is MultiplyLine for a panel of numbers of 8 bits, of which memory has half as much to bring.
	MultiplyBytes func(a *int16, b *int8, pairs int, sums *int32)
}

// The lines and the columns that the kernels of Whole multiply at once.
const (
	WholeLines   = 4
	WholeColumns = 16
)

// WholeKernels returns the kernels of the backend that runs, nil if it has none.
func WholeKernels() *Whole { return current().whole }
