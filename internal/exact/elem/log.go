package elem

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// LogErr bounds the relative errors of Log and Log1p in units of U; see logSum.
const LogErr = 1.1

// Log returns the natural logarithm, with a relative error below LogErr*U.
// Log(+-0) = -Inf, Log(+Inf) = +Inf, Log(1) = +0; it is NaN for x < 0.
func Log(x float64) float64 {
	r := x - 1
	switch {
	case math.Abs(r) < 0x1p-7: // r is exact
		return r + logTail(r)
	case x == 0:
		return math.Inf(-1)
	case !(x > 0):
		return fp16.NaN
	case x > math.MaxFloat64:
		return x
	case x < 0x1p-1022:
		return logSum(x*0x1p54, 0, -54)
	}
	return logSum(x, 0, 0)
}

// Log1p returns ln(1+x), with a relative error below LogErr*U. Log1p(+-0) =
// +-0, Log1p(-1) = -Inf, Log1p(+Inf) = +Inf; it is NaN for x < -1.
func Log1p(x float64) float64 {
	switch {
	case math.Abs(x) < 0x1p-7:
		return x + logTail(x)
	case x > 0x1p60: // ln(1+x) - ln x < 2^-60
		return Log(x)
	case x == -1:
		return math.Inf(-1)
	case !(x > -1):
		return fp16.NaN
	}
	// 1+x = s+e exactly (Knuth).
	s := 1 + x
	b := s - 1
	e := (1 - (s - b)) + (x - b)
	return logSum(s, e, 0)
}

// logSum returns ln(2^k (x+e)), the sum of logParts.
func logSum(x, e float64, k int) float64 {
	w, rest := logParts(x, e, k)
	return w + rest
}

// logParts returns ln(2^k (x+e)) as w + rest for a normal x and |e| <= 2^-53 x,
// where that logarithm is at least 2^-7.1 in size.
//
// x = 2^n m with m in [0.707, 1.415), and c is a multiple of 2^-9 with
// |c m - 1| < 2^-7. Cut in two, m times c is exact: c m - 1 = a + b, a a
// multiple of 2^-35 and |b| < 2^-24. So
//
//	ln x = n ln 2 - ln c + ln(1 + a + b),
//
// and the leading parts of the three sum to w without error, all being
// multiples of 2^-42. What remains is below 2^-14.9; its roundings are less
// than 2^-5 U of the result, to which logSum adds the one of the last addition.
func logParts(x, e float64, k int) (w, rest float64) {
	b := math.Float64bits(x)
	j := int(b >> 45 & 127)
	n := int(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if j >= logHalve {
		n++
		m /= 2
	}
	t := &logTable[j]
	mh := math.Float64frombits(math.Float64bits(m) &^ (1<<27 - 1))
	a := float64(mh*t.c) - 1
	low := float64((m - mh) * t.c)
	if e != 0 {
		low += float64(e * t.c * math.Float64frombits(uint64(1023-n)<<52))
	}
	d := float64(k + n)
	w = float64(d*ln2Hi) + t.hi + a
	return w, low + (float64(d*ln2Lo) + t.lo) + logTail(a+low)
}

// logTail returns ln(1+r) - r by Taylor's polynomial, for |r| <= 2^-7: the
// missing term is below r^10/10 < 2^-66 |r|.
func logTail(r float64) float64 {
	r2 := float64(r * r)
	p := (-1./6 + float64(r*(1./7))) + float64(r2*(-1./8+float64(r*(1./9))))
	p = (-1./4 + float64(r*(1./5))) + float64(r2*p)
	p = (-1./2 + float64(r*(1./3))) + float64(r2*p)
	return float64(r2 * p)
}
