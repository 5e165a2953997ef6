package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"sigmoid", nil, to(0, 1), sigmoid, plain(exact.Sigmoid)},
		function{"softplus", []param{{"beta", 1, positive}, {"threshold", 20, extended}}, to(0, inf), softplus,
			settleSoftplus},
		function{"swish", []param{{"alpha", 1, number}}, swishLimits, swish, settleSwish},
		function{"mish", nil, to(negZero, inf), mish, plain(exact.Mish)},
	)
}

// sigmoid evaluates 1/(1 + e^-x), for x < 0 as e^x/(1 + e^x).
//
// With e = e^-|x|, good to 1.1 U, the sum and the quotient: for x > 0 e counts
// e/(1+e) <= 1/2 times, for x < 0 in full: 3.1 U.
func sigmoid(x float64, _ *args) (y, bound float64) {
	e := elem.Exp(-math.Abs(x))
	if x < 0 {
		return within(e/(1+e), 3.2)
	}
	return within(1/(1+e), 3.2)
}

// softplus evaluates ln(1 + e^t)/beta with t = beta x, beyond the threshold x.
//
// e^-|t|, good to 1.1 U, counts less than once in l = ln(1 + e^-|t|), which adds 1.1.
// For t > 0 the result is t + l, 1 U, else l; the quotient adds 1: 4.2 U. t is exact
// for float32 numbers. In Float64 it is rounded, which adds |t| U for t < 0, and 1 U
// else. From t = 50 on the result is x, but for 2^-77 of it.
func softplus(x float64, p *args) (y, bound float64) {
	beta, threshold := p[0], p[1]
	t := float64(beta * x)
	if t > threshold {
		return x, 0
	}
	if t > 50 {
		return within(x, 0.1)
	}
	y = elem.Log1p(elem.Exp(-math.Abs(t)))
	if t > 0 {
		y += t
	}
	return within(y/beta, 4.3)
}

func settleSoftplus(x float64, p *args) float64 { return exact.Softplus(x, p[0]) }

// swish evaluates x/(1 + e^-t) with t = alpha x, as gate does. t is exact for float32 numbers.
// In Float64 it is rounded, which adds |t| U for t < 0, and less than 0.3 U else.
func swish(x float64, p *args) (y, bound float64) {
	return gate(x, float64(p[0]*x))
}

func swishLimits(p *args) (neg, pos float64) {
	switch {
	case p[0] > 0:
		return negZero, inf
	case p[0] < 0:
		return -inf, 0
	}
	return -inf, inf
}

func settleSwish(x float64, p *args) float64 { return exact.Gate(x, float64(p[0]*x)) }

// mish evaluates x tanh(ln(1 + e^x)) = x n/(n+2), n = e^x (e^x + 2); for x > 0 as
// x a/(a + 2e^2), a = 1 + 2e, where e = e^-|x|, good to 1.1 U.
//
// For x < 0, n takes 1.1 of e, 1.4 of e+2 and 1 U of the product; it counts 2/(n+2)
// times in n/(n+2), where a sum, a quotient and the product with x add 3: 6.5 U.
// For x > 0, a is off by 1 and 1.1 2e/a < 2/3 of that: 1.8 U; 2e^2 by 3.2 U, and is
// at most 2/5 of the denominator, which is off by 1.8 + 2/5 3.2 + 1 U; with quotient
// and product 7.9 U.
func mish(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	e := elem.Exp(-math.Abs(x))
	if x < 0 {
		n := float64(e * (e + 2))
		return within(float64(x*(n/(n+2))), 8)
	}
	a := 1 + float64(2*e)
	return within(float64(x*(a/(a+float64(2*float64(e*e))))), 8)
}
