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
	// fused multiply-add each, and what they come to is added to sums. It may ask for
	// AddAhead numbers at next, which is memory to be used soon, and reads nothing there.
	Add func(src, w *float64, n int, sums *float64, next *float32)

	// AddLine is Add of one output, the first: sums [Pixels] are all that it reads and adds to, and src is of float32
	// numbers. AddLines is that of DirectPanels panels, step bytes apart, whose sums are Outputs*Pixels numbers apart.
	// Both are nil where there is none.
	AddLine, AddLines func(src *float32, step int, w *float64, n int, sums *float64)

	// Round rounds sums [Outputs][Pixels] as Convolve does, with the bound slope
	// [Outputs] times window [Pixels]: it stores y-E of an output at dst, and those of
	// the next one line bytes from there. flags [Outputs][Pixels/lanes] are as there,
	// and any their bits, combined.
	Round [Formats]func(sums, slope, window, dst *float64, line int, flags *uint8) (any uint64)

	// Widen converts n numbers, a multiple of Pixels.
	Widen func(dst *float64, src *float32, n int)

	// AddSquares adds (scale x)^2 to sums for n numbers, a multiple of 8 and 8
	// or more, by fused multiply-adds.
	AddSquares func(x *float64, scale float64, sums *float64, n int)

	// SumSquares adds x^2 for n numbers, a multiple of 24 and 24 or more, to 24 sums, number i to
	// sum i%24, by fused multiply-adds.
	SumSquares func(x *float64, n int, sums *float64)
}

// DirectPanels is how many panels Direct.AddLines takes.
const DirectPanels = 4

// AddAhead is how many float32 numbers Direct.Add asks for.
const AddAhead = 192

// ToFloat64 is the index of Direct.Convolve beside the formats.
const ToFloat64 = Formats

// Lanes returns the pixels of a byte of flags.
func (d *Direct) Lanes() int { return d.Pixels / 3 }
