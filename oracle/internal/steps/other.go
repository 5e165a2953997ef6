package steps

import (
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// other looks for a legal pattern that explains the first step that the claim
// does not, and uses it from then on.
func (g *stepGate) other(bad *verdictOn) (bool, error) {
	if bad.gate == "structure" || bad.lone { // which no other rounding explains
		return false, nil
	}
	b, err := g.e.StepOf(bad.figures.batch, bad.figures.step)
	if err != nil {
		return false, err
	}
	m, claimed, err := g.fromClaim(b)
	if err != nil {
		return false, err
	}
	if limit := g.h0.at(m.alike, m.of).limit(measure.InAll, float64(len(m.Got))); claimed.re*claimed.re <= limit &&
		g.h0.judge(m.figures()) == nil && bad.figures.cuts.Of[measure.InAll].Mean(0) > limit {
		return false, nil // other realizations are as claimed
	}
	was := g.use
	best, nearest, err := g.search(m)
	if err != nil {
		return false, err
	}
	found, near, err := g.fits(m, best, claimed)
	if err != nil {
		return false, err
	}
	if far := meanOf(g.against(m, m.Got, m.truth)); near || far > mostFar || !g.claim.Half() ||
		len(g.e.Machine.Nodes) > emulate.MostTraced || g.e.Late("patterns of single nodes") {
		return found, nil
	}
	traced, err := g.trace(m, g.claim.Mode)
	if err != nil {
		return found, err
	}
	if traced.unlike < 0.99*best.unlike {
		best = traced
		again, _, err := g.fits(m, traced, claimed)
		if found = found || again; err != nil {
			return found, err
		}
	}
	if found && g.use != was {
		return true, nil
	}
	if nearest.Pattern != best.Pattern {
		if found, _, err = g.fits(m, nearest, claimed); err != nil || found && g.use != was {
			return found, err
		}
	}
	return g.mixed(m, claimed, best)
}

// instead looks for a pattern that is clearly nearer to step t than what is used, and uses it.
func (g *stepGate) instead(batch, t int) (bool, error) {
	if t < 1 || g.e.Late("patterns in place of a fault") {
		return false, nil
	}
	b, err := g.e.StepOf(batch, t)
	if err != nil {
		return false, err
	}
	m, claimed, err := g.fromClaim(b)
	if err != nil {
		return false, err
	}
	was, used := g.use, claimed
	if was != g.claim {
		if used, err = g.compare(m, was); err != nil {
			return false, err
		}
	}
	best, _, err := g.search(m)
	if err != nil {
		return false, err
	}
	if best.re > clearly*used.re { // the fault explains more than half of its square
		return false, nil
	}
	found, _, err := g.fits(m, best, claimed)
	return found && g.use != was, err
}

// fromClaim measures a step, or as many realizations of it as ensembles take, and
// its distance from what the claim gives.
func (g *stepGate) fromClaim(b *evidence.BatchStep) (m *measured, claimed candidate, err error) {
	if err = g.begin(b); err != nil {
		return nil, claimed, err
	}
	if m, err = g.measure(g.part(b, fullElements)); err != nil {
		return nil, claimed, err
	}
	claimed, err = g.compare(m, g.claim)
	return m, claimed, err
}

// fits reports whether a pattern explains a step, and uses it from then on; near
// says that the device is as near to it as correct ones are on average.
func (g *stepGate) fits(m *measured, best, claimed candidate) (fits, near bool, err error) {
	if !best.clearer(claimed) {
		return false, false, nil
	}
	h := g.newSpreads(best.Pattern)
	ensemble, err := g.ensemble(m, best.Pattern, 0, members)
	if err != nil {
		return false, false, err
	}
	for _, c := range ensemble {
		h.class(m.of).add(c)
	}
	square := best.re * best.re
	if square > h.at(m.alike, m.of).limit(measure.InAll, float64(len(m.Got))) {
		return false, false, nil
	}
	g.use = best.Pattern
	return true, square <= h.squares[measure.InAll].upper(), nil
}

// mostFar is how far from the truth a device may be, in the mean square over what
// is expected, that rounds as the claim or less often, and then some.
const mostFar = 4

// clearly is how much nearer, or more often the same, a pattern must be than the
// claim to be one that the device has: errors that no pattern makes leave all of
// them equally far.
const clearly = 0.75

// clearer reports whether it is: where all residuals shrink, by as much as both; where most numbers are the
// same as the claim's, of the others there are fewer.
func (c candidate) clearer(claimed candidate) bool {
	return c.re <= clearly*claimed.re || c.unlike <= max(claimed.unlike+2*elem.Log(clearly), clearly*claimed.unlike)
}
