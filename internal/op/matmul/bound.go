package matmul

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
)

// The bound of a float64 sum of products.
//
// Let u = 2^-53, y = p_1 + ... + p_n, the p_k products of float32 numbers, which are
// exact in float64, P the sum of the |p_k| and g_k = ku/(1-ku). The sum of at most
// longest products is taken one after another from zero; that of more in blocks of one
// length (the last may be shorter), chain at most, which are added in order, from zero as
// well. A product takes part in at most as many roundings as its block has products (the
// first addition, to zero, is exact) and in as many as there are blocks thereafter, so that
// with r = n for n <= longest, and r = length + blocks beyond,
//
//	|y^ - y| <= g_r P
//
// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2). By
// Cauchy and Schwarz P <= ||a|| ||b||, with a the row and b the column: a number for
// each row and each column, and no work for each element but a multiplication. The
// norms are roots of sums of n squares, each exact or rounded once where a was
// multiplied by a power of two (it is exact then, too): they are known to (n+1)u each.
// For n < 2^32 these errors, the denominator of g_r and the roundings of the bound
// itself are below a factor 1.0002, and the two roundings of y-E and y+E in the kernels
// are 2u |y^| at most, |y^| <= 1.0001 P:
//
//	E = 1.0002 u (r + 2) ||a|| ||b||.
//
// A norm that is 0 makes all products 0, and y^ = 0 is exact. A norm that is infinite
// or NaN leaves every element of its tile open.
//
// Sums of few bits have no error at all: where all a of a panel are multiples of 2^p
// and all b of 2^q, all partial sums are multiples of 2^(p+q), and exact if none
// exceeds 2^(53+p+q); P bounds them. Looking for p and q takes time, so it is done for
// panels of which many elements are left open, and remembered (see exactly).
//
// With factors, y = alpha S + beta c, and s^ near S within E, the three roundings of
// fl(fl(alpha s^) + fl(beta c)) add u (|alpha s^| + |beta c| + |y^|), and 2^-1060 covers
// those that underflow.

// Up to longest products are added one after another, in registers all the while. Of more,
// chain are, for all panels at hand, and then the next: so much of a panel of b stays in
// the first cache, and so much of the panels of a in the second. It also keeps the bound
// small.
const (
	longest = 256
	chain   = 96
)

// blockOf returns how many of n products are added one after another.
func blockOf(n int) int {
	if n <= longest {
		return max(n, 1)
	}
	blocks := (n + chain - 1) / chain
	return (n + blocks - 1) / blocks
}

// roundings returns r of a sum of n products.
func roundings(n int) int {
	if n <= longest {
		return n
	}
	block := blockOf(n)
	return block + (n+block-1)/block
}

// slope returns what E is for norms of 1.
func slope(n int) float64 { return 1.0002 * 0x1p-53 * float64(roundings(n)+2) }

// exactly reports whether the sums of a tile, of two panels, are without error.
func exactly(a *packed, ia int, b *packed, ib int) bool {
	pa, pb := a.grid(ia), b.grid(ib)
	if pa == nothing || pb == nothing {
		return true
	}
	top := greatest(a.lineNorms(ia)) * greatest(b.lineNorms(ib))
	return top*1.0002 <= math.Ldexp(1, 53+pa+pb)
}

// greatest returns the greatest number, NaN if one is.
func greatest(v []float64) (g float64) {
	for _, x := range v {
		if g == g && !(x <= g) {
			g = x
		}
	}
	return g
}

// kernelFormats are the indices of the formats in the arrays of package asm.
var kernelFormats = [...]int{asm.ToFloat64, asm.Float32, -1, asm.Float16, asm.BFloat16}
