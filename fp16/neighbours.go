package fp16

import "math"

// NextUp returns the least number of the format that is greater than v, which
// need not be one itself. Above the largest finite number comes +Inf, and
// nothing above that: NextUp(+Inf) is +Inf. NextUp(-Inf) is the least finite
// number, NextUp of the least negative subnormal is -0, and of both zeros the
// least subnormal (IEEE 754, nextUp). NextUp(NaN) is [NaN].
func (f Format) NextUp(v float64) float64 {
	r := f.Round(v)
	switch {
	case r != r, r > v, math.IsInf(v, 1):
		return r
	case r < 0:
		return -f.at(f.steps(r) - 1)
	}
	return f.at(f.steps(r) + 1)
}

// NextDown returns the greatest number of the format that is less than v: it is
// -NextUp(-v), and [NaN] for NaN.
func (f Format) NextDown(v float64) float64 {
	if v != v {
		return NaN
	}
	return -f.NextUp(-v)
}

// at returns the number n steps above 0: the inverse of steps.
func (f Format) at(n uint64) float64 {
	if f == TF32 {
		n <<= tail
	}
	return f.FromBits(n)
}

// Distance returns how many steps from each number of the format to the next
// lead from a to b, both rounded to the format first: the distance in ulps, where
// it means anything, and through zero and the subnormals also where ulps change.
// The zeros are one number. An infinity is one step from the largest number. Two
// NaNs are at distance 0, and a NaN is [math.MaxUint64] from everything else.
func (f Format) Distance(a, b float64) uint64 {
	switch {
	case a != a && b != b:
		return 0
	case a != a || b != b:
		return math.MaxUint64
	}
	m, n := f.steps(a), f.steps(b)
	if math.Signbit(a) != math.Signbit(b) {
		return m + n
	}
	return max(m, n) - min(m, n)
}
