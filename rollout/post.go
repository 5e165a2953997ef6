package rollout

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// postProcess normalises and clamps states in place: over the whole engine
// batch if the case names one (as Spinlock does), else each realization by
// itself.
func (s *Stepper) postProcess(x *tensor.Tensor) {
	if s.Config.EngineBatch > 0 {
		s.Config.post(x.Data, x.Format)
		return
	}
	for n := range x.N {
		s.Config.post(x.Samples(n, n+1).Data, x.Format)
	}
}

// post applies the post-processing to one group of numbers of format f.
func (c Config) post(x []float64, f fp16.Format) {
	switch c.Normalization {
	case MinMax:
		minMax(x, f)
	case ZScore:
		zScore(x, f)
	}
	if c.Clamp != nil {
		lo, hi := c.Clamp[0], c.Clamp[1]
		if f != fp16.Float64 {
			lo, hi = fp16.Float32.Round(lo), fp16.Float32.Round(hi)
		}
		for i, v := range x {
			switch {
			case v < lo:
				x[i] = f.Round(lo)
			case v > hi:
				x[i] = f.Round(hi)
			}
		}
	}
}

// tiny is Spinlock's 1e-8, below which a range counts as none and which keeps
// the standard deviation from zero; a float32 unless everything is float64.
func tiny(f fp16.Format) float64 {
	if f == fp16.Float64 {
		return 1e-8
	}
	return fp16.Float32.Round(1e-8)
}

// minMax maps x to rn(rn(x-min) / rn(max-min)) if max-min > 1e-8; a NaN
// anywhere makes that comparison false and leaves x as it is.
//
// Rounding a float64 quotient of two numbers of at most 24 bits once more
// gives the rounded exact quotient: it cannot lie within 2^-50 of a midpoint
// without being one.
func minMax(x []float64, f fp16.Format) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if v != v {
			return
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	span := f.Round(hi - lo)
	if !(span > tiny(f)) {
		return
	}
	for i, v := range x {
		x[i] = f.Round(f.Round(v-lo) / span)
	}
}

// zScore maps x to rn(rn(x-m) / s), m = rn(mean), s = rn(rn(std) + 1e-8), std
// with the divisor n-1. Mean and std are exact before they are rounded; in
// float64 mode they are plain sums in order. A single number has no std: the
// result is NaN, as it is if x holds a NaN or an infinity.
func zScore(x []float64, f fp16.Format) {
	mean, std := moments(x, f)
	m := f.Round(mean)
	s := f.Round(f.Round(std) + tiny(f))
	for i, v := range x {
		x[i] = f.Round(f.Round(v-m) / s)
	}
}

// moments returns the mean and the unbiased standard deviation of x: rounded
// to odd, so that one more rounding is the only one, or in float64 mode as
// sequential sums give them.
func moments(x []float64, f fp16.Format) (mean, std float64) {
	n := len(x)
	if n < 2 {
		return fp16.NaN, fp16.NaN
	}
	if f == fp16.Float64 {
		var sum, sq float64
		for _, v := range x {
			sum += v
		}
		mean = sum / float64(n)
		for _, v := range x {
			d := v - mean
			sq += float64(d * d)
		}
		return mean, math.Sqrt(sq / float64(n-1))
	}
	var sum, squares exact.Sum
	for _, v := range x {
		sum.Add(v)
		squares.Add(float64(v * v))
	}
	if !sum.Finite() {
		return fp16.NaN, fp16.NaN
	}
	// variance = (n Q - S^2) / (n (n-1)), S and Q multiples of 2^e.
	S, e := sum.Int()
	Q, _ := squares.Int()
	N := big.NewInt(int64(n))
	mean = exact.Quotient(S, e, N)
	num := new(big.Int).Mul(N, Q)
	num.Lsh(num, uint(-e)).Sub(num, new(big.Int).Mul(S, S)) // in units of 2^(2e)
	den := new(big.Int).Mul(N, big.NewInt(int64(n-1)))
	return mean, exact.SqrtQuotient(num, 2*e, den)
}
