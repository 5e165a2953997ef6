package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// group64 is Group in float64 mode. The sums run through a group in memory
// order, so only groups are independent.
func group64(dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64) {
	perGroup := src.C() / groups
	m := perGroup * src.H() * src.W()
	par.For(src.N()*groups, func(g int) {
		mean, variance := moments64(src.Data[g*m : (g+1)*m])
		inv := inverse64(variance + eps)
		n := g / groups
		for c := g % groups * perGroup; c < (g%groups+1)*perGroup; c++ {
			plane64(dst.Plane(n, c), src.Plane(n, c), mean, inv, at(gamma, c, 1), at(beta, c, 0))
		}
	})
}

// batch64 is Batch in float64 mode.
func batch64(dst, src *tensor.Tensor, mean, variance, gamma, beta []float64, eps float64) {
	par.For(src.N()*src.C(), func(i int) {
		n, c := i/src.C(), i%src.C()
		inv := inverse64(variance[c] + eps)
		plane64(dst.Plane(n, c), src.Plane(n, c), mean[c], inv, at(gamma, c, 1), at(beta, c, 0))
	})
}

// moments64 returns the mean and the biased variance by two passes in order.
func moments64(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		d := x - mean
		variance += float64(d * d)
	}
	return mean, variance / float64(len(xs))
}

// inverse64 returns 1/sqrt(v), NaN unless v is positive.
func inverse64(v float64) float64 {
	if !(v > 0) {
		return fp16.NaN
	}
	return 1 / math.Sqrt(v)
}

// plane64 writes ((x-mean)*inv)*gamma + beta for every x. No zero it writes is
// negative: a beta of -0 counts as +0, and any other sum of -0 is +0.
func plane64(dst, src []float64, mean, inv, gamma, beta float64) {
	beta += 0
	for i, x := range src {
		d := float64((x - mean) * inv)
		y := float64(d*gamma) + beta
		if y != y {
			y = fp16.NaN
		}
		dst[i] = y
	}
}
