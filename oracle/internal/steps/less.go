package steps

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// distant reports whether the steps are about as far from the emulation as
// independent roundings are: Re is not far below 1. Where an operator turns
// single roundings into many, that is legal, and no proof that the device
// rounds where the claim does.
func distant(all []*stepFigures) bool {
	var squares, count float64
	for _, f := range all {
		squares += f.cuts.Of[measure.InAll].Squares[0]
		count += f.count
	}
	return squares > 0.25*count
}

// less holds a device that is right by the claim, but distant from it, against
// patterns that store next to nothing: the claimed operands with float32
// everywhere but in the state, and float32 itself; and against all others, if it is
// more accurate than the claim, or right by it only because pixels are alike. It looks at the step
// that is farthest from the claim.
func (g *stepGate) less(all []*stepFigures) (bool, error) {
	apart := func(f *stepFigures) float64 { return f.cuts.Of[measure.InAll].Mean(0) }
	farthest := slices.MaxFunc(all, func(a, b *stepFigures) int { return cmp.Compare(apart(a), apart(b)) })
	b, err := g.e.StepOf(farthest.batch, farthest.step)
	if err != nil {
		return false, err
	}
	m, claimed, err := g.fromClaim(b)
	if err != nil {
		return false, err
	}
	best, least := g.claim, clearly*claimed.re
	bare := g.claim
	bare.Points = 0
	out := bare // and the operator's output
	out.Points = g.claim.Points & emulate.AtOut
	l := append([]emulate.Pattern{out, bare}, unrounded(g.claim, g.folds())...)
	for _, precision := range []string{"float32", "tf32"} {
		mode, err := graph.ParseMode(precision, "")
		if err != nil {
			return false, err
		}
		l = append(l, emulate.Pattern{Mode: mode})
	}
	for _, p := range l {
		re, err := g.distance(m, p)
		if err != nil {
			return false, err
		}
		if re < 0.99*least {
			best, least = p, re
		}
	}
	if f := m.figures(); least > stillFar && (f.sumZ < fewer*f.count || g.h0.at(1, wellKnown).hold(f) != nil) {
		found, _, err := g.search(m)
		if err != nil {
			return false, err
		}
		if found.re < clearly*least {
			best = found.Pattern
		}
	}
	g.use = best
	return g.use != g.claim, nil
}

const (
	// fewer is the mean square of errors, in units of the claimed ones, below which a
	// device does not make all of the claim's roundings,
	fewer = 0.7
	// and stillFar the distance from a pattern above which it makes others.
	stillFar = 0.25
)
