package noise

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// fft is a plan for the discrete Fourier transform of n numbers,
//
//	X[k] = sum over j of x[j] w^(jk),  w = exp(-2 pi i/n),
//
// for any n >= 1. It splits n into its prime factors p: with n = p*m, the p
// interleaved subsequences are transformed and combined by transforms of
// length p,
//
//	X[k+q*m] = sum over j of (w_n^(jk) Y_j[k]) w_p^(jq),
//
// each of them a plain sum in the order of j. All arithmetic is float64 on
// separate real and imaginary parts, in an order that depends on n alone, so
// results are the same bits everywhere.
//
// Error. Let u = 2^-53. An entry of the table lies within 4u of the true root
// of unity (see root). A complex product of four multiplications and two
// additions has relative error 2 sqrt(2) u, so a term of a combination, which
// passes through two tabulated roots and at most p-1 additions, has relative
// error e_p = (2(4 + 2 sqrt(2)) + p-1)u to first order. Bounded by absolute
// values, a combination errs by e_p times the all-ones matrix applied to
// |Y|, whose 2-norm is p, where the combination itself stretches 2-norms by
// exactly sqrt(p). Relative to the result in the 2-norm, a stage therefore
// adds at most sqrt(p) e_p, later stages keep relative norms, and
//
//	||X^ - X|| <= ||X|| * sum over prime factors p of n of sqrt(p) e_p.
//
// (For powers of two this is N. Higham, "Accuracy and Stability of Numerical
// Algorithms", 2nd ed., theorem 24.2.) In two dimensions the sums of both
// sides add, and the division of the inverse adds u.
type fft struct {
	n        int
	factors  []int     // primes, ascending
	cos, sin []float64 // cos[k] + i sin[k] = w^k
}

func newFFT(n int) *fft {
	f := &fft{n: n, cos: make([]float64, n), sin: make([]float64, n)}
	for k := range n {
		f.cos[k], f.sin[k] = root(k, n)
	}
	for p := 2; n > 1; p++ {
		for n%p == 0 {
			f.factors = append(f.factors, p)
			n /= p
		}
	}
	return f
}

// root returns the real and imaginary part of exp(-2 pi i k/n), 0 <= k < n.
//
// The circle is cut into eighths: 8k = o*n + r in integers, so the angle is
// (o + r/n) pi/4, and the sine and cosine of at most pi/4 give all others.
// That small angle carries the errors of the constant (0.36u relative), the
// product and the quotient (u each), 2.36u of at most pi/4 and so less than
// 1.9u. Each function adds elem.TrigErr = 1.7u of its value, 1.7u for the
// cosine and 1.7u/sqrt(2) for the sine: 2.1u for the two parts. Together less
// than 4u. Where r = 0 the root is exact.
func root(k, n int) (re, im float64) {
	o, r := 8*k/n, 8*k%n
	if o&1 == 1 {
		r = n - r // measured back from the next multiple of pi/2
	}
	angle := float64(r) * (math.Pi / 4) / float64(n)
	c, s := elem.Cos(angle), elem.Sin(angle)
	if (o+1)&2 != 0 { // octants 1, 2, 5, 6 lie around the imaginary axis
		c, s = s, c
	}
	if o >= 2 && o < 6 {
		c = -c
	}
	if o < 4 {
		s = -s
	}
	return c, s
}

// transform writes the transform of x[0], x[stride], x[2*stride], ... to
// (re, im), which have length n and do not overlap x. work has space for twice
// the largest prime factor of n.
func (f *fft) transform(re, im, xr, xi []float64, stride int, work []float64) {
	f.stage(re, im, xr, xi, stride, 1, f.factors, work)
}

// stage transforms len(re) = n/turn numbers, whose root of unity is w^turn.
func (f *fft) stage(re, im, xr, xi []float64, stride, turn int, factors []int, work []float64) {
	if len(factors) == 0 {
		re[0], im[0] = xr[0], xi[0]
		return
	}
	p := factors[0]
	m := len(re) / p
	for j := range p {
		f.stage(re[j*m:(j+1)*m], im[j*m:(j+1)*m], xr[j*stride:], xi[j*stride:], stride*p, turn*p, factors[1:], work)
	}
	if p == 2 { // as below, where w_2 = -1
		for k := range m {
			ar, ai := re[k], im[k]
			br, bi := f.times(re[k+m], im[k+m], k*turn)
			re[k], im[k] = ar+br, ai+bi
			re[k+m], im[k+m] = ar-br, ai-bi
		}
		return
	}
	tr, ti := work[:p], work[p:2*p]
	for k := range m {
		for j := range p {
			tr[j], ti[j] = f.times(re[k+j*m], im[k+j*m], j*k*turn)
		}
		for q := range p {
			sr, si := tr[0], ti[0]
			for j := 1; j < p; j++ {
				br, bi := f.times(tr[j], ti[j], j*q%p*(f.n/p))
				sr, si = sr+br, si+bi
			}
			re[k+q*m], im[k+q*m] = sr, si
		}
	}
}

// times returns (a + ib) w^k.
func (f *fft) times(a, b float64, k int) (re, im float64) {
	c, s := f.cos[k], f.sin[k]
	return float64(a*c) - float64(b*s), float64(a*s) + float64(b*c)
}

// inverse2 replaces X, of h rows and w columns, by its inverse transform in two
// dimensions,
//
//	x[a,b] = 1/(hw) sum over j, k of X[j,k] exp(2 pi i (ja/h + kb/w)),
//
// first along the rows (the plan row, of length w), then along the columns
// (the plan column, of length h). An inverse is the transform with real and
// imaginary parts exchanged on both sides.
func inverse2(re, im []float64, column, row *fft) {
	h, w := column.n, row.n
	n := max(h, w)
	buffer := make([]float64, 4*n)
	or, oi, work := buffer[:n], buffer[n:2*n], buffer[2*n:]
	for a := range h {
		r, i := re[a*w:(a+1)*w], im[a*w:(a+1)*w]
		row.transform(oi[:w], or[:w], i, r, 1, work)
		copy(r, or)
		copy(i, oi)
	}
	size := float64(h * w)
	for b := range w {
		column.transform(oi[:h], or[:h], im[b:], re[b:], w, work)
		for a := range h {
			re[a*w+b], im[a*w+b] = or[a]/size, oi[a]/size
		}
	}
}
