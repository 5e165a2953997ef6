package steps

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
)

// States that are normalized have errors of all numbers together: of the least and the greatest number, or of the mean
// and the deviation. They are taken from the residual, where each number is judged for itself. What right devices have
// of them, the ensemble shows.

// flatLines is what a rounding of the least and one of the greatest number that fall otherwise add to the mean square
// of such an error: an ulp each, of 12 variances, a third of them on average.
const flatLines = 8

// extremes is by how much more a device's level may be at the least and the greatest number than on average, where the
// policy's roundings are nearly all errors and hide that of its sums. In tiles these have the errors of numbers beside
// them, which may be far larger.
const extremes = 4

// linear returns the first step in which all numbers are off together by more than right devices of that level (see
// usual) have; of all steps, where each is within its limit and their mean is not.
func (g *stepGate) linear(all []*stepFigures, level float64) *verdictOn {
	most, v, few := g.h0.lines.upper(), g.h0.lines.variance(), float64(flatLines)
	if g.h0.lines.n == 0 {
		return nil
	}
	if g.h0.fine { // the ensemble's operator is worse than expected, and the device's about as good as it shows elsewhere
		few = 0
		if share := min(extremes*level, tiled) / truncated; !g.inTiles() {
			most, v = most*share*share, v*share*share*share*share
		}
	}
	fault := func(f *stepFigures, k int, q, limit float64) *verdictOn {
		home := "the state"
		if len(f.cuts.Lines) > 1 {
			home = fmt.Sprintf("realization %d", f.lo+k)
		}
		return &verdictOn{&stepFault{kind: measure.InSample, index: k, gate: "conformity", slice: home, home: home,
			value: math.Sqrt(q), limit: math.Sqrt(limit), excess: math.Sqrt(q / limit), at: -1, line: true}, f}
	}
	limits := func(m, n float64) float64 {
		spread := max(1.5*v, 2*float64(m*m)) // no fewer than one normal number decides
		return max(chernoff(m, spread/n+float64(m*m)*1e-3), min(2/n, 1)*few)
	}
	n, sum, own := 0.0, 0.0, 0.0
	for _, f := range all {
		for k, q := range f.cuts.Lines {
			if limit := limits(most+f.common[k], 1); q > limit {
				return fault(f, k, q, limit)
			}
			n, sum, own = n+1, sum+q, max(own, f.common[k])
		}
	}
	mean, limit := sum/max(n, 1), limits(most+own, max(n, 1))
	for _, f := range all {
		for k, q := range f.cuts.Lines {
			if mean > limit && q > mean/2 {
				return fault(f, k, mean, limit)
			}
		}
	}
	return nil
}

// common returns the mean square of what the sums of a normalization make of all numbers together, of each group, in
// deviations: those of a mean m and a variance v of N numbers, added up one after the other (see emulate.Legal), and
// the rounding of a range.
func (g *stepGate) common(m *measured) (all []float64) {
	if len(m.cuts.Lines) == 0 {
		return nil
	}
	before, per := m.o.Data, g.joint(m)
	if g.e.Case.Rollout.Policy != rollout.Autoregressive {
		_, before = emulate.BlendBound(m.X, m.o, g.e.Case.Rollout, g.claim.Mode)
	}
	for lo := 0; lo < len(before); lo += per {
		mean, variance := measure.Moments(before[lo : lo+per])
		shift, scale, n := 0.0, emulate.Rounding*g.u, float64(per)
		if g.e.Case.Rollout.Normalization == rollout.ZScore {
			dm, dv := emulate.Moments(g.u, n, n, mean, variance, 0)
			shift, scale = measure.Ratio(dm, math.Sqrt(variance)), measure.Ratio(dv, 2*variance)
		}
		sum, count := 0.0, 0.0
		for k, z := range m.truth[lo : lo+per] {
			if s := m.s[lo+k]; measure.Finite(z) && s > 0 {
				sum, count = sum+(float64(shift*shift)+float64(z*scale)*float64(z*scale))/float64(s*s), count+1
			}
		}
		all = append(all, sum/max(count, 1))
	}
	return all
}
