package pointwise

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
)

func init() {
	register(
		function{"leaky_relu", []param{{"negative_slope", 0.01, number}}, nil, leakyReLU, nil},
		function{"hardtanh", []param{{"min_val", -1, extended}, {"max_val", 1, extended}}, nil, clip, nil},
		function{"clip", []param{{"min", -inf, extended}, {"max", inf, extended}}, nil, clip, nil},
		function{"relu6", nil, nil, relu6, nil},
		function{"hardsigmoid", nil, nil, hardsigmoid, settleHardsigmoid},
		function{"hard_sigmoid", []param{{"alpha", 0.2, number}, {"beta", 0.5, number}}, nil, hardSigmoid, settleHardSigmoid},
		function{"hardswish", nil, nil, hardswish, settleHardswish},
		function{"softsign", nil, to(-1, 1), softsign, settleSoftsign},
	)
}

// leakyReLU is x for x > 0 and slope x below, an exact product of float32 numbers.
func leakyReLU(x float64, p *args) (y, bound float64) {
	if x > 0 {
		return x, 0
	}
	return float64(p[0] * x), 0
}

// clip returns x, or the nearer end of [low, high]; high if that is below low. Like
// [act]'s relu it returns a zero as it is where an end is the other zero.
func clip(x float64, p *args) (y, bound float64) {
	if x < p[0] {
		x = p[0]
	}
	if x > p[1] {
		x = p[1]
	}
	return x, 0
}

func relu6(x float64, _ *args) (y, bound float64) { return clip(x, &args{0, 6}) }

// hardsigmoid is 0 up to -3, 1 from 3 on, and (x+3)/6 between.
func hardsigmoid(x float64, _ *args) (y, bound float64) {
	switch {
	case x <= -3:
		return 0, 0
	case x >= 3:
		return 1, 0
	}
	return sixth(x, 1)
}

// sixth returns c (x+3)/6 for c = 1 or x, in two words: good to 6 units of 2^-106.
//
// One of three results is a short number, as often as not a tie of the format, so exact
// ones are recognised: if the sum is a float64 number, then for a float32 x it has 26
// bits and the product 50, and the second word is 0 only if the quotient is exact.
func sixth(x, c float64) (y, bound float64) {
	s := double.Sum(x, 3)
	q := s.Scaled(c).By(6)
	if s.Lo == 0 && q.Lo == 0 {
		return q.Hi, 0
	}
	return q.Hi, float64(0x1p-103*math.Abs(q.Hi)) + math.Abs(q.Lo) + 0x1p-1070
}

func settleHardsigmoid(x float64, _ *args) float64 {
	v := new(big.Rat).SetFloat64(x)
	return exact.Ratio(v.Add(v, big.NewRat(3, 1)).Mul(v, big.NewRat(1, 6)))
}

// hardSigmoid is alpha x + beta, at least 0 and at most 1: an exact product, and a sum
// whose error is known.
func hardSigmoid(x float64, p *args) (y, bound float64) {
	s := double.Sum(float64(p[0]*x), p[1])
	switch {
	case s.Hi >= 1: // or just below, which every format rounds to 1
		return 1, 0
	case s.Hi <= 0:
		return 0, 0
	}
	return s.Hi, math.Abs(s.Lo)
}

func settleHardSigmoid(x float64, p *args) float64 { return odd(double.Sum(float64(p[0]*x), p[1])) }

// odd returns the sum of both words, which is no float64 number, rounded to odd.
func odd(a double.Num) float64 {
	y, _ := a.Odd(0)
	return y
}

// hardswish is -0 up to -3, x from 3 on, and x (x+3)/6 between.
func hardswish(x float64, _ *args) (y, bound float64) {
	switch {
	case x <= -3:
		return negZero, 0
	case x >= 3, x == 0:
		return x, 0
	}
	return sixth(x, x)
}

func settleHardswish(x float64, _ *args) float64 {
	v := new(big.Rat).SetFloat64(x)
	s := new(big.Rat).Add(v, big.NewRat(3, 1))
	return exact.Ratio(v.Mul(v, s).Mul(v, big.NewRat(1, 6)))
}

// softsign evaluates x/(1+|x|), a sum and a quotient.
func softsign(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(x/(1+math.Abs(x)), 2.1)
}

func settleSoftsign(x float64, _ *args) float64 {
	v := new(big.Rat).SetFloat64(x)
	s := new(big.Rat).Abs(v)
	return exact.Ratio(v.Quo(v, s.Add(s, big.NewRat(1, 1))))
}
