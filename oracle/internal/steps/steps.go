// Package steps is the gate of single steps: which contract the device keeps, and whether
// its errors are those of a right device.
package steps

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Check holds every step of the trajectory, each from the device's own state
// before it, against float64 and against the claimed arithmetic.
//
// Cheap statistics of every step are held against limits that ensembles of
// correct devices gave at a few steps. A device that rounds at fewer points
// than the claim is looked for when the claim does not fit, and then held
// against what it does.
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
	return &stepGate{e: e, claim: claim, use: claim, u: emulate.Accumulator(e.Mode)}
}

// steps looks for the contract that the device keeps, and for the first step that
// is wrong by it.
func (g *stepGate) steps() error {
	if !g.claim.Discrete() {
		b, err := g.step(1)
		if err != nil {
			return err
		}
		if err := g.calibrate(b); err != nil {
			return err
		}
	}
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
		return g.less()
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
	if bad != nil && bad.gate != "structure" && !bad.lone {
		if g.unnamed, err = g.nearer(); err != nil {
			return err
		}
		if g.unnamed {
			return g.report(all, nil)
		}
	}
	before := *g.e.Report
	conclude := func() error {
		if err := g.report(all, bad); err != nil {
			return err
		}
		return g.certify(bad)
	}
	if err := conclude(); err != nil || bad != nil || len(g.e.Found) == 0 || g.use != g.claim || !g.claim.Half() {
		return err
	}
	// A fault that shows below all limits may be how this device rounds.
	named, h0, was := *g.e.Report, g.h0, all
	found, err := g.instead(g.e.Found[0].Step)
	if err != nil || !found {
		return err
	}
	if all, bad, err = g.measureAll(); err != nil {
		return err
	}
	if bad != nil {
		g.use, g.h0, all, *g.e.Report = g.claim, h0, was, named
		return nil
	}
	*g.e.Report, g.e.Found, g.e.Pool = before, nil, nil
	return conclude()
}

// instead looks for a pattern that is clearly nearer to step t than the claim, and uses it.
func (g *stepGate) instead(t int) (bool, error) {
	if t < 1 || g.e.Late("patterns in place of a fault") {
		return false, nil
	}
	b, err := g.step(t)
	if err != nil {
		return false, err
	}
	m, claimed, err := g.fromClaim(b)
	if err != nil {
		return false, err
	}
	best, _, err := g.search(m)
	if err != nil {
		return false, err
	}
	if best.re > clearly*claimed.re { // the fault explains more than half of its square
		return false, nil
	}
	found, _, err := g.fits(m, best, claimed)
	return found && g.use != g.claim, err
}

// mostAgain is how often another pattern is looked for.
const mostAgain = 3

// step returns a step of the first engine batch.
func (g *stepGate) step(t int) (*evidence.BatchStep, error) {
	b := g.e.Case.Rollout.EngineBatches()[0]
	return g.e.Step(0, b[0], b[1], t)
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
	batches := g.e.Case.Rollout.EngineBatches()
	total := (g.e.States.T - 1) * len(batches)
	for t := 1; t < g.e.States.T; t++ {
		for k, batch := range batches {
			b, err := g.e.Step(k, batch[0], batch[1], t)
			if err != nil {
				return nil, nil, err
			}
			m, err := g.measure(b)
			if err != nil {
				return nil, nil, err
			}
			f := m.figures()
			if f.peak() > farthest {
				f.shares = g.shares(m)
			}
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
	return bad, nil
}

// firstAt is first for devices of that level. Where a step is beyond its limit, an ensemble
// of its own says whether the limits are right there.
func (g *stepGate) firstAt(all []*stepFigures, level float64) (*verdictOn, error) {
	for _, f := range all {
		if f.wrong > 0 {
			at := f.cuts.Place(measure.InPeak, f.wrongAt, f.lo)
			return &verdictOn{&stepFault{kind: measure.InPeak, gate: "structure", slice: at, home: at, value: float64(f.wrong), excess: math.Inf(1), at: f.wrongAt}, f}, nil
		}
		x := g.h0.judge(f)
		if x == nil && f.peak() <= farthest*level {
			continue
		}
		batch := g.e.Case.Rollout.EngineBatches()[f.batch]
		b, err := g.e.Step(f.batch, batch[0], batch[1], f.step)
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

// other looks for a legal pattern that explains the first step that the claim
// does not, and uses it from then on.
func (g *stepGate) other(bad *verdictOn) (bool, error) {
	if bad.gate == "structure" || bad.lone { // which no other rounding explains
		return false, nil
	}
	batch := g.e.Case.Rollout.EngineBatches()[bad.figures.batch]
	b, err := g.e.Step(bad.figures.batch, batch[0], batch[1], bad.figures.step)
	if err != nil {
		return false, err
	}
	m, claimed, err := g.fromClaim(b)
	if err != nil {
		return false, err
	}
	if limit := g.h0.at(m.alike).limit(measure.InAll, float64(len(m.Got))); claimed.re*claimed.re <= limit && g.h0.judge(m.figures()) == nil && bad.figures.cuts.Of[measure.InAll].Mean(0) > limit {
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
	if far := meanOf(g.against(m, m.Got, m.truth)); near || far > mostFar || !g.claim.Half() || len(g.e.Machine.Nodes) > emulate.MostTraced || g.e.Late("patterns of single nodes") {
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

// mostFar is how far from the truth a device may be, in the mean square over what
// is expected, that rounds as the claim or less often, and then some.
const mostFar = 4

// fits reports whether a pattern explains a step, and uses it from then on; near
// says that the device is as near to it as correct ones are on average.
func (g *stepGate) fits(m *measured, best, claimed candidate) (fits, near bool, err error) {
	if !best.clearer(claimed) {
		return false, false, nil
	}
	h := g.newSpreads(best.Pattern)
	ensemble, err := g.ensemble(m, best.Pattern, members)
	if err != nil {
		return false, false, err
	}
	for _, c := range ensemble {
		h.add(c)
	}
	square := best.re * best.re
	if square > h.at(m.alike).limit(measure.InAll, float64(len(m.Got))) {
		return false, false, nil
	}
	g.use = best.Pattern
	return true, square <= h.squares[measure.InAll].upper(), nil
}

// clearly is how much nearer, or more often the same, a pattern must be than the
// claim to be one that the device has: errors that no pattern makes leave all of
// them equally far.
const clearly = 0.75

// clearer reports whether it is: where all residuals shrink, by as much as both.
func (c candidate) clearer(claimed candidate) bool {
	return c.re <= clearly*claimed.re || c.unlike <= claimed.unlike+2*elem.Log(clearly)
}

// certify hands steps to the hypotheses of the library, of one engine batch
// after another, and the faulty one if there is one.
func (g *stepGate) certify(bad *verdictOn) error {
	batch, steps := 0, match.Covered(g.e.Evidence, g.fullSteps())
	batches, asked := len(g.e.Case.Rollout.EngineBatches()), 0
	if bad != nil {
		batch, batches, steps = bad.figures.batch, 1, append(g.fullSteps(), bad.figures.step)
		slices.Sort(steps)
		steps = slices.Compact(steps)
	}
	err := date(steps, func(t int, again bool) (bool, error) {
		if g.e.Late(fmt.Sprintf("the hypotheses at step %d", t)) {
			return false, errLate
		}
		if again {
			g.e.Pool = match.NewPool(g.e.Pool.Blind) // by what this step shows alone
		} else if batches > 1 {
			batch, asked = asked%batches, asked+1
		}
		return g.hypotheses(batch, t)
	})
	if errors.Is(err, errLate) {
		return nil // a fault keeps the date that it has
	}
	if err != nil || g.e.Pool == nil || g.e.Pool.Named == nil {
		return err
	}
	return g.backdate(batch, g.e.Pool.Named)
}

// backdate goes back from the step at which a fault was searched for, and named,
// as long as the step before has it too: less of it, so that it was not wrong
// beyond doubt.
func (g *stepGate) backdate(batch int, t *match.Tried) error {
	i := slices.IndexFunc(g.e.Found, func(f report.Finding) bool { return f.Gate == "filter" })
	if i < 0 {
		return nil
	}
	for f := &g.e.Found[i]; f.Step > 1; f.Step-- {
		s, err := g.look(batch, f.Step-1)
		if err != nil {
			return err
		}
		if has, err := g.e.Has(s, t); !has || err != nil {
			return err
		}
	}
	return nil
}

// errLate ends a search that the budget does not reach.
var errLate = errors.New("out of time")

// date looks for a fault at some steps, in order. Where it finds one, it goes
// back to its first step, as if it had lasted since: find is then asked again.
func date(steps []int, find func(t int, again bool) (bool, error)) error {
	clean := 0
	for _, t := range steps {
		found, err := find(t, false)
		if err != nil {
			return err
		}
		if !found {
			clean = t
			continue
		}
		for t-clean > 1 {
			mid := (clean + t) / 2
			if found, err = find(mid, true); err != nil {
				return err
			}
			if found {
				t = mid
			} else {
				clean = mid
			}
		}
		return nil
	}
	return nil
}

// hypotheses holds the library against a step; it reports whether a fault was
// found.
func (g *stepGate) hypotheses(batch, t int) (bool, error) {
	s, err := g.look(batch, t)
	if err != nil {
		return false, err
	}
	before := len(g.e.Found)
	g.e.ForgetPlans() // hypotheses do without
	err = g.e.Filters(s)
	return len(g.e.Found) > before, err
}

// look returns a step with all that hypotheses are held against.
func (g *stepGate) look(batch, t int) (*match.Step, error) {
	lohi := g.e.Case.Rollout.EngineBatches()[batch]
	b, err := g.e.Step(batch, lohi[0], lohi[1], t)
	if err != nil {
		return nil, err
	}
	m, err := g.measure(b)
	if err != nil {
		return nil, err
	}
	ref, err := g.nearest(m, g.use)
	if err != nil {
		return nil, err
	}
	d := g.device(g.use, t, nil)
	if !g.use.Half() {
		d.Store = nil
	}
	if g.use.Plain {
		d.Replace = g.keeping(d.Replace)
	}
	if err := g.updateAs(d, m); err != nil {
		return nil, err
	}
	full := &match.Step{BatchStep: b, Device: d, Constants: g.use.Constants, Truth: m.truth, Emulated: ref, S: m.s,
		Limit: math.Sqrt(g.h0.at(m.alike).limit(measure.InAll, float64(len(m.Got)))), Alike: lookAlikes(b.X, g.claim.Mode.Precision, firstReach(g.e.Machine.Nodes))}
	if d.Replace != nil {
		of := g.use.Formats(g.e.Machine.Nodes, g.input(g.use, t))
		full.Noise = func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error) {
			return g.noisy(i, b, d, x, g.use, of[i], nil)
		}
	}
	return full, nil
}

// hexOf returns the bits of v in a format, as they are written in dumps.
func hexOf(f fp16.Format, v float64) string { return fmt.Sprintf("0x%0*x", 2*f.Bytes(), f.Bits(v)) }
