package steps

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// Limits that a few devices give are wide, for little is known of their tail. A device is rarely beyond all of the few,
// even though their sums are worse than most have: where it is, another pattern may be its own; if not, many devices
// say what a step may be by the claim.

const (
	mostStrained = 8 // steps for which many devices are asked
	askedAtOnce  = 6
	beyondMany   = 2 // times the greatest mean square of so many, that of a device is no chance
)

// strict is the greatest mean square of a step's residual that many devices leave room for.
type strict map[stepOf]float64

type stepOf struct{ batch, step int }

// beyond reports whether a step is one that many were asked of, and leaves more. Others have been judged.
func (s strict) beyond(f *stepFigures) bool {
	most, ok := s[stepOf{f.batch, f.step}]
	return ok && f.cuts.Of[measure.InAll].Mean(0) > most
}

// strain returns by how much the mean square of a step's residual is beyond that of all of the few, and what a few
// roundings may do.
func (h *spreads) strain(f *stepFigures) float64 {
	h = h.at(f.alike, f.of)
	return f.cuts.Of[measure.InAll].Mean(0) / max(h.few(measure.InAll, f.count), h.squares[measure.InAll].most)
}

// strained holds steps that none of the few devices reaches, of a device that is right by their limits, against other
// patterns and then against many devices. It returns the first fault.
func (g *stepGate) strained(all []*stepFigures) ([]*stepFigures, *verdictOn, error) {
	if !g.claim.Discrete() || g.e.Op.MACs(g.e.States.H, g.e.States.W) > evidence.LargeForward {
		return all, nil, nil
	}
	worst := func() (worst *stepFigures) {
		most := 1.0
		for _, f := range all {
			if s := g.h0.strain(f); s > most {
				worst, most = f, s
			}
		}
		return worst
	}
	f := worst()
	if f == nil || g.e.Late("steps that few devices reach") {
		return all, nil, nil
	}
	use, h0 := g.use, g.h0
	found, err := g.instead(f.batch, f.step)
	if err != nil {
		return all, nil, err
	}
	if found {
		other, bad, err := g.measureAll()
		if err != nil {
			return all, nil, err
		}
		if bad == nil {
			all = other
		} else {
			g.use, g.h0 = use, h0
		}
	}
	if g.use != g.claim { // what another pattern has besides is not known so well
		return all, nil, nil
	}
	if err := g.askMany(all); err != nil {
		return all, nil, err
	}
	for _, f := range all {
		if g.h0.strict.beyond(f) {
			bad := &verdictOn{g.h0.judge(f), f}
			bad.figures = g.h0.earlier(all, bad)
			return all, bad, nil
		}
	}
	return all, nil, nil
}

// askMany sets the limits of the steps that few devices are far from reaching by what many show.
func (g *stepGate) askMany(all []*stepFigures) error {
	var l []*stepFigures
	for _, f := range all {
		if g.h0.strain(f) > 1 && f.cuts.Of[measure.InAll].Mean(0) > g.h0.strictest(f) {
			l = append(l, f)
		}
	}
	slices.SortStableFunc(l, func(a, b *stepFigures) int { return cmp.Compare(g.h0.strain(b), g.h0.strain(a)) })
	limits := strict{}
	for _, f := range l[:min(len(l), mostStrained)] {
		limit, err := g.many(f)
		if err != nil {
			return err
		}
		limits[stepOf{f.batch, f.step}] = limit
	}
	g.h0.strict = limits
	return nil
}

// strictest is the least that many devices, the few among them, may leave as the limit of a step.
func (h *spreads) strictest(f *stepFigures) float64 {
	h = h.at(f.alike, f.of)
	return beyondMany * h.squares[measure.InAll].most
}

// many returns the greatest mean square of a step's residual that many devices leave room for. It stops asking
// where the step is within it, for further ones only widen it.
func (g *stepGate) many(f *stepFigures) (limit float64, err error) {
	b, err := g.e.StepOf(f.batch, f.step)
	if err != nil {
		return 0, err
	}
	if err := g.begin(b); err != nil {
		return 0, err
	}
	m, err := g.measure(g.part(b, fullElements))
	if err != nil {
		return 0, err
	}
	h := g.newSpreads(g.use)
	limit = g.h0.strictest(f)
	for k := 0; k < manyMembers && f.cuts.Of[measure.InAll].Mean(0) > limit; k += askedAtOnce {
		all, err := g.ensemble(m, g.use, k, k+askedAtOnce)
		if err != nil {
			return 0, err
		}
		for _, c := range all {
			h.class(m.of).add(c)
		}
		h := h.at(f.alike, f.of)
		limit = max(limit, beyondMany*h.squares[measure.InAll].most, h.few(measure.InAll, f.count))
	}
	return limit, nil
}
