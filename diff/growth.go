package diff

import "math"

// Saturation is the RMSOverStd from which two trajectories count as having
// lost each other. Independent draws of the same thing differ by sqrt(2)
// standard deviations, less where they share a mean; a difference that grows
// geometrically passes quickly from a quarter to that.
const Saturation = 0.25

// Growth says how a difference grows along a trajectory, from [PerStep]:
// factor is its geometric growth per step, and saturated says whether it ever
// reached the size of the reference itself (a quarter of its standard
// deviation or more). A factor well above 1 that ends in saturation is chaos:
// any rounding error leads to the same end, and only a comparison step by step
// can judge the pair.
//
// The difference is taken as RMSOverStd, so that a state that grows as a whole
// does not look chaotic. With r the first step that is not 0 and s the last
// one before saturation, n steps on, factor = (s/r)^(1/n). It is 0 if there
// are no two such steps, which says nothing about growth.
func Growth(perStep []Diff) (factor float64, saturated bool) {
	first, last := -1, -1
	for i, d := range perStep {
		r := float64(d.RMSOverStd)
		if !(r < Saturation) {
			saturated = true
			break
		}
		if r > 0 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first == last {
		return 0, saturated
	}
	total := float64(perStep[last].RMSOverStd / perStep[first].RMSOverStd)
	return root(total, last-first), saturated
}

// root returns the greatest float64 whose n-th power, multiplied out, is at
// most x > 0. Positive floats are ordered as their bits are, so it bisects
// those: no logarithm, whose last bits differ between processors.
func root(x float64, n int) float64 {
	lo, hi := uint64(0), math.Float64bits(math.Inf(1))
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		power := 1.0
		for range n {
			power *= math.Float64frombits(mid)
		}
		if power <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Float64frombits(lo)
}
