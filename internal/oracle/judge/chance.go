package judge

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// ratioTail is the logarithm of the chance that an F variable is beyond x: a mean square of n numbers over one of m
// that are known, each normal. Of n = 1 it is Student's law of m, of a square and both sides. With z = m/(m + n x) it
// is the regularized incomplete beta function I_z(m/2, n/2) (DLMF, 8.17). Chances far below the least float64 have a
// logarithm.
func ratioTail(n, m, x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case math.IsInf(x, 1):
		return math.Inf(-1)
	}
	z, rest := m/(m+float64(n*x)), float64(n*x)/(m+float64(n*x))
	return logBeta(m/2, n/2, z, rest)
}

// logBeta is ln I_z(a, b), with rest = 1 - z.
func logBeta(a, b, z, rest float64) float64 {
	if z > (a+1)/(a+b+2) { // where the fraction of the other side converges
		return elem.Log1p(-elem.Exp(logBeta(b, a, rest, z)))
	}
	front := float64(a*elem.Log(z)) + float64(b*elem.Log(rest)) - elem.Log(a) - logGamma(a) - logGamma(b) + logGamma(a+b)
	return min(0, front-elem.Log(betaFraction(a, b, z)))
}

// betaFraction is one over the continued fraction of the incomplete beta function (DLMF, 8.17.22), by Lentz's method.
func betaFraction(a, b, z float64) float64 {
	f, c, d := 1.0, 1.0, 0.0
	for k := 1.0; k < mostTerms; k++ {
		m := math.Floor(k / 2)
		term := m * (b - m) * z / ((a + 2*m - 1) * (a + 2*m))
		if k > 2*m {
			term = -(a + m) * (a + b + m) * z / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 / (1 + float64(term*d))
		c = 1 + term/c
		if f *= c * d; math.Abs(c*d-1) < lastBits {
			break
		}
	}
	return f
}

// logGamma is ln of the gamma function of a number above 0: Stirling's series (DLMF, 5.11.1) of one that is at least
// 12, to which the recurrence leads.
func logGamma(x float64) float64 {
	shift := 1.0
	for ; x < 12; x++ {
		shift *= x
	}
	s := 1 / float64(x*x)
	series := (1./12 - float64(s*(1./360-float64(s*(1./1260-float64(s*(1./1680-s/1188))))))) / x
	return float64((x-.5)*elem.Log(x)) - x + float64(.5*elem.Log(2*math.Pi)) + series - elem.Log(shift)
}

// beyond is the x of which a tail that falls has a chance, given as its logarithm.
func beyond(tail func(x float64) float64, chance float64) float64 {
	lo, hi := 0.0, 1.0
	for tail(hi) > chance && hi < math.MaxFloat64/2 {
		lo, hi = hi, 2*hi
	}
	for range 50 {
		if mid := lo + (hi-lo)/2; tail(mid) > chance {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
