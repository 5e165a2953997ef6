package norm

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Layer writes the layer normalisation of src to dst: src, of any shape, is seen as rows of
// n neighbouring numbers, the product of its last sizes, and the statistics are those of
// each row. gamma and beta hold n numbers, one for each place in a row, or are nil; eps must
// be finite and not negative. dst may be src. The formula is that of PyTorch's layer_norm.
//
// It panics if the shapes differ, if rows of n do not divide src, if gamma or beta has
// another length, on such an eps, and if src is in Float64 and dst is not.
func Layer(dst, src *tensor.Tensor, n int, gamma, beta []float64, eps float64) {
	normRows(dst, src, n, gamma, beta, eps, false)
}

// RMS writes x/sqrt(mean(x^2) + eps) times gamma to dst, for the numbers x of each row of n
// neighbouring ones of src, as [Layer] has them. The formula is that of PyTorch's rms_norm.
// An infinity in a row without NaN makes its finite numbers 0 and itself NaN.
//
// It panics as [Layer] does.
func RMS(dst, src *tensor.Tensor, n int, gamma []float64, eps float64) {
	normRows(dst, src, n, gamma, nil, eps, true)
}

func normRows(dst, src *tensor.Tensor, n int, gamma, beta []float64, eps float64, rms bool) {
	if !dst.SameShape(src) {
		panic("norm: source and destination differ in shape")
	}
	if n < 1 || len(src.Data)%n != 0 {
		panic("norm: the source is not rows of that length")
	}
	if gamma != nil && len(gamma) != n || beta != nil && len(beta) != n {
		panic("norm: gamma and beta need one number for each place in a row")
	}
	if !(eps >= 0 && eps <= math.MaxFloat64) {
		panic("norm: eps must be finite and not negative")
	}
	if dst.Format != fp16.Float64 && src.Format == fp16.Float64 {
		panic("norm: a float64 source needs a float64 destination")
	}
	kernel := rowKernelOf(dst.Format, src.Format)
	least, most := sizes(gamma)
	par.For(len(src.Data)/n, func(i int) {
		out, in := dst.Data[i*n:][:n], src.Data[i*n:][:n]
		if dst.Format == fp16.Float64 {
			row64(out, in, gamma, beta, eps, rms)
			return
		}
		r := rowsAtWork.Get().(*row)
		defer rowsAtWork.Put(r)
		r.set(in, eps, rms)
		done := 0
		if kernel != nil && r.inv*least > 0x1p-500 && r.inv*most < 0x1p500 {
			done = r.applyBlocks(kernel, out, in, gamma, beta, dst.Format)
		}
		r.apply(out[done:], in[done:], rest(gamma, done), rest(beta, done), dst.Format)
	})
}

// row64 is a row in float64 mode.
func row64(dst, src, gamma, beta []float64, eps float64, rms bool) {
	var mean, variance float64
	if rms {
		for _, x := range src {
			variance += float64(x * x)
		}
		variance /= float64(len(src))
	} else {
		mean, variance = moments64(src)
	}
	inv := inverse64(variance + eps)
	for i, x := range src {
		d := float64((x - mean) * inv)
		dst[i] = fp16.Float64.Round(float64(d*at(gamma, i, 1)) + (at(beta, i, 0) + 0))
	}
}

// row is a row of numbers under normalisation: y = gamma (x-mu)/sigma + beta with the
// parameters of each place.
type row struct {
	hi, lo, inv float64 // mu, and 1/sigma
	least       float64 // below this |x-mu| is not known well enough
	about0      bool    // mu is 0, and so is every beta
	moments     exact.Moments
	eps         float64
	std         *exact.Standard // nil until needed
	space       space

	// What a kernel is given.
	parameters   [6]float64
	open         []uint8
	before       []float64 // src, where dst takes its place
	gamma, betas []float64 // ones and zeros, where there are none
}

var rowsAtWork = sync.Pool{New: func() any { return new(row) }}

// set takes the statistics of a row.
func (r *row) set(in []float64, eps float64, rms bool) {
	r.eps, r.about0, r.std, r.moments = eps, rms, nil, exact.Moments{}
	r.space.addMoments(&r.moments, in)
	if rms {
		r.moments = r.moments.AboutZero()
	}
	if sigma, ok := r.moments.Deviation(eps); ok {
		mu := r.moments.Mean()
		r.hi, r.lo, r.inv, r.least = mu.Hi, mu.Lo, 1/sigma.Hi, 0x1p-40*math.Abs(mu.Hi)
		return
	}
	r.inv = math.NaN() // every number is settled
	if rms && infinite(in) {
		r.std = exact.Running(0, math.Inf(1), eps)
	}
}

// infinite reports whether there is an infinity and no NaN.
func infinite(xs []float64) bool {
	some := false
	for _, x := range xs {
		if x != x {
			return false
		}
		some = some || math.IsInf(x, 0)
	}
	return some
}

// standard returns the exact statistics.
func (r *row) standard() *exact.Standard {
	if r.std == nil {
		r.std = r.moments.Standard(r.eps)
	}
	return r.std
}

// The parts of t and of y that apply's bound has, which its kernel takes too.
const (
	ofRowT = 0x1.21p-50
	ofRowY = 0x1.9p-52
)

// apply writes the row, each number rounded once to f.
//
// The bound is that of line.eval. The mean is hi+lo but for 2^-103 of itself, which is less
// than 2^-62 of a D that is not below 2^-40 of it; then hi is no farther from mu than x, and
// d = D (1+4u) as there. sigma is off by u, 1/sigma by 2u, the slope by 3u and t by 8u, for
// which 9u are taken. Sizes keep what is bounded away from what underflows or overflows.
func (r *row) apply(dst, src, gamma, beta []float64, f fp16.Format) {
	var lo, hi [128]float64
	for len(src) > 0 {
		k := min(len(src), len(lo))
		for i, x := range src[:k] {
			g, b := at(gamma, i, 1), at(beta, i, 0)
			slope, d := float64(g*r.inv), (x-r.hi)-r.lo
			t := float64(d * slope)
			y := t + b
			bound := float64(ofRowT*math.Abs(t)) + float64(ofRowY*math.Abs(y)) + 0x1p-999 // with the roundings of both ends
			lo[i], hi[i] = y-bound, y+bound
			if a, s := math.Abs(d), math.Abs(slope); !(a > r.least && s < 0x1p500 && s > 0x1p-500) {
				lo[i] = math.NaN()
			}
		}
		f.RoundSlice(lo[:k], lo[:k])
		f.RoundSlice(hi[:k], hi[:k])
		for i, v := range lo[:k] {
			if math.Float64bits(v) != math.Float64bits(hi[i]) || v != v {
				v = f.Round(r.settle(src[i], at(gamma, i, 1), at(beta, i, 0)))
			}
			dst[i] = v
		}
		dst, src = dst[k:], src[k:]
		gamma, beta = rest(gamma, k), rest(beta, k)
	}
}

// A rowKernel is one of asm.Norm.ApplyRow.
type rowKernel = func(dst, src, gamma, beta *float64, n int, row *[6]float64, open *uint8) (any uint64)

// rowKernelOf returns the kernel for a destination and a source, nil if there is none.
func rowKernelOf(dst, src fp16.Format) rowKernel {
	k := asm.NormKernels()
	if k == nil || src == fp16.Float64 {
		return nil
	}
	switch dst {
	case fp16.Float32:
		return k.ApplyRow[asm.Float32]
	case fp16.Float16:
		return k.ApplyRow[asm.Float16]
	case fp16.BFloat16:
		return k.ApplyRow[asm.BFloat16]
	}
	return nil
}

// sizes returns the least and the greatest size of some numbers, 1 where there are none.
func sizes(of []float64) (least, most float64) {
	if len(of) == 0 {
		return 1, 1
	}
	least = math.Inf(1)
	for _, v := range of {
		least, most = min(least, math.Abs(v)), max(most, math.Abs(v))
	}
	return least, most
}

// applyBlocks is apply by a kernel, in multiples of 8, of which it returns how many it did;
// all slopes must be between 2^-500 and 2^500.
//
// The kernel's interval is that of apply but for 2^-999. No |t| is less than 2^-800: D is
// more than 2^-40 of a mean of float32 numbers, or one of those if the mean is 0.
func (r *row) applyBlocks(apply rowKernel, dst, src, gamma, beta []float64, f fp16.Format) int {
	n := len(src) &^ 7
	if n == 0 {
		return 0
	}
	if gamma == nil {
		gamma = filled(&r.gamma, n, 1)
	}
	if beta == nil {
		beta = filled(&r.betas, n, 0)
	}
	if &dst[0] == &src[0] { // keep what settling needs
		r.before = append(r.before[:0], src...)
		src = r.before
	}
	r.open = append(r.open[:0], make([]uint8, n/8)...)
	r.parameters = [6]float64{r.hi, r.lo, r.inv, r.least, ofRowT, ofRowY}
	if apply(&dst[0], &src[0], &gamma[0], &beta[0], n, &r.parameters, &r.open[0]) == 0 {
		return n
	}
	for i, o := range r.open {
		for j := 8 * i; o != 0; j, o = j+1, o>>1 {
			if o&1 != 0 {
				r.apply(dst[j:j+1], src[j:j+1], gamma[j:j+1], beta[j:j+1], f)
			}
		}
	}
	return n
}

// filled returns n numbers of one value in a memory that holds no others.
func filled(memory *[]float64, n int, v float64) []float64 {
	for len(*memory) < n {
		*memory = append(*memory, v)
	}
	return (*memory)[:n]
}

// rest returns what is behind the first k numbers, nil of nil.
func rest(of []float64, k int) []float64 {
	if of == nil {
		return nil
	}
	return of[k:]
}

// settle returns the number of x rounded to odd: by double-double arithmetic, which decides
// nearly all, or else exactly.
func (r *row) settle(x, gamma, beta float64) float64 {
	if x == 0 && r.about0 && math.Abs(float64(gamma*r.inv)) < 0x1p500 {
		return 0
	}
	if r.std == nil {
		if spread, ok := r.moments.Spread(r.eps); ok {
			if y, ok := settleLine(r.moments.Above(x), spread, gamma, beta); ok {
				return y
			}
		}
	}
	return r.standard().Settle(x, gamma, beta)
}
