package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// Softmax returns the judge of a line: a function that returns e^x_i over the sum of
// e^x_j, rounded to f. Terms below e^-20000 of the greatest are left out where
// something else decides.
func Softmax(xs []float64) func(i int, f fp16.Format) float64 {
	const far = 20000
	most, finite := math.Inf(-1), true
	for _, x := range xs {
		finite = finite && x == x && x < math.Inf(1)
		most = max(most, x)
	}
	if !finite || math.IsInf(most, -1) {
		return func(int, fp16.Format) float64 { return fp16.NaN }
	}
	equal, other, less := 0, false, false // numbers like the greatest, others that count, others that hardly do
	for _, x := range xs {
		switch {
		case x == most:
			equal++
		case most-x > far:
			less = less || !math.IsInf(x, -1)
		default:
			other = true
		}
	}
	power := func(x float64, prec uint) *big.Float {
		return Exp(newF(400).Sub(newF(400).SetFloat64(x), newF(400).SetFloat64(most)), prec)
	}
	sums := map[uint]*big.Float{}
	above, below := make([]Ball, len(xs)), Ball{}
	for i, x := range xs {
		if x >= most-700 {
			above[i] = Exactly(x).Sub(Exactly(most)).Exp()
		} else if !math.IsInf(x, -1) {
			above[i] = Ball{Err: 0x1p-1000}
		}
		below = below.Add(above[i])
	}
	return func(i int, f fp16.Format) float64 {
		if y, ok := above[i].Quo(below).Round(f); ok {
			return y
		}
		switch {
		case most-xs[i] > 200 && f != fp16.Float64:
			return 0 // above 0, and below 2^-280
		case most-xs[i] > far:
			return 0
		case !other:
			y := big.NewRat(1, int64(equal))
			if less {
				y.Mul(y, new(big.Rat).Sub(big.NewRat(1, 1), pow2(-2000)))
			}
			return Round(y, f)
		}
		return Nearest(f, func(prec uint) *big.Float {
			prec += guard
			if sums[prec] == nil {
				sum := newF(prec)
				for _, x := range xs {
					if most-x <= far {
						sum.Add(sum, power(x, prec))
					}
				}
				sums[prec] = sum
			}
			return newF(prec).Quo(power(xs[i], prec), sums[prec])
		})
	}
}
