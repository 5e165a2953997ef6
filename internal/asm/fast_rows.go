package asm

// FastRows is a set of kernels for rows of pixels of 8 channels in fast arithmetic: the
// float32 operations, one by one, are the definition (docs/NUMERICS.md, section 13), and
// packages act and norm have them in plain Go. Every NaN that is read is 0x7fc00000, and
// so is what becomes of it. pixels is 1 or more; dst may be src.
type FastRows struct {
	// GELU is act.FastGELU of each number.
	GELU func(dst, src *float32, pixels int)

	// Line sets dst to fma(x - pivot, slope, offset), with lines holding the three of 8
	// channels, and LineGELU to GELU of that.
	Line, LineGELU func(dst, src *float32, pixels int, lines *[3][8]float32)
}

// FastGELU is what fast GELU is made of, see act.FastGELU: the greatest |x| that it tells
// from others, minus the middle of x^2, and the coefficients of the polynomial, the constant
// first.
var FastGELU = &fastGELU

// fastGELUVectors are the constants as the kernels read them: -Far, Far, 0, 1, Middle, 1/2,
// and the coefficients.
var fastGELUVectors = func() (all [6 + len(fastGELU.Phi)][16]float32) {
	for i, c := range append([]float32{-fastGELU.Far, fastGELU.Far, 0, 1, fastGELU.Middle, 0.5}, fastGELU.Phi[:]...) {
		for k := range all[i] {
			all[i][k] = c
		}
	}
	return all
}()

// FastRowKernels returns the kernels of the backend that runs, nil if it has none.
func FastRowKernels() *FastRows { return current().fastRows }
