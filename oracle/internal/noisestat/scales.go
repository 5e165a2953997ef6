package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/oracle/internal/measure"
)

// scaleZ is z for squares whose variance is at least low and at most high.
func (s *Sums) scaleZ(k int, kappa, low, high float64) float64 {
	a := areaSums{s.square / high, s.pixels, s.self}
	b := areaSums{s.square / low, s.pixels, s.self}
	if z := a.z(k, kappa); z > 0 {
		return z
	}
	return min(b.z(k, kappa), 0)
}

// Level is the variance of z.
func (s *Sums) Level(k int) float64 { return measure.Ratio(s.square, s.pixels*float64(k)) }

// size is the variance of z as the device has it, before draws were made normal.
func (s *Sums) size(k int) float64 { return measure.Ratio(s.raw, s.pixels*float64(k)) }

// loose widens a limit for the squares of that many pixels where roundings are
// not small: their share of the variance may differ from place to place.
func (u *Unseen) loose(pixels float64) float64 {
	share := max(1-u.Low, u.High-1)
	return share * math.Sqrt(pixels*float64(len(u.M.Rows))/2)
}

// scales tests how large the noise is: over all, by step and by realization.
func (n *noiseTests) scales(u *Unseen) []suspicion {
	s, k, kappa := n.e.States, n.k(), n.m.excess()
	level := n.total.size(k)
	z := n.total.scaleZ(k, kappa, u.Low, u.High)
	whole := n.test("scale of the noise", math.Sqrt(level), 1, z, measure.ZLimit(1))
	limit := measure.ZLimit(float64(s.T + s.M))
	first, wrong, worst := 0, 0, 0.0
	begin, most := -1, 0.0 // from where on the steps together are worst
	for t := 1; t < s.T; t++ {
		if z := math.Abs(n.since(t).scaleZ(k, kappa, u.Low, u.High)); z > max(most, limit) {
			begin, most = t, z
		}
		var sum Sums
		for m := range s.M {
			sum.Add(&n.samples[m][t-1])
		}
		if z := sum.scaleZ(k, kappa, u.Low, u.High); math.Abs(z) > limit {
			if first == 0 {
				first = t
			}
			wrong++
			worst = z
		} else if wrong == 0 && math.Abs(z) > math.Abs(worst) {
			worst = z
		}
	}
	n.test("scale by step", math.Sqrt(level), 1, worst, limit)
	if begin > 0 && wrong > 1 {
		first = begin
	}
	off, offZ := -1, 0.0
	offs := 0
	for m := range s.M {
		var sum Sums
		for t := range s.T - 1 {
			sum.Add(&n.samples[m][t])
		}
		if z := sum.scaleZ(k, kappa, u.Low, u.High); math.Abs(z) > math.Abs(offZ) {
			offZ = z
			if math.Abs(z) > limit {
				off = m
				offs++
			}
		}
	}
	n.test("scale by realization", math.Sqrt(level), 1, offZ, limit)
	switch {
	case whole && wrong == 0 && off < 0:
		return nil
	case wrong > 0 && wrong < s.T-1 && s.T > 2 && wrong <= (s.T-1)/2:
		return []suspicion{
			{"noise.noise-scale-changes-with-the-steps", fmt.Sprintf("the noise of %d of %d steps "+
				"is not of the specified size, from step %d on (%.1f standard deviations)", wrong, s.T-1, first, worst),
				worst, first, 0},
		}
	case off >= 0 && offs == 1 && s.M > 1 && !n.othersOff(u, off, limit):
		var sum Sums
		for t := range s.T - 1 {
			sum.Add(&n.samples[off][t])
		}
		if first == 0 {
			first = -1
		}
		return []suspicion{
			{"noise.noise-scale-of-one-realization", fmt.Sprintf("the noise of realization %d has %.3g times "+
				"the specified size, that of the others is right", off, math.Sqrt(sum.size(k))), offZ, first, off},
		}
	}
	c := math.Sqrt(level)
	step := first
	if step == 0 {
		step = begin
	}
	return []suspicion{
		{n.scaleName(c),
			fmt.Sprintf("the noise has %.4g times the specified size (%.1f standard deviations)", c, z), z, step, 0},
	}
}

// othersOff reports whether realizations other than one have a wrong scale.
func (n *noiseTests) othersOff(u *Unseen, but int, limit float64) bool {
	var sum Sums
	for m := range n.samples {
		for t := range n.samples[m] {
			if m != but {
				sum.Add(&n.samples[m][t])
			}
		}
	}
	return math.Abs(sum.scaleZ(n.k(), n.m.excess(), u.Low, u.High)) > limit
}

// scaleName names a scale that is c times the specified one.
func (n *noiseTests) scaleName(c float64) string {
	s := n.e.Machine.Nodes[n.m.Node].Noise.Scale
	near := func(x float64) bool { return math.Abs(c-x) < 0.03*x }
	switch {
	case c < 0.02 && !near(s):
		return "noise.no-noise"
	case near(s) && s < 0.9:
		return "noise.noise-scale-squared"
	case near(math.Sqrt2):
		return "noise.noise-scale-larger-by-the-root-of-2"
	}
	return "noise.noise-scale-wrong"
}
