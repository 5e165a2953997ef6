package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// group64 is Group in float64 mode. The sums run through a group in memory
// order, so only groups are independent.
func group64(dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64) {
	perGroup := src.C() / groups
	m, all := perGroup*src.H()*src.W(), src.N()*groups
	par.For((all+abreast-1)/abreast, func(k int) {
		first := k * abreast
		count := min(abreast, all-first)
		means, variances := moments64Abreast(src.Data[first*m:(first+count)*m], m)
		for i := range count {
			inv, n, of := inverse64(variances[i]+eps), (first+i)/groups, (first+i)%groups
			for c := of * perGroup; c < (of+1)*perGroup; c++ {
				plane64(dst.Plane(n, c), src.Plane(n, c), means[i], inv, at(gamma, c, 1), at(beta, c, 0))
			}
		}
	})
}

// abreast are the groups that are added up side by side: a sum waits for its last addition.
const abreast = 4

// moments64Abreast is moments64 of up to abreast groups of m numbers each.
func moments64Abreast(xs []float64, m int) (means, variances [abreast]float64) {
	if len(xs) < abreast*m {
		for i := range len(xs) / m {
			means[i], variances[i] = moments64(xs[i*m : (i+1)*m])
		}
		return means, variances
	}
	a, b, c, d := xs[:m], xs[m:2*m], xs[2*m:3*m], xs[3*m:4*m]
	var s0, s1, s2, s3, v0, v1, v2, v3 float64
	for i, x := range a {
		s0, s1, s2, s3 = s0+x, s1+b[i], s2+c[i], s3+d[i]
	}
	n := float64(m)
	s0, s1, s2, s3 = s0/n, s1/n, s2/n, s3/n
	for i, x := range a {
		e0, e1, e2, e3 := x-s0, b[i]-s1, c[i]-s2, d[i]-s3
		v0, v1, v2, v3 = v0+float64(e0*e0), v1+float64(e1*e1), v2+float64(e2*e2), v3+float64(e3*e3)
	}
	return [abreast]float64{s0, s1, s2, s3}, [abreast]float64{v0 / n, v1 / n, v2 / n, v3 / n}
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
