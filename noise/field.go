package noise

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/par"
)

// Scope says over what a correlated field is normalised.
type Scope uint8

// The scopes. Spinlock takes one deviation over the whole tensor, so that the
// realizations of a batch depend on each other and on how a run is split into
// batches; PerRealization, the default, makes them independent.
const (
	PerRealization Scope = iota // over C*H*W of each sample
	WholeBatch                  // over N*C*H*W of the tensor drawn
)

// correlated returns a random field of shape [n,c,h,w] with spatial
// correlation: white complex noise, one ComplexNormal draw of that shape, is
// filtered in Fourier space and normalised,
//
//	F = Z exp(-k^2 (rho h)^2 / 2),  v = Re ifft2(F),  v / (std(v) + 1e-8),
//
// where k^2 = kx^2 + ky^2 in cycles per pixel, as of fftfreq(h) along the
// columns and fftfreq(w) along the rows. ifft2 divides by hw. std is the
// unbiased deviation over the scope: two passes in memory order. The formula
// is that of Spinlock's StochasticBlock, including its unit: with k in cycles
// per pixel the filter is a Gaussian of rho*h/(2 pi) pixels. (Spinlock keeps
// k^2 from one call to the next and compares only one dimension before it uses
// it again, so a block that meets images of several non-square shapes can
// filter with the k^2 of another; here it always belongs to the image.)
//
// Everything is float64 in a fixed order up to the field itself, which is
// rounded once to float32, in every mode: draws are float32 numbers that runs
// of different precision share.
//
// A field without variation has std 0 or nearly so and is divided by 1e-8. The
// deviation of a single number (scope of one element) is 0/0, so its field is
// NaN, as PyTorch's is. rho must be finite and not negative.
func correlated(n, c, h, w int, rho float64, scope Scope, d Draws) ([]float64, error) {
	if !(rho >= 0 && rho <= math.MaxFloat64) {
		return nil, fmt.Errorf("spatial_correlation: %v: want a finite number of 0 or more", rho)
	}
	hw := h * w
	z := make([]float64, 2*n*c*hw)
	if err := d.Draw(ComplexNormal, 0, []int{n, c, h, w}, z); err != nil {
		return nil, err
	}
	field := make([]float64, n*c*hw)
	if len(field) == 0 {
		return field, nil
	}
	gain := lowpass(h, w, rho)
	column, row := newFFT(h), newFFT(w)
	par.For(n*c, func(i int) {
		re, im := field[i*hw:(i+1)*hw], make([]float64, hw)
		for j, g := range gain {
			at := 2 * (i*hw + j)
			re[j], im[j] = z[at]*g, z[at+1]*g
		}
		inverse2(re, im, column, row)
	})
	group := c * hw
	if scope == WholeBatch {
		group = len(field)
	}
	par.For(len(field)/group, func(i int) { normalise(field[i*group : (i+1)*group]) })
	return field, nil
}

// lowpass returns exp(-k^2 (rho h)^2 / 2) for an h x w spectrum. It is 1 at
// k = 0, also where (rho h)^2 overflows.
func lowpass(h, w int, rho float64) []float64 {
	gain := make([]float64, h*w)
	length := rho * float64(h)
	for a := range h {
		ka := frequency(a, h)
		for b := range w {
			kb := frequency(b, w)
			k2 := float64(ka*ka) + float64(kb*kb)
			gain[a*w+b] = 1
			if k2 != 0 {
				gain[a*w+b] = elem.Exp(-(k2 * (length * length) / 2))
			}
		}
	}
	return gain
}

// frequency returns entry i of fftfreq(n): 0, 1, ..., -2, -1 over n, negative
// from n/2 on.
func frequency(i, n int) float64 {
	if 2*i >= n {
		i -= n
	}
	return float64(i) / float64(n)
}

// normalise divides v by its unbiased standard deviation plus 1e-8 and rounds
// to float32.
func normalise(v []float64) {
	n := float64(len(v))
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / n
	squares := 0.0
	for _, x := range v {
		e := x - mean
		squares += float64(e * e)
	}
	scale := math.Sqrt(squares/(n-1)) + 1e-8
	for i, x := range v {
		v[i] = fp16.Float32.Round(x / scale)
	}
}
