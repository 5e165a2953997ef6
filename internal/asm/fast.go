package asm

// Fast is a set of kernels that convolve with KxK kernels in float32, by the same few
// multiplications as [Winograd] and in its order. Nothing is guarded: the float32
// operations, one by one, are the definition (docs/NUMERICS.md, "fast"), and package
// conv has them in plain Go.
//
// Layouts are Winograd's: V [n*n][group][block][Tiles][8], U [n*n][block*8][Outputs],
// M [n*n][group][Tiles][Outputs], images [block][y][x][8]. Strides are in bytes.
type Fast struct {
	Tiles   int // of a group
	Outputs int // of a group, a multiple of 8

	// Input transforms the nxn window of one tile: see Winograd.Input. plane is the
	// stride from a block to the next in V. For 4x4 taps the result goes to three more
	// places too, also bytes from dst; others do not read that.
	Input func(src *float32, line, image int, dst *float32, also *[3]int, point, plane, blocks int, scratch *float32)

	// InputPair transforms the windows of two tiles side by side in the image, whose places
	// in V are side by side too; dst is that of the first, and also is not read. scratch
	// holds n*n*16 numbers. It is nil where there is none.
	InputPair func(src *float32, line, image int, dst *float32, also *[3]int, point, plane, blocks int, scratch *float32)

	// Multiply computes M at one point: see Winograd.Multiply.
	Multiply func(v, u, m *float32, blocks, chain, groups int, next *float32, later *float32)

	// MultiplyFewer is Multiply for groups of Tiles - 1, in V and in M. It is nil where there
	// is none.
	MultiplyFewer func(v, u, m *float32, blocks, chain, groups int, next *float32, later *float32)

	// Line is Multiply of one row v [blocks][8], by one panel u, to m [Outputs]. Lines is that of FastPanels panels,
	// panel bytes apart, to m [FastPanels][Outputs]. Both are nil where there is none.
	Line, Lines func(v, u *float32, panel int, m *float32, blocks, chain int)

	// Output transforms the products of one tile and 8 outputs, adds the bias, and
	// makes every NaN 0x7fc00000: see Winograd.Output. scratch holds m*n*8 numbers for mxm outputs.
	Output func(m *float32, point int, bias, dst *float32, line int, scratch *float32)

	// OutputPair is Output of 16 outputs, two blocks of dst that are plane apart. scratch
	// holds m*n*16 numbers. It is nil where there is none.
	OutputPair func(m *float32, point int, bias, dst *float32, line, plane int, scratch *float32)
}

// FastPanels is how many panels Fast.Lines takes.
const FastPanels = 4

// FastTaps is a convolution tap by tap in float32, of groups of Tiles pixels side by side
// and Outputs channels, two blocks or four. The channels of a tap are added in order, one tap
// after another, by fused multiply-adds from zero, in sums of chain taps that are added
// in order; then the bias, and every NaN becomes 0x7fc00000. Strides are in bytes.
type FastTaps struct {
	Tiles, Outputs int

	// Convolve makes the outputs dst. src is where the first pixel reads its first tap,
	// pixel the stride in src from a pixel of dst to the next; taps holds for each of
	// the n taps the bytes from there; u is [n][8][Outputs], m scratch [Tiles][Outputs],
	// bias [Outputs]. plane is the stride from a block of dst to the next, 0
	// where there is one only, of two. Convolve4 has the first 4 channels of each tap only, and u
	// [n][4][Outputs].
	Convolve, Convolve4 func(src *float32, pixel int, taps *int, n, chain int, u, m, bias, dst *float32, plane, groups int)

	// Wide is a set of kernels for more pixels and outputs, all of which must be there; nil
	// if there is none.
	Wide *FastTaps
}

// FastTapKernels returns the kernels of the backend that runs, nil if it has none.
func FastTapKernels() *FastTaps { return current().fastTaps }

// Fast returns the form's float32 kernels of the backend that runs, nil if it has none.
func (f *Form) Fast() *Fast {
	b := current()
	switch f {
	case form3:
		return b.fast
	case form4:
		return b.fast4
	case fast5:
		return b.fast5
	}
	return nil
}
