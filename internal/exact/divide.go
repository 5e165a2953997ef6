package exact

import "math"

// Divide returns s/d rounded to odd, of two finite float64 numbers, d positive, whose
// quotient is far from overflow and from subnormal numbers.
//
// The remainder s - q d of the rounded quotient q is a float64 number, so that the fused
// operation has it exactly (S. Boldo, M. Daumas, "Representable correcting terms for
// possibly underflowing floating point operations", ARITH 16, 2003). Its sign says on
// which side of q the quotient lies.
func Divide(s, d float64) float64 {
	q := s / d
	rest := math.FMA(-q, d, s)
	if rest == 0 || math.Float64bits(q)&1 == 1 {
		return q
	}
	return math.Nextafter(q, math.Inf(int(math.Copysign(1, rest))))
}
