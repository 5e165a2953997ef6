package steps

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// besideWorst is how much more of the squared error a slice of a better device may have than the
// worst such slice of the claim's own arithmetic: the same figure of other roundings. The ratio of the largest of 1536
// squares of normal numbers to that of 1536 others is below 2.25 in 999 of 1000 cases, of means of 9 below 1.6,
// and of the 192 and more that other slices have below 1.2 (simulated).
func besideWorst(k measure.SliceKind) float64 {
	switch k {
	case measure.InPeak:
		return 2.25
	case measure.InSpot:
		return 1.6
	}
	return 1.25
}

// A step that has less than clearlyNearer of the claim's mean square error is held against askedOfClaim more devices of
// the claim: where an operator makes much of single roundings, they go together, and a plane or a row of one of these
// may have less than others by chance. Over all steps every channel must be nearer.
const (
	clearlyNearer = 0.9
	askedOfClaim  = 6
)

// nearer reports whether every step of a coarse claim's device is nearer to the truth than the
// claimed arithmetic is, in every plane, with nothing in a place of its own. Such a device is
// right, whatever contract it keeps. The truth is the operator in float64 with no operand
// rounded: that is what the claim's arithmetic stands for.
//
// A plane's mean square error is held against that of the claim's emulation of the same numbers, or the largest that
// its devices have (see clearlyNearer). Of rows, columns, tiles, borders and single numbers the largest is held against
// the largest that the emulation has: a fault in one place is larger there, if it shows.
func (g *stepGate) nearer() (bool, error) {
	if !g.claim.Discrete() {
		return false, nil
	}
	ours, theirs := make([]float64, g.e.States.C), make([]float64, g.e.States.C) // squared errors of channels
	for t := 1; t < g.e.States.T; t++ {
		for k := range g.e.Case.Rollout.EngineBatches() {
			if g.e.Late(fmt.Sprintf("whether step %d is nearer to the truth", t)) {
				return false, nil
			}
			m, err := g.measureStep(k, t)
			if err != nil {
				return false, err
			}
			if yes, err := g.nearerStep(m, ours, theirs); !yes || err != nil {
				return false, err
			}
		}
	}
	for c, q := range ours {
		if q > theirs[c] {
			return false, nil
		}
	}
	return true, nil
}

// nearerStep is nearer for one step. It adds the squared errors of channels, the device's and the claim's.
func (g *stepGate) nearerStep(m *measured, sums, claims []float64) (bool, error) {
	mode := graph.Mode{Precision: fp16.Float64}
	o, err := g.e.Machine.Operator(&emulate.Device{Mode: mode}, m.X, m.Draws.Rewind())
	if err != nil {
		return false, err
	}
	truth := g.advance(m.X, o, emulate.Pattern{Mode: mode}, nil)
	claimed, _, err := g.emulation(m.BatchStep, g.claim)
	if err != nil {
		return false, err
	}
	errors := func(v []float64) *measure.Cuts {
		r := make([]float64, len(v))
		for i := range r {
			r[i] = (v[i] - truth.Data[i]) / m.s[i]
		}
		return measure.Cut(m.X.N(), m.X.C(), m.X.H(), m.X.W(), r, nil, nil)
	}
	ours, theirs, room := errors(m.Got), []*measure.Cuts{errors(claimed.Data)}, 1.0
	if ours.Of[measure.InAll].Mean(0) < clearlyNearer*theirs[0].Of[measure.InAll].Mean(0) {
		for k := range askedOfClaim {
			y, err := g.member(m.BatchStep, g.claim, k, emulate.CoarseLambda, 1)
			if err != nil {
				return false, err
			}
			theirs = append(theirs, errors(y.Data))
		}
		room = besideWorst(measure.InPlane)
	}
	for c := range sums {
		sums[c] += ours.Of[measure.InChannel].Squares[c]
		claims[c] += theirs[0].Of[measure.InChannel].Squares[c]
	}
	greatest := func(of func(*measure.Cuts) float64) (most float64) {
		for _, c := range theirs {
			most = max(most, of(c))
		}
		return most
	}
	planes := &ours.Of[measure.InPlane]
	for i := range planes.Count {
		if planes.Count[i] == 0 ||
			planes.Mean(i) > room*greatest(func(c *measure.Cuts) float64 { return c.Of[measure.InPlane].Mean(i) }) {
			return false, nil
		}
	}
	for k := measure.InRow; k < measure.Kinds; k++ {
		if ours.Largest(k) > besideWorst(k)*greatest(func(c *measure.Cuts) float64 { return c.Largest(k) }) {
			return false, nil
		}
	}
	return true, nil
}
