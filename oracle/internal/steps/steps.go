// Package steps is the gate of single steps: which contract the device keeps, and whether
// its errors are those of a right device.
package steps

import (
	"slices"

	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/report"
)

// Check holds every step of the trajectory, each from the device's own state
// before it, against float64 and against the claimed arithmetic.
//
// Cheap statistics of every step are held against limits that ensembles of
// correct devices gave at a few steps. Other legal roundings are tried when the
// claim does not fit, and some when it does; the device is then held against
// those that fit.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	if ev.Stream == nil && ev.Op.HasNoise() {
		return nil, nil // nothing is known of single steps without their noise
	}
	g := newStepGate(ev, f)
	err := g.steps()
	return g.e.Found, err
}

// newStepGate begins the gate, with the claim as what the device is held against.
func newStepGate(ev *evidence.Evidence, f *facts.Facts) *stepGate {
	e := &match.Matcher{Gate: facts.Begin(ev, f)}
	claim := emulate.Contract(e.Machine.Nodes, e.Case.Rollout, e.Mode)
	g := &stepGate{e: e, claim: claim, use: claim, u: emulate.Accumulator(e.Mode)}
	g.memo = newMemo(match.Covered(ev, g.fullSteps()))
	return g
}

// steps looks for the contract that the device keeps, and for the first step that
// is wrong by it:
//
//   - all steps are measured against the claim;
//   - while a step is wrong, another pattern of storage is looked for that explains it (other).
//     All steps are measured against it. Some may keep one pattern and some the other (mixture);
//   - where no step is wrong, the same for patterns of which the steps alone do not tell
//     (otherwise, less), and for steps that few correct devices reach, which are held against
//     many then (strained);
//   - a device that no pattern explains may still be nearer to the truth than the claim (nearer), or
//     keep a contract of what operations round inside (explained);
//   - what is left is reported, and the library names it (report, certify). A fault that it
//     finds where no step is wrong may be one more pattern (instead).
func (g *stepGate) steps() error {
	all, bad, err := g.measureAll()
	if err != nil {
		return err
	}
	// A pattern that explains a step may differ from the device's where that step
	// shows nothing, so that a later one asks again.
	for again := 0; bad != nil && g.claim.Discrete() && again < mostAgain; again++ {
		use, h0, before, was := g.use, g.h0, all, bad
		found, err := g.other(bad)
		if err != nil {
			return err
		}
		if !found || g.use == use {
			break
		}
		if all, bad, err = g.measureAll(); err != nil {
			return err
		}
		if bad != nil {
			if m := mixture(held{use, h0, before}, held{g.use, g.h0, all}); m != nil {
				g.use, g.h0 = m.most.use, m.most.h0
				return g.reportMixed(m)
			}
		}
		if bad != nil && bad.figures.step < was.figures.step {
			// The pattern before explains more steps.
			g.use, g.h0, all, bad = use, h0, before, was
			break
		}
	}
	accurate := func() (bool, error) {
		if !distant(all) || g.e.Late("patterns that store next to nothing") {
			return false, nil
		}
		return g.less(all)
	}
	for _, other := range []func() (bool, error){g.otherwise, accurate} {
		if bad != nil || g.use != g.claim || !g.claim.Half() {
			break
		}
		found, err := other()
		if err != nil {
			return err
		}
		if found {
			h0, before := g.h0, all
			if all, bad, err = g.measureAll(); err != nil {
				return err
			}
			if bad != nil { // the claim explains more
				g.use, g.h0, all, bad = g.claim, h0, before, nil
			}
		}
	}
	if bad == nil {
		if all, bad, err = g.strained(all); err != nil {
			return err
		}
	}
	if bad != nil && bad.gate != "structure" && !bad.lone {
		if g.unnamed, err = g.nearer(); err != nil {
			return err
		}
		if g.unnamed {
			return g.report(all, nil)
		}
		if explained, err := g.explained(all); explained || err != nil {
			return err
		}
	}
	return g.conclude(all, bad)
}

// explained reports all steps as right if they are by a contract that no pattern of storage is, as of an activation
// whose elementary operations are each stored.
func (g *stepGate) explained(all []*stepFigures) (bool, error) {
	if !g.claim.Half() || g.e.Late("contracts of single operations") {
		return false, nil
	}
	contract, err := chain.Explains(g.e.Gate, clearly)
	if err != nil || contract == "" {
		return false, err
	}
	g.unnamed = true
	if err := g.report(all, nil); err != nil {
		return false, err
	}
	g.e.Report.Contract = contract
	return true, nil
}

// conclude reports and certifies what is held against the pattern in use. A fault that is found
// where no step is wrong may be how the device rounds: one more pattern. Where none is found, steps
// with large errors are judged without those of statistics.
func (g *stepGate) conclude(all []*stepFigures, bad *verdictOn) error {
	before := *g.e.Report
	say := func() error {
		if err := g.report(all, bad); err != nil {
			return err
		}
		return g.certify(bad)
	}
	if err := say(); err != nil || bad != nil {
		return err
	}
	if !slices.ContainsFunc(g.e.Found, func(f report.Finding) bool { return f.Verdict.Failed() }) {
		var err error
		if bad, err = g.statistics(all); bad != nil {
			*g.e.Report, g.e.Found, g.e.Pool = before, nil, nil
			return say()
		}
		if err != nil {
			return err
		}
	}
	if len(g.e.Found) == 0 || !g.claim.Half() {
		return nil
	}
	named, use, h0 := *g.e.Report, g.use, g.h0
	found, err := g.instead(0, g.e.Found[0].Step)
	if err != nil || !found {
		return err
	}
	if all, bad, err = g.measureAll(); err != nil {
		return err
	}
	if bad != nil {
		g.use, g.h0, *g.e.Report = use, h0, named
		return nil
	}
	*g.e.Report, g.e.Found, g.e.Pool = before, nil, nil
	return say()
}

// mostAgain is how often another pattern is looked for. Each explains a step that the one
// before did not.
const mostAgain = 3

// step returns a step of the first engine batch.
func (g *stepGate) step(t int) (*evidence.BatchStep, error) {
	return g.e.StepOf(0, t)
}

// fullSteps are the steps at which ensembles are taken: first, middle, last.
func (g *stepGate) fullSteps() []int {
	last := g.e.States.T - 1
	steps := []int{1}
	for _, t := range []int{(1 + last) / 2, last} {
		if t > steps[len(steps)-1] {
			steps = append(steps, t)
		}
	}
	return steps
}
