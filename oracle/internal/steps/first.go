package steps

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// verdictOn is a fault and the step of an engine batch in which it shows first.
type verdictOn struct {
	*stepFault
	figures *stepFigures
}

// measureAll measures all steps and returns the first fault, nil if there is none.
func (g *stepGate) measureAll() ([]*stepFigures, *verdictOn, error) {
	g.h0 = g.newSpreads(g.use)
	for i, t := range g.fullSteps() {
		if i > 0 && g.e.Late(fmt.Sprintf("the ensemble of step %d", t)) {
			break
		}
		b, err := g.step(t)
		if err != nil {
			return nil, nil, err
		}
		if _, err := g.full(b, g.h0, members); err != nil {
			return nil, nil, err
		}
	}
	var all []*stepFigures
	batches := len(g.e.Case.Rollout.EngineBatches())
	total := (g.e.States.T - 1) * batches
	for t := 1; t < g.e.States.T; t++ {
		for k := range batches {
			m, err := g.measureStep(k, t)
			if err != nil {
				return nil, nil, err
			}
			f := m.figures()
			if f.peak() > farthest {
				f.shares = g.shares(m)
			}
			f.common = g.common(m)
			all = append(all, f)
			g.e.Progress("steps", len(all), total)
			if err := g.e.Ctx.Err(); err != nil {
				return nil, nil, err
			}
		}
	}
	bad, err := g.first(all)
	return all, bad, err
}

// first returns the first fault.
func (g *stepGate) first(all []*stepFigures) (*verdictOn, error) {
	level := usual(all)
	g.spared, g.doubts = spared{}, nil
	bad, err := g.firstAt(all, level)
	if err != nil {
		return nil, err
	}
	if sooner, err := g.sure(level); sooner != nil || err != nil {
		return sooner, err
	}
	if line := g.linear(all, level); line != nil && (bad == nil || line.figures.step < bad.figures.step) {
		return line, nil
	}
	return bad, nil
}

// firstAt is first for a device whose errors are of that level (see usual). Where a step is beyond its limit, an
// ensemble of its own says whether the limits are right there.
func (g *stepGate) firstAt(all []*stepFigures, level float64) (*verdictOn, error) {
	for _, f := range all {
		if f.wrong > 0 {
			at := f.cuts.Place(measure.InPeak, f.wrongAt, f.lo)
			return &verdictOn{&stepFault{kind: measure.InPeak, gate: "structure", slice: at, home: at,
				value: float64(f.wrong), excess: math.Inf(1), at: f.wrongAt}, f}, nil
		}
		x := g.h0.judge(f)
		if x == nil && f.peak() <= farthest*level {
			continue
		}
		b, err := g.e.StepOf(f.batch, f.step)
		if err != nil {
			return nil, err
		}
		if x != nil {
			if x, err = g.still(b, f); err != nil {
				return nil, err
			}
		}
		if x != nil {
			bad := &verdictOn{x, f}
			bad.figures = g.h0.earlier(all, bad)
			return bad, nil
		}
		if x, err = g.lone(b, f, level); x != nil || err != nil {
			return &verdictOn{x, f}, err
		}
	}
	if x, t := g.h0.judgeRun(all); x != nil {
		for _, f := range all {
			if f.step == t {
				return &verdictOn{x, f}, nil
			}
		}
	}
	return nil, nil
}

// still returns what is beyond its limit in a step if an ensemble of the step itself
// widens the limits; nil if nothing is.
func (g *stepGate) still(b *evidence.BatchStep, f *stepFigures) (*stepFault, error) {
	g.lean = true
	defer func() { g.lean = false }()
	if _, err := g.full(b, g.h0, members); err != nil {
		return nil, err
	}
	x := g.h0.judge(f)
	if x == nil {
		return nil, nil
	}
	if doubtful, err := g.doubtful(b, f, x); doubtful || err != nil {
		return nil, err
	}
	return x, nil
}
