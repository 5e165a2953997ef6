package asm

// Direct is a set of kernels that convolve with any kernel tap by tap: a block
// of Outputs channels by Pixels pixels whose first taps lie side by side.
type Direct struct {
	Outputs, Pixels int

	// By format. src is where the first pixel reads its first tap, and taps
	// holds for each of the n taps the bytes from there; w [n][Outputs] are the
	// weights. Taps are added in order from zero, by fused multiply-adds (of
	// float32 numbers they round once, as the products are exact); ToFloat64
	// rounds the products. The bias is added last: y.
	//
	// Of table, bias [Outputs], slope [Outputs], e [Outputs], and window
	// [Pixels] comes the bound E = slope window + e. out [Outputs][Pixels]
	// receives y-E, rounded; flags [Outputs][Pixels/lanes] the bits of the
	// pixels in which y+E is rounded to other bits, which are open. ToFloat64
	// stores y, and NaNs are open.
	Convolve [Formats + 1]func(src *float64, taps *int, n int, w, table, window, out *float64, flags *uint8)

	// Add adds to sums [Outputs][Pixels] those of n products, n 1 or more, of src
	// [n][Pixels] and w [n][Outputs]: they are added in order from zero, by one
	// fused multiply-add each, and what they come to is added to sums.
	Add func(src, w *float64, n int, sums *float64)

	// AddSquares adds (scale x)^2 to sums for n numbers, a multiple of 8 and 8
	// or more, by fused multiply-adds.
	AddSquares func(x *float64, scale float64, sums *float64, n int)
}

// ToFloat64 is the index of Direct.Convolve beside the formats.
const ToFloat64 = Formats

// Lanes returns the pixels of a byte of flags.
func (d *Direct) Lanes() int { return d.Pixels / 3 }
