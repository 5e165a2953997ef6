package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// The bound of the direct float64 sum.
//
// Let u = 2^-53 and y = p_1 + ... + p_n + b, p_i = w_i x_i, the exact value of
// one output; n is the number of taps. All operands are float32 numbers, so
// that every product is exact in float64 (48 bits; between 2^-298 and 2^256 in
// size, far from underflow and overflow), and the only errors are those of the
// additions. The first addition, to 0, is exact, and so is each of a
// structural zero. So there are at most n-1 roundings before the bias and one
// with it, and with P = sum of |p_i| and g_k = ku/(1-ku) (Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd ed., section 4.2)
//
//	|y^ - y| <= g_(n-1) P + u (|sum of p_i as computed| + |b|)
//	         <= g_(n-1) P + u ((1 + g_(n-1)) P + |b|) <= g_n P + u |b|.
//
// P is bounded by norms, which need no work per output and tap. For any
// positive t_c, one per input channel, Cauchy and Schwarz give
//
//	P = sum |w_i/t_c| |t_c x_i| <= ||w/t|| ||t x||,
//
// the first norm over an output channel's weights, the second over a window of
// the image. t_c is a power of two near the rms of channel c's weights: without
// it, a channel of great x and small w (or the reverse) would spoil the bound of
// all others. Dividing and multiplying by it is exact.
//
// The norms are sums of n non-negative squares (each of a 24-bit number, hence
// exact) and a root: they are computed with a relative error below (n+1)u,
// their product below (2n+4)u. For n < 2^32 all of this, the denominator of
// g_n and the roundings of the bound itself lie below a factor 1.0001:
//
//	E = 1.0001 u (n ||w/t|| ||t x|| + |b|).
//
// If either norm is 0, all products are 0 and y^ = b is exact: E = 0. If either
// is infinite or NaN then so is E (Inf*0 is NaN), and the guard flags.
func (k *Kernel) bound(o int, window float64) float64 {
	product := float64(k.norm[o] * window)
	if product == 0 {
		return 0
	}
	return 1.0001 * 0x1p-53 * (float64(float64(k.taps())*product) + math.Abs(k.bias[o]))
}

// room is at least how many numbers kernels read past the end of norms.
const room = 64

// windows returns ||t x|| over the window of every output pixel, [N][OH][OW]:
// the weighted squares are summed over the channels of a source pixel, then
// along the rows of the window, then along its columns.
func (j *job) windows() []float64 {
	s, k := j.src, j.k
	ow := j.dst.W()
	rows := grown(&j.memory.rows, s.N()*s.H()*ow) // sums along the row of each window
	pixels := grown(&j.memory.pixels, s.N()*s.H()*s.W())
	par.For(s.N()*s.H(), func(i int) {
		n, y := i/s.H(), i%s.H()
		pixel := pixels[i*s.W():][:s.W()]
		clear(pixel)
		for c := range s.C() {
			addSquares(pixel, s.Plane(n, c)[y*s.W():(y+1)*s.W()], k.scale[c])
		}
		for x := range ow {
			sum := 0.0
			for t := range k.kw {
				if ix := j.cols.tap(x, t); ix >= 0 {
					sum += pixel[ix]
				}
			}
			rows[i*ow+x] = sum
		}
	})
	n := s.N() * j.dst.H() * ow
	norms := grown(&j.memory.norms, n+room)[:n]
	par.For(s.N()*j.dst.H(), func(i int) {
		n, y := i/j.dst.H(), i%j.dst.H()
		out := norms[i*ow:][:ow]
		clear(out)
		for t := range k.kh {
			if iy := j.rows.tap(y, t); iy >= 0 {
				for x, v := range rows[(n*s.H()+iy)*ow:][:ow] {
					out[x] += v
				}
			}
		}
		for x, v := range out {
			out[x] = math.Sqrt(v)
		}
	})
	return norms
}

// addSquares adds the squares of t x to sums.
func addSquares(sums, x []float64, t float64) {
	if d := asm.DirectKernels(); d != nil && len(x) >= 8 {
		n := len(x) / 8 * 8
		d.AddSquares(&x[0], t, &sums[0], n)
		sums, x = sums[n:], x[n:]
	}
	for i, v := range x {
		v *= t
		sums[i] += float64(v * v)
	}
}

// pixelNorms is windows for kernels of one pixel on images of one line.
func (j *job) pixelNorms() []float64 {
	s, k := j.src, j.k
	norms := grown(&j.memory.norms, s.N()*s.W())
	const piece = 1 << 10
	pieces := (s.W() + piece - 1) / piece
	par.For(s.N()*pieces, func(i int) {
		n, lo := i/pieces, i%pieces*piece
		hi := min(lo+piece, s.W())
		out := norms[n*s.W()+lo : n*s.W()+hi]
		clear(out)
		for c := range s.C() {
			addSquares(out, s.Plane(n, c)[lo:hi], k.scale[c])
		}
		for x, v := range out {
			out[x] = math.Sqrt(v)
		}
	})
	return norms
}
