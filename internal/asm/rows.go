package asm

// Rows is a set of kernels for a row of pixels of 8 channels, float32 numbers
// one pixel after the other: what flows between the operations of a compiled
// operator. They convert to float64, compute, guard and round as the kernels for
// float64 numbers do (see Norm, Act and Noise); what they leave open the callers
// settle. pixels is 1 or more.
type Rows struct {
	// Sums sets sums to the sums of x-pivot and of its square, lane by lane. There
	// are four accumulators each: pixel i goes to i%4, but the last 1 to 3 of a
	// number that four does not divide to 0, 1 and 2. They are added as
	// (a0+a1)+(a2+a3).
	Sums func(x *float32, pixels int, pivot *[8]float64, sums *[2][8]float64)

	// Line evaluates y = fma(x-pivot, slope, offset) and w = fma(|y|, part, rest),
	// with lines holding pivot, slope, offset, part and rest of 8 channels, and
	// rounds y-w and y+w. It stores the former, and in open a byte for each pixel
	// with a bit for each channel that this leaves open: where the two differ in
	// any bit and, for the half formats (which round ties away from zero), where
	// the former is not a normal number of the format, except for y = w = 0.
	// any is the bits of open, combined. dst may be src.
	Line [Formats]func(dst, src *float32, pixels int, lines *[5][8]float64, open *uint8) (any uint64)

	// ReLU and the others apply an activation; dst and src lie apart. To float32,
	// GELU and the others round y-ActErr y and y+ActErr y, and what differs in any
	// bit is open; for other formats they do what ActKernel does.
	ReLU RowAct
	Act  [2]RowActs

	// HardSwish is -0 up to -3, x from 3 on and x (x+3)/6 between, to float32. Where it is open y (1-2^-50) and
	// y (1+2^-50) differ, or are NaN, for a y in three roundings.
	HardSwish RowAct

	// GELU evaluates so many pixels, and the last ones singly, by ActGELUNear if none of
	// their numbers is too large for it; 0 for never.
	nearGELU int

	// Apply are the operations of two rows and of one.
	Apply [2]RowApply

	// Gather lays 8 lines of float32 numbers, one of each channel, out as pixels, of
	// which there are a multiple of 8.
	Gather func(dst *float32, lines *[8]*float64, pixels int)

	// Finite reports whether no number of a row is NaN or infinite.
	Finite func(x *float32, pixels int) bool

	// Greatest takes, for each of some pixels, the numbers of src that are greater than
	// those of dst, or NaN, into dst: of equal numbers, and of zeros, what is there stays.
	// The pixels of src lie step apart.
	Greatest func(dst, src *float32, pixels, step int)

	// Cut rounds to TF32 by a carry: to the bits of a number it adds add, and the last
	// bit that stays if odd is 1, and drops what is below that. 0xfff and 1 are to
	// nearest even, 0x1000 and 0 ties away from zero, 0 and 0 towards zero. The one NaN
	// stays.
	Cut func(dst, x *float32, pixels int, add, odd uint32)
}

// What the kernels of Rows round to, as an index: to float32, or to the format of
// an ActGrid or a NoiseGrid.
const (
	RowFloat32 = iota
	RowGrid
)

// RowActs are the functions that need a guard.
type RowActs struct{ GELU, GELUTanh, SiLU, Tanh, Sigmoid RowAct }

// RowAct applies an activation. grid points to an ActGrid, which functions to float32
// do not read.
type RowAct func(dst, src *float32, pixels int, grid *float64, open *uint8) (any uint64)

// RowApply are operations that round to one format rn. Every NaN becomes the one
// NaN.
type RowApply struct {
	Add      RowFunc // rn(x + n)
	Noise    RowFunc // rn(x + rn(rn(n) s))
	Modulate RowFunc // rn(x rn(1 + rn(rn(n) s)))
	Scale    RowFunc // rn(x s); n is not used
	Shift    RowFunc // rn(x + s); n is not used
	Round    RowFunc // rn(x), of a NoiseGrid; n and s are not used
	Mul      RowFunc // rn(x n); s is not used

	// Of one row; n is not used. The last three are for numbers of the format.
	Divide RowFunc // rn(x / s)
	Most   RowFunc // the greater of x and s, x where they are equal or it is NaN
	Least  RowFunc // the lesser, likewise
	Leak   RowFunc // the greater of x and rn(x s), x where they are equal
}

// RowFunc applies an operation with a number s for each channel. dst may be x or n.
type RowFunc func(dst, x, n *float32, pixels int, s *[8]float32, grid *float64)

// RowKernels returns the kernels of the backend that runs, nil if it has none.
func RowKernels() *Rows { return current().rows }

// Guard returns where the format begins, as the kernels read it.
func (g *ActGrid) Guard() *float64 { return &g.least }
