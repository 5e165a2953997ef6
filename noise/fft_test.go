package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

// The judge of this file evaluates the definitions in 128-bit arithmetic.

const wide = 128

func wideOf(v float64) *big.Float { return new(big.Float).SetPrec(wide).SetFloat64(v) }

type wideComplex struct{ re, im *big.Float }

func (z wideComplex) times(w wideComplex) wideComplex {
	mul := func(a, b *big.Float) *big.Float { return new(big.Float).Mul(a, b) }
	return wideComplex{
		new(big.Float).Sub(mul(z.re, w.re), mul(z.im, w.im)),
		new(big.Float).Add(mul(z.re, w.im), mul(z.im, w.re)),
	}
}

// wideRoot returns exp(sign 2 pi i k/n).
func wideRoot(k, n, sign int) wideComplex {
	t := new(big.Float).Mul(bigref.Pi(wide), wideOf(float64(2*sign*k)))
	t.Quo(t, wideOf(float64(n)))
	return wideComplex{bigref.Cos(t, wide), bigref.Sin(t, wide)}
}

// wideDFT returns the sums over j of x[j] exp(sign 2 pi i jk/n).
func wideDFT(x []wideComplex, sign int) []wideComplex {
	n := len(x)
	roots, y := make([]wideComplex, n), make([]wideComplex, n)
	for k := range roots {
		roots[k] = wideRoot(k, n, sign)
	}
	for k := range y {
		y[k] = wideComplex{wideOf(0), wideOf(0)}
		for j := range x {
			t := x[j].times(roots[j*k%n])
			y[k].re.Add(y[k].re, t.re)
			y[k].im.Add(y[k].im, t.im)
		}
	}
	return y
}

// wideInverse2 is the inverse transform of an h x w array.
func wideInverse2(x []wideComplex, h, w int) []wideComplex {
	y := make([]wideComplex, h*w)
	for a := range h {
		copy(y[a*w:], wideDFT(x[a*w:(a+1)*w], 1))
	}
	for b := range w {
		column := make([]wideComplex, h)
		for a := range h {
			column[a] = y[a*w+b]
		}
		size := wideOf(float64(h * w))
		for a, v := range wideDFT(column, 1) {
			y[a*w+b] = wideComplex{v.re.Quo(v.re, size), v.im.Quo(v.im, size)}
		}
	}
	return y
}

func widen(re, im []float64) []wideComplex {
	x := make([]wideComplex, len(re))
	for i := range x {
		x[i] = wideComplex{wideOf(re[i]), wideOf(im[i])}
	}
	return x
}

// relative returns the 2-norm of (re, im) - want over that of want.
func relative(re, im []float64, want []wideComplex) float64 {
	var e, n float64
	for i, z := range want {
		dr, _ := new(big.Float).Sub(wideOf(re[i]), z.re).Float64()
		di, _ := new(big.Float).Sub(wideOf(im[i]), z.im).Float64()
		r, _ := z.re.Float64()
		m, _ := z.im.Float64()
		e += dr*dr + di*di
		n += r*r + m*m
	}
	return math.Sqrt(e / n)
}

// fftBound is the bound stated at fft, with 1e-10 for what is not of first order.
func fftBound(n int) float64 {
	var sum float64
	for _, p := range newFFT(n).factors {
		sum += math.Sqrt(float64(p)) * (2*(4+2*math.Sqrt2) + float64(p-1))
	}
	return sum * 0x1p-53 * (1 + 1e-10)
}

func normals(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(rng.NormFloat64()))
	}
	return v
}

func sweep() []int {
	sizes := []int{67, 81, 97, 100, 121, 125, 127, 128}
	for n := 1; n <= 64; n++ {
		sizes = append(sizes, n)
	}
	return sizes
}

func TestRoots(t *testing.T) {
	for _, n := range append(sweep(), 1000, 1024, 65521) {
		for k := range n {
			if n > 64 && k%7 != 0 || n > 200 && k%97 != 0 {
				continue
			}
			re, im := root(k, n)
			if err := relative([]float64{re}, []float64{im}, []wideComplex{wideRoot(k, n, -1)}); err > 4*0x1p-53 {
				t.Fatalf("exp(-2 pi i %d/%d) = (%v, %v): error %.3g, want at most 4*2^-53", k, n, re, im, err)
			}
			if exact := 4 * k % n; exact == 0 {
				want := [][2]float64{{1, 0}, {0, -1}, {-1, 0}, {0, 1}}[4*k/n]
				if re != want[0] || im != want[1] {
					t.Fatalf("exp(-2 pi i %d/%d) = (%v, %v), want exactly %v", k, n, re, im, want)
				}
			}
		}
	}
}

func TestTransformAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for _, n := range sweep() {
		const stride = 3
		xr, xi := normals(rng, n*stride), normals(rng, n*stride)
		sr, si := make([]float64, n), make([]float64, n)
		for i := range n {
			sr[i], si[i] = xr[i*stride], xi[i*stride]
		}
		re, im := make([]float64, n), make([]float64, n)
		newFFT(n).transform(re, im, xr, xi, stride, make([]float64, 2*n))
		err, bound := relative(re, im, wideDFT(widen(sr, si), -1)), fftBound(n)
		if !(err <= bound) {
			t.Errorf("n = %d: relative error %.3g, want at most %.3g", n, err, bound)
		}
		if n > 1 {
			worst = max(worst, err/bound)
		}
	}
	t.Logf("largest error: %.3g of the bound", worst)
}

func TestInverse2AgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{1, 1}, {1, 7}, {9, 1}, {2, 3}, {5, 4}, {8, 8}, {6, 10}, {11, 12}, {16, 15}} {
		h, w := size[0], size[1]
		re, im := normals(rng, h*w), normals(rng, h*w)
		want := wideInverse2(widen(re, im), h, w)
		inverse2(re, im, newFFT(h), newFFT(w))
		if err, bound := relative(re, im, want), fftBound(h)+fftBound(w)+0x1p-53; !(err <= bound) {
			t.Errorf("%dx%d: relative error %.3g, want at most %.3g", h, w, err, bound)
		}
	}
}

// An impulse at the origin has a flat spectrum, without any rounding.
func TestImpulseIsExact(t *testing.T) {
	for _, n := range sweep() {
		x, zero := make([]float64, n), make([]float64, n)
		x[0] = 1
		re, im := make([]float64, n), make([]float64, n)
		newFFT(n).transform(re, im, x, zero, 1, make([]float64, 2*n))
		for k := range n {
			if re[k] != 1 || im[k] != 0 {
				t.Fatalf("n = %d: X[%d] = (%v, %v), want (1, 0)", n, k, re[k], im[k])
			}
		}
	}
}

func TestParseval(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range append(sweep(), 360, 512, 1009) {
		x, y := normals(rng, n), normals(rng, n)
		re, im := make([]float64, n), make([]float64, n)
		newFFT(n).transform(re, im, x, y, 1, make([]float64, 2*n))
		energy := func(re, im []float64) float64 {
			var e float64
			for i := range re {
				e += re[i]*re[i] + im[i]*im[i]
			}
			return e
		}
		// Twice the bound of the norm, and 2n+2 roundings in each sum.
		bound := 2*fftBound(n) + float64(4*n+4)*0x1p-53
		if q := energy(re, im) / (float64(n) * energy(x, y)); math.Abs(q-1) > bound {
			t.Errorf("n = %d: energy of the spectrum is %v of n times that of the signal, want 1 +- %.2g", n, q, bound)
		}
	}
}
