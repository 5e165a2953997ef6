package asm

// Channels is a set of kernels that convolve each channel of images by itself: float32 numbers [block][y][x][8], as
// Winograd has them.
type Channels struct {
	// Convolve computes pixels of a line, 1 or more, of 8 channels: src is where the first one reads its first tap, the
	// next one reads step bytes on, taps holds for each of the n taps, 1 or more, the bytes from there, and w
	// [n][2][8] weights and their magnitudes. table holds biases b, their magnitudes, and e [3][8]. With y the sum of
	// the products in order from zero, by one fused multiply-add each, and b, and a that of their magnitudes, it rounds
	// y - ea and y + ea to float32. It stores the former, and in open a byte for each pixel with a bit for each channel
	// that this leaves open: where the two differ in any bit, or y is NaN. any is the bits of open, combined.
	Convolve func(src *float32, step int, taps *int, n int, w, table *float64,
		dst *float32, pixels int, open *uint8) (any uint64)
}

// ChannelKernels returns the kernels of the backend that runs, nil if it has none.
func ChannelKernels() *Channels { return current().channels }
