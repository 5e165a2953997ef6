package steps

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// besideWorst is how much more of the squared error a slice of a better device may have than the
// worst such slice of the claim's own arithmetic: the same figure of other roundings.
const besideWorst = 1.25

// nearer reports whether every step of a coarse claim's device is nearer to the truth than the
// claimed arithmetic is, in every plane, with nothing in a place of its own. Such a device is
// right, whatever contract it keeps. The truth is the operator in float64 with no operand
// rounded: that is what the claim's arithmetic stands for.
//
// A plane's mean square error is held against that of the claim's emulation of the same
// numbers. Of rows, columns, tiles, borders and single numbers the largest is held against
// the largest that the emulation has: a fault in one place is larger there, if it shows.
func (g *stepGate) nearer() (bool, error) {
	if !g.claim.Discrete() {
		return false, nil
	}
	for t := 1; t < g.e.States.T; t++ {
		for k := range g.e.Case.Rollout.EngineBatches() {
			if g.e.Late(fmt.Sprintf("whether step %d is nearer to the truth", t)) {
				return false, nil
			}
			m, err := g.measureStep(k, t)
			if err != nil {
				return false, err
			}
			if yes, err := g.nearerStep(m); !yes || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// nearerStep is nearer for one step.
func (g *stepGate) nearerStep(m *measured) (bool, error) {
	mode := operator.Mode{Precision: fp16.Float64}
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
	ours, theirs := errors(m.Got), errors(claimed.Data)
	planes := &ours.Of[measure.InPlane]
	for i := range planes.Count {
		if planes.Count[i] == 0 || planes.Mean(i) > theirs.Of[measure.InPlane].Mean(i) {
			return false, nil
		}
	}
	for k := measure.InRow; k < measure.Kinds; k++ {
		if ours.Largest(k) > besideWorst*theirs.Largest(k) {
			return false, nil
		}
	}
	return true, nil
}
