package pointwise

import (
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
)

func init() {
	register(
		function{"elu", []param{{"alpha", 1, number}, {"scale", 1, number}}, eluLimits, elu, settleELU},
		function{"celu", []param{{"alpha", 1, positive}}, celuLimits, celu, settleCELU},
		function{"selu", nil, to(-seluScaleAlpha, inf), selu, plain(exact.SELU)},
	)
}

// elu evaluates scale x for x > 0 and alpha scale (e^x - 1) below.
//
// Products of two float32 numbers are exact. expm1 is good to 8 U and the product with
// it to 1. In Float64 there is the rounding of alpha scale too.
func elu(x float64, p *args) (y, bound float64) {
	alpha, scale := p[0], p[1]
	c := float64(alpha * scale)
	switch {
	case x > 0:
		return float64(scale * x), 0
	case x == 0 || c == 0:
		return float64(c * x), 0
	}
	return within(float64(c*elem.Expm1(x)), elem.Expm1Err+1.1)
}

func eluLimits(p *args) (neg, pos float64) {
	return -float64(p[0] * p[1]), float64(p[1] * inf)
}

func settleELU(x float64, p *args) float64 { return exact.ELU(x, p[0], p[1]) }

// celu evaluates x for x > 0 and alpha (e^(x/alpha) - 1) below: the quotient is rounded,
// which counts less than once in e^t - 1 for t < 0, so there is 1 U more than in elu.
func celu(x float64, p *args) (y, bound float64) {
	if x >= 0 {
		return x, 0
	}
	return within(float64(p[0]*elem.Expm1(x/p[0])), elem.Expm1Err+2.1)
}

func celuLimits(p *args) (neg, pos float64) { return -p[0], inf }

func settleCELU(x float64, p *args) float64 { return exact.CELU(x, p[0]) }

// The constants of SELU, rounded, and their product, which is not a tie of any format.
const (
	seluScale      = 1.0507009873554804934193349852946
	seluScaleAlpha = 1.0507009873554804934193349852946 * 1.6732632423543772848170429916717
)

// selu evaluates elu with the decimals of its authors: a constant and a product make
// 2 U beside what expm1 has.
func selu(x float64, _ *args) (y, bound float64) {
	switch {
	case x > 0:
		return within(float64(seluScale*x), 2.1)
	case x == 0:
		return x, 0
	}
	return within(float64(seluScaleAlpha*elem.Expm1(x)), elem.Expm1Err+2.1)
}
