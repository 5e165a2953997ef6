package spectral

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Multiply sets dst to the product a b of complex numbers, all with a last axis of 2:
// (a.re b.re - a.im b.im, a.re b.im + a.im b.re), each part rounded once. The other axes
// of a and b spread to those of dst as numpy's do. dst may be a or b, if
// that has its shape.
//
// Of float32 numbers, and of shorter ones, each product is exact in float64, and the sum
// of two is rounded to odd (see internal/exact). In a Float64 destination they are
// float64 operations. With numbers that are not finite the formula is IEEE 754's.
func Multiply(dst, a, b *tensor.Tensor) {
	rank := len(dst.Shape) - 1
	if rank < 0 || dst.Shape[rank] != 2 {
		panic("spectral: destination without a last axis of 2")
	}
	if dst.Format != fp16.Float64 && (a.Format == fp16.Float64 || b.Format == fp16.Float64) {
		panic("spectral: a float64 source needs a float64 destination")
	}
	shape := dst.Shape[:rank]
	sa, sb := spread(a, shape), spread(b, shape)
	f, n := dst.Format, len(dst.Data)/2
	const piece = 1 << 12
	par.For((n+piece-1)/piece, func(p int) {
		lo, hi := p*piece, min((p+1)*piece, n)
		index := make([]int, rank)
		ia, ib := 0, 0
		for axis, rest := rank-1, lo; axis >= 0; axis-- {
			index[axis] = rest % shape[axis]
			rest /= shape[axis]
			ia += index[axis] * sa[axis]
			ib += index[axis] * sb[axis]
		}
		for i := lo; i < hi; i++ {
			ar, ai, br, bi := a.Data[ia], a.Data[ia+1], b.Data[ib], b.Data[ib+1]
			re := sum(f, float64(ar*br), -float64(ai*bi))
			im := sum(f, float64(ar*bi), float64(ai*br))
			dst.Data[2*i], dst.Data[2*i+1] = re, im
			for axis := rank - 1; axis >= 0; axis-- {
				index[axis]++
				ia += sa[axis]
				ib += sb[axis]
				if index[axis] < shape[axis] {
					break
				}
				index[axis] = 0
				ia -= sa[axis] * shape[axis]
				ib -= sb[axis] * shape[axis]
			}
		}
	})
}

// spread returns by how much the numbers of t move on with each axis of a shape, 0 where
// t has one number for all.
func spread(t *tensor.Tensor, shape []int) []int {
	rank := len(t.Shape) - 1
	if rank < 0 || t.Shape[rank] != 2 || rank > len(shape) {
		panic("spectral: source without a last axis of 2, or with more axes than the destination")
	}
	steps, n := make([]int, len(shape)), 2
	for k := 1; k <= rank; k++ {
		d, axis := t.Shape[rank-k], len(shape)-k
		switch {
		case d == shape[axis]:
			steps[axis] = n
		case d != 1:
			panic("spectral: shapes that do not spread to the destination's")
		}
		n *= d
	}
	return steps
}

// sum returns a + b rounded to a format; an exact zero is +0.
func sum(f fp16.Format, a, b float64) float64 {
	s, e := exact.TwoSum(a, b)
	if f != fp16.Float64 && e-e == 0 && e != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), e))
	}
	return f.Round(s + 0)
}
