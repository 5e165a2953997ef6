package steps

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// certify hands steps to the hypotheses of the library, of one engine batch
// after another, and the faulty one if there is one.
func (g *stepGate) certify(bad *verdictOn) error {
	if bad != nil && bad.line { // each number for itself is right: there is nothing to name
		return nil
	}
	full := g.fullSteps()
	batch, steps := 0, match.Covered(g.e.Evidence, full)
	batches, asked := len(g.e.Case.Rollout.EngineBatches()), 0
	if bad != nil {
		full = append(full, bad.figures.step)
		slices.Sort(full)
		full = slices.Compact(full)
		batch, batches, steps = bad.figures.batch, 1, full
	}
	err := date(steps, full, func(t int, again bool) (bool, error) {
		if g.e.Late(fmt.Sprintf("the hypotheses at step %d", t)) {
			return false, errLate
		}
		if again {
			g.e.Pool = match.NewPool(g.e.Pool.Blind) // by what this step shows alone
		} else if batches > 1 {
			batch, asked = asked%batches, asked+1
		}
		return g.hypotheses(batch, t, bad == nil || t < bad.figures.step, !again && !slices.Contains(full, t))
	})
	if errors.Is(err, errLate) {
		return nil // a fault keeps the date that it has
	}
	if err != nil || g.e.Pool == nil || g.e.Pool.Named == nil {
		return err
	}
	return g.backdate(batch, g.e.Pool.Named)
}

// hypotheses holds the library against a step, without what a step before refuted where it is one
// between others; it reports whether a fault was found. A step that was judged right is within its limit, whatever few
// devices say: the whole library is not asked of it.
func (g *stepGate) hypotheses(batch, t int, right, between bool) (bool, error) {
	s, err := g.look(batch, t)
	if err != nil {
		return false, err
	}
	if s.SkipRefuted = between; right {
		s.Limit = max(s.Limit, s.Distance()*(1+1e-12))
	}
	before := len(g.e.Found)
	g.e.ForgetPlans() // hypotheses do without
	err = g.e.Filters(s)
	return len(g.e.Found) > before, err
}

// look returns a step with all that hypotheses are held against.
func (g *stepGate) look(batch, t int) (*match.Step, error) {
	m, err := g.measureStep(batch, t)
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
	full := &match.Step{BatchStep: m.BatchStep, Device: d, Constants: g.use.Constants&emulate.OfPolicy != 0,
		Truth: m.truth, Emulated: ref, S: m.s, Limit: math.Sqrt(
			g.h0.at(m.alike, m.of).limit(measure.InAll, float64(len(m.Got))),
		), Alike: lookAlikes(m.X, g.claim.Mode.Precision, firstReach(g.e.Machine.Nodes))}
	if d.Replace != nil {
		of := g.use.Formats(g.e.Machine.Nodes, g.input(g.use, t))
		full.Noise = func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error) {
			return g.noisy(i, b, d, x, g.use, of[i], nil)
		}
	}
	return full, nil
}
