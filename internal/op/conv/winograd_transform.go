package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
)

// transform is G, its denominators apart.
type transform struct {
	powers  []float64 // [n*n][K*K], a product of two powers
	divisor []float64 // [n*n], a product of two D
}

func newTransform(f *asm.Form) *transform {
	n, k := f.Side, f.Taps
	t := new(transform)
	d := denominators(f)
	for p := range n * n {
		t.divisor = append(t.divisor, exactly(d[p/n], d[p%n]))
		for i := range k * k {
			t.powers = append(t.powers, power(f, p/n, i/k)*power(f, p%n, i%k))
		}
	}
	return t
}

// denominators returns D_p, exact in float64, 1 for infinity.
func denominators(f *asm.Form) []float64 {
	d := make([]float64, f.Side)
	for p := range d {
		d[p] = 1
		if p == f.Side-1 {
			break
		}
		for r, s := range f.Points {
			if r != p {
				d[p] = exactly(d[p], f.Points[p]-s)
			}
		}
	}
	return d
}

// exactly returns a product that must be a float64 number. For 7x7 kernels the divisor of
// the points +-3 takes all 53 bits: other points may leave no room for theirs.
func exactly(a, b float64) float64 {
	v := a * b
	if math.FMA(a, b, -v) != 0 {
		panic("conv: a constant of a Winograd transform is not a float64 number")
	}
	return v
}

// power returns the power i of point p as it stands in G without denominator.
func power(f *asm.Form, p, i int) float64 {
	switch {
	case p == f.Side-1 && i == f.Taps-1:
		return 1
	case p == f.Side-1:
		return 0
	}
	v := 1.0
	for range i {
		v *= f.Points[p]
	}
	return v
}

// weight returns element p of G g G^T, rounded once, and the same of magnitudes.
//
// With m = K*K terms of which the sum of magnitudes is P, the errors of s lie
// below m u P, and so does l; those of l below (m u)^2 P; the remainder and its
// quotient add 2u (u + m u) P: together less than 2^-94 P for m = 49.
func (t *transform) weight(g []float64, p int) (u, size float64) {
	var s, l float64
	for i, f := range t.powers[p*len(g):][:len(g)] {
		term := float64(g[i] * f)
		var e float64
		s, e = exact.TwoSum(s, term)
		l += e
		size += math.Abs(term)
	}
	// (s+l)/d with d exact: the quotient, and the remainder's share.
	d := t.divisor[p]
	u = s / d
	rest := (math.FMA(-u, d, s) + l) / d
	return u + rest, size / math.Abs(d)
}
