package tape

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// Bounds of tails, as -ln of a probability: all hold for every size, so that a tape of three
// numbers is judged as rightly as one of a billion. ln 2 is for two sides.

// coins bounds the chance that k of n independent events of probability p are as many, or as
// few (Chernoff): exp(-n KL(k/n, p)).
func coins(k, n, p float64) float64 {
	if n == 0 {
		return 0
	}
	part := func(a, b float64) float64 {
		switch {
		case a <= 0:
			return 0
		case b <= 0:
			return math.Inf(1) // what cannot be
		}
		return a * (elem.Log(a) - elem.Log(b))
	}
	q := k / n
	return float64(n*(part(q, p)+part(1-q, 1-p))) - math.Ln2
}

// atMost bounds the chance of k events or more of any probabilities whose sum is mean
// (Chernoff): those of a Poisson variable.
func atMost(k, mean float64) float64 {
	if k <= mean {
		return 0
	}
	return float64(k*elem.Log(k/mean)) - (k - mean)
}

// within is coins for a probability that is known to lie between two.
func within(k, n, lo, hi float64) float64 {
	if n == 0 {
		return 0
	}
	return coins(k, n, min(max(k/n, lo), hi))
}

// distance bounds the chance that the share of n numbers below some point is that far from its
// probability, wherever the point is (Dvoretzky, Kiefer, Wolfowitz; Massart's constant).
func distance(d, n float64) float64 { return 2*float64(n*d*d) - math.Ln2 }

// mean bounds the chance that n standard normals have that sum.
func mean(sum, n float64) float64 { return sum*sum/(2*n) - math.Ln2 }

// gamma bounds the chance that a sum of n standard exponentials, or of the squares of 2n
// standard normals over 2, is ratio times n (Chernoff).
func gamma(ratio, n float64) float64 {
	if !(ratio > 0) {
		return math.Inf(1)
	}
	return float64(n*(ratio-1-elem.Log(ratio))) - math.Ln2
}
