package asm

// Pixels is a set of kernels that convolve pixel by pixel, without transforms,
// images of float32 numbers [block][y][x][8] as Winograd has them. Groups of Tiles
// pixels that lie side by side and Outputs channels are multiplied at once, M
// [group][Tiles][Outputs]. Strides are in bytes.
type Pixels struct {
	Tiles   int // pixels of a group
	Outputs int // channels of a group, a multiple of 8

	// Norms takes ||t x|| of pixels side by side, a multiple of 4 and 4 or more:
	// src is the first in channel block 0, image the stride from a channel block
	// to the next, and scale [blocks][8] holds t. There is a sum of squares for
	// each of the 8 channels of a block, by one fused multiply-add per block in
	// order; they are added as ((0+4)+(1+5)) + ((2+6)+(3+7)).
	Norms func(src *float32, image int, scale *float64, blocks int, out *float64, pixels int)

	// Widen lays 1 to Tiles pixels, which lie step apart, out as a group
	// [blocks][Tiles][8] of Multiply.
	Widen func(src *float32, image, step int, dst *float64, blocks, pixels int)

	// Multiply is that of Winograd.
	Multiply func(v, u, m *float64, blocks, chain, groups int, next *float64, later *float32)

	// Taps computes M of planes of float64 numbers: src is where the first pixel
	// reads its first tap, taps holds for each of the n taps the bytes from
	// there, and u is [n][Outputs]. The taps are added in order from zero, by one
	// fused multiply-add each.
	Taps func(src *float64, taps *int, n int, u, m *float64, groups int)

	// Words computes one output of a KxK kernel, K = taps, directly, channel by
	// channel of a block: out holds the 8 sums s of products, one after another
	// from zero, the 8 sums l of the errors of those additions, and the 8 sums of
	// the magnitudes of the errors of the additions to l. src is the first pixel of
	// the window, line and image the strides from a line of pixels and from a
	// channel block to the next, w [blocks][K*K][8].
	Words func(src *float32, line, image int, w *float32, taps, blocks int, out *[24]float64)

	// Exact computes 4 pixels side by side of Outputs channels without error, or
	// nearly so: src is where the first pixel, float32, reads its first tap, taps
	// holds for each of the n taps the bytes from there, and u is [n][Outputs]. For
	// each tap in order, from T = S [Outputs] and l = 0, t is T + xw, rounded, then d
	// = t - T, T = t, and xw - d is added to l. out receives T-S and l
	// [4][2][Outputs].
	Exact func(src *float32, taps *int, n int, u, anchor, out *float64)

	// Output adds the bias to the sums of 8 outputs, pixel by pixel, and rounds
	// twice, y-E and y+E, E = slope norm + e. It stores the former, float32
	// numbers [pixels][8], and for each pixel the bits of the channels in which
	// the two differ. m is the place of the first output in M, and table holds
	// slope [8], bias [8] and e [8].
	Output [Formats]func(m, norms, table *float64, dst *float32, pixels int, flags *uint8)
}
