package asm

// Norm is a set of kernels for normalisations: exact sums of numbers and of
// their squares, and the line x -> gamma (x-mu)/sqrt(V) + beta with its guard.
// Every length n is a positive multiple of 8. What the numbers may be, and the
// proofs, are in package norm, where the kernels are called.
type Norm struct {
	// Top finds, in each of 8 lanes, the greatest low and high words of the bits of
	// |x|. The greatest of the high ones, out[1], out[3], ..., begins with the
	// exponent of the largest number, or says that one is not finite.
	Top func(x *float64, n int, out *[16]uint32)

	// Sums adds n numbers and their squares (which should be exact) to
	// accumulators, in each of 8 lanes in order:
	//
	//	x -> acc[0] -> acc[1] -> acc[5]      x*x -> acc[2] -> acc[3] -> acc[4]
	//
	// where a number is added to the first, and what was lost by that is passed
	// on. If r is added to an a that is larger and stays in one binade, both the
	// loss r - ((a+r) - a) and the sum are exact. acc[5] is not a sum: what is
	// left of x is only combined there, bit by bit, and should be zero.
	Sums func(x *float64, n int, acc *[6][8]float64)

	// Apply evaluates t = ((x-muHi)-muLo)*slope, y = t+beta and
	// w = fma(|t|, ct, |y|*cy), and rounds y-w and y+w, ties away from zero. It
	// stores the former, and in open a bit for each number that this leaves
	// open: where the two differ, except for y = w = 0, and where the former is not
	// a normal number of the format. any is the bits of open, combined. line
	// holds muHi, muLo, slope, beta, ct and cy. dst may be src.
	Apply [Formats]func(dst, src *float64, n int, line *[6]float64, open *uint8) (any uint64)

	// ApplyRow is Apply with a gamma and a beta of each number: t = ((x-muHi)-muLo) times
	// gamma*inv. A number is open, too, unless |(x-muHi)-muLo| is greater than least. row
	// holds muHi, muLo, inv, least, ct and cy. It is nil for NEON.
	ApplyRow [Formats]func(dst, src, gamma, beta *float64, n int, row *[6]float64, open *uint8) (any uint64)
}
