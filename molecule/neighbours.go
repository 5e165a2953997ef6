package molecule

import (
	"math"
	"math/big"
)

// Pairs are the pairs of atoms of a batch that act on each other: I[k] receives what J[k] sends.
type Pairs struct{ I, J []int }

// half returns the pairs in which the first atom comes first.
func (p Pairs) half() (of Pairs) {
	for k := range p.I {
		if p.I[k] < p.J[k] {
			of.I, of.J = append(of.I, p.I[k]), append(of.J, p.J[k])
		}
	}
	return of
}

// Neighbours returns the pairs of atoms that are less than a cutoff apart, or, inclusive, at most
// that far. Positions are x, y and z of one atom after the other. Pairs are in order of I, then of
// J, and an atom is no neighbour of itself.
//
// Distances are those of the numbers given, without rounding: whether sqrt(dx^2+dy^2+dz^2) is less
// than the cutoff is decided exactly, so that a pair of atoms exactly at the cutoff is a neighbour
// if and only if the list is inclusive, on every machine, and (i, j) is a pair whenever (j, i) is.
// Two atoms in one place are neighbours. Positions that are not finite have none.
func Neighbours(positions []float64, cutoff float64, inclusive bool) Pairs {
	n := len(positions) / 3
	var p Pairs
	for i := range n {
		for j := range n {
			if i != j && within(positions[3*i:3*i+3], positions[3*j:3*j+3], cutoff, inclusive) {
				p.I, p.J = append(p.I, i), append(p.J, j)
			}
		}
	}
	return p
}

// within reports whether two points are less than a cutoff apart, or at most.
//
// In float64 each difference is off by u = 2^-53 of itself, its square by 3 u and a rounding, and
// two sums of positive numbers add two more: 6 u of the whole, and the cutoff's square 1 u. What
// lies within 16 u of it, or below what float64 squares without underflow, is decided exactly.
func within(a, b []float64, cutoff float64, inclusive bool) bool {
	if !(cutoff >= 0) {
		return false
	}
	var d2 float64
	for c := range 3 {
		d := a[c] - b[c]
		d2 += float64(d * d)
	}
	r2 := float64(cutoff * cutoff)
	if d2 != d2 || math.IsInf(a[0]-a[0]+a[1]-a[1]+a[2]-a[2]+b[0]-b[0]+b[1]-b[1]+b[2]-b[2], 0) {
		return false
	}
	if r2 > 1e-280 && r2 < 1e280 && d2 < 1e280 && math.Abs(d2-r2) > 16*0x1p-53*r2 {
		return d2 < r2
	}
	sum := new(big.Rat)
	for c := range 3 {
		x, y := new(big.Rat).SetFloat64(a[c]), new(big.Rat).SetFloat64(b[c])
		if x == nil || y == nil {
			return false
		}
		x.Sub(x, y)
		sum.Add(sum, x.Mul(x, x))
	}
	if math.IsInf(cutoff, 0) {
		return true
	}
	r := new(big.Rat).SetFloat64(cutoff)
	order := sum.Cmp(r.Mul(r, r))
	return order < 0 || inclusive && order == 0
}
