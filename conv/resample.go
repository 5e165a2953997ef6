package conv

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// AvgPool computes PyTorch's avg_pool2d of windows size by size, size apart:
//
//	dst[n,c,y,x] = sum over i, j < size of src[n,c, y*size+i, x*size+j] / size^2
//
// rounded once. src is [N,C,H,W] and dst [N,C,floor(H/size),floor(W/size)];
// rows and columns that fill no window are ignored. The float64 order is: the
// window row by row, added to 0, then one division.
func AvgPool(dst, src *tensor.Tensor, size int) {
	tensor.Require("conv", 4, dst, src)
	if size < 1 || dst.H() != src.H()/size || dst.W() != src.W()/size {
		panic("conv: destination size does not fit source and pooling size")
	}
	m := mean{weights: make([]float64, size*size), denominator: size * size}
	for i := range m.weights {
		m.weights[i] = 1
	}
	resample(dst, src, func(plane, out []float64) {
		terms := make([]float64, size*size)
		for y := range dst.H() {
			for x := range dst.W() {
				for i := range size {
					copy(terms[i*size:(i+1)*size], plane[(y*size+i)*src.W()+x*size:])
				}
				out[y*dst.W()+x] = m.round(dst.Format, terms)
			}
		}
	})
}

// maxFactor bounds the factor of Bilinear, so that its integer weights have at
// most 28 bits and their products with float32 numbers are exact in float64.
const maxFactor = 1 << 13

// Bilinear enlarges the image by an integer factor f, 1 to 8192, as PyTorch's
// interpolate does with mode "bilinear" and align_corners=False. Along each
// axis output i lies at the source position
//
//	p = max(0, (i+1/2)/f - 1/2) = max(0, 2i+1-f) / 2f,
//
// between pixels a = floor(p) and b = min(a+1, size-1), which it weighs with
// 1-(p-a) and p-a. These are exact fractions of denominator 2f; the sum of the
// four products is rounded once. All four pixels take part, also with weight
// 0: 0*Inf is NaN, as in PyTorch. src is [N,C,H,W] and dst [N,C,H*f,W*f].
//
// The float64 order is: (a,a), (a,b), (b,a), (b,b) (row, column), each times
// its integer weight of denominator 4f^2, added to 0, then one division.
func Bilinear(dst, src *tensor.Tensor, factor int) {
	tensor.Require("conv", 4, dst, src)
	if factor < 1 || factor > maxFactor || dst.H() != src.H()*factor || dst.W() != src.W()*factor {
		panic("conv: destination size does not fit source and factor")
	}
	type position struct {
		a, b   int     // the pixels
		wa, wb float64 // their weights times 2f
	}
	positions := func(size int) []position {
		p := make([]position, size*factor)
		for i := range p {
			at := max(0, 2*i+1-factor)
			a, wb := at/(2*factor), at%(2*factor)
			p[i] = position{a, min(a+1, size-1), float64(2*factor - wb), float64(wb)}
		}
		return p
	}
	rows, cols := positions(src.H()), positions(src.W())
	resample(dst, src, func(plane, out []float64) {
		m := mean{weights: make([]float64, 4), denominator: 4 * factor * factor}
		terms := make([]float64, 4)
		for y, r := range rows {
			upper, lower := plane[r.a*src.W():][:src.W()], plane[r.b*src.W():][:src.W()]
			for x, c := range cols {
				terms[0], m.weights[0] = upper[c.a], r.wa*c.wa
				terms[1], m.weights[1] = upper[c.b], r.wa*c.wb
				terms[2], m.weights[2] = lower[c.a], r.wb*c.wa
				terms[3], m.weights[3] = lower[c.b], r.wb*c.wb
				out[y*dst.W()+x] = m.round(dst.Format, terms)
			}
		}
	})
}

// Nearest enlarges the image by an integer factor of at least 1, as PyTorch's
// interpolate does with mode "nearest": dst[n,c,y,x] = src[n,c,y/f,x/f], -0
// included, rounded if dst has a smaller format. src is [N,C,H,W] and dst
// [N,C,H*f,W*f].
func Nearest(dst, src *tensor.Tensor, factor int) {
	tensor.Require("conv", 4, dst, src)
	if factor < 1 || dst.H() != src.H()*factor || dst.W() != src.W()*factor {
		panic("conv: destination size does not fit source and factor")
	}
	resample(dst, src, func(plane, out []float64) {
		for y := range dst.H() {
			for x := range dst.W() {
				out[y*dst.W()+x] = dst.Format.Round(plane[y/factor*src.W()+x/factor])
			}
		}
	})
}

// resample calls body for every plane of src and the one of dst it makes.
func resample(dst, src *tensor.Tensor, body func(plane, out []float64)) {
	if dst.N() != src.N() || dst.C() != src.C() {
		panic("conv: source and destination differ in samples or channels")
	}
	checkFormats(dst, src)
	par.For(src.N()*src.C(), func(i int) {
		body(src.Plane(i/src.C(), i%src.C()), dst.Plane(i/src.C(), i%src.C()))
	})
}

// mean is the weighted mean (sum of weights[i]*x[i]) / denominator. The weights
// are non-negative integers below 2^28.
type mean struct {
	weights     []float64
	denominator int
}

// round returns the mean of x in format f.
func (m *mean) round(f fp16.Format, x []float64) float64 {
	y, bound := m.eval(x)
	if f == fp16.Float64 {
		return f.Round(y)
	}
	if v, ok := f.Decide(y, bound); ok {
		return v
	}
	if y-y != 0 {
		return f.Round(y) // finite terms do not overflow: IEEE 754's answer
	}
	var total exact.Sum
	for i, v := range x {
		total.Add(float64(m.weights[i] * v))
	}
	numerator, exp := total.Int()
	return f.Round(exact.Quotient(numerator, exp, big.NewInt(int64(m.denominator))))
}

// eval evaluates the mean in float64, terms in order, and bounds its error E.
//
// With u = 2^-53, the products are exact for float32 numbers, the first of the
// n additions (to 0) is exact, and the division rounds once; the quotient is
// far from float64's subnormal numbers. So with P = sum of weight*|x|, D the
// denominator and g_k as in bound.go
//
//	|y^ - y| <= g_(n-1) P/D + u (1+g_(n-1)) P/D <= g_n P/D.
//
// P is computed with a relative error below nu; a factor 1.0001 covers it and
// all else of second order for n < 2^32: E = 1.0001 n u P/D. If P is 0 then the
// mean is exactly 0, and so is E.
func (m *mean) eval(x []float64) (y, bound float64) {
	var sum, size float64
	d := float64(m.denominator)
	for i, v := range x {
		p := float64(m.weights[i] * v)
		sum += p
		size += math.Abs(p)
	}
	return sum / d, 1.0001 * 0x1p-53 * float64(len(x)) * size / d
}
