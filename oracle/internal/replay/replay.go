// Package replay is the gate of the rollout: whether a wrong step is right for another
// state, noise or blend, and what a comparison of whole rollouts is worth.
package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Check is gate 6: where steps are wrong, whether they are right steps of
// something else - another state before, other draws, another blend - and what
// a free-running comparison is worth.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e := &Gate{facts.Begin(ev, f)}
	if e.Stream != nil {
		if err := e.suspects(); err != nil {
			return nil, err
		}
	}
	err := e.Free()
	return e.Found, err
}

// Gate is that gate at work.
type Gate struct{ *facts.Gate }

// firstFault returns the first step, from 1 on, at which a gate other than that of the
// noise found a fault, 0 if there is none; and whether the structure gate named its cause.
func (e *Gate) firstFault() (step int, named bool) {
	for _, f := range e.Findings() {
		if f.Verdict == report.NoPower || f.Gate == "noise" || f.Step < 1 || step != 0 && f.Step >= step &&
			!(f.Step == step && f.Gate == "structure") {
			continue
		}
		step, named = f.Step, f.Gate == "structure" && f.Diagnosis != ""
	}
	return step, named
}

// suspects tries what a rollout may do wrong at the first faulty step.
func (e *Gate) suspects() error {
	t, named := e.firstFault()
	if t == 0 || named || e.Late("rollout hypotheses") {
		return nil
	}
	w, err := e.worstBatch(t)
	if err != nil {
		return err
	}
	best, err := e.bestSuspect(w)
	if err != nil {
		return err
	}
	if best == nil {
		other, err := e.otherNoise(w)
		if !other && err == nil {
			err = e.stranger(w)
		}
		return err
	}
	if best.name == table.NotMade {
		late, err := e.StoredLate(w.realization, t)
		if err != nil {
			return err
		}
		if late {
			best.name = "rollout.states-stored-one-step-late"
		}
	}
	if best.name == Stale {
		if rolled, err := e.outlived(w); err != nil {
			return err
		} else if rolled {
			best.verdict = report.FailRollout
		}
	}
	e.Find(report.Finding{Verdict: best.verdict, Gate: best.gate, Step: t, Realization: w.realization, ID: best.name,
		Weak: best.weak, Excess: diff.Number(w.rms / max(w.floor, best.rms)), Text: fmt.Sprintf(
			"step %d is right to %.2g RMS if %s; as claimed it is %.2g off (the claim's own roundings: %.2g)", t,
			best.rms, best.what, w.rms, w.floor,
		)})
	return nil
}

// suspect is one way in which a step may be a right step of something else.
type suspect struct {
	name    string // the ID of the fault
	what    string // for a sentence that begins with "the step is right if"
	verdict report.Verdict
	gate    string
	weak    bool                      // it only says which weights fit
	masks   bool                      // it is of factors of whole channels
	odd     bool                      // of any factors, one for each channel
	step    func() ([]float64, error) // the states it makes; nil if it says nothing here
	rms     float64
}

// wrong is a step that is not what the claim makes of the state before.
type wrong struct {
	*evidence.BatchStep
	claimed     *evidence.Application
	exact       *evidence.Application
	want        []float64 // the step as claimed
	rms         float64   // of Got - want
	floor       float64   // RMS that right steps may have
	realization int       // the first wrong one
}

// worstBatch returns the engine batch whose step t is farthest from the claim's
// in units of what the claim's roundings do.
func (e *Gate) worstBatch(t int) (*wrong, error) {
	var worst *wrong
	for k := range e.Case.Rollout.EngineBatches() {
		w, err := e.wrongStep(k, t)
		if err != nil {
			return nil, err
		}
		if worst == nil || measure.Ratio(w.rms, w.floor) > measure.Ratio(worst.rms, worst.floor) {
			worst = w
		}
	}
	worst.realization = worst.Lo
	for m := worst.Lo; m < worst.Hi; m++ {
		if measure.RMSDiff(worst.Sample(worst.Got, m), worst.Sample(worst.want, m)) > 4*worst.floor {
			worst.realization = m
			break
		}
	}
	return worst, nil
}

// wrongStep returns a step of an engine batch beside the claim's.
func (e *Gate) wrongStep(k, t int) (*wrong, error) {
	b, err := e.StepOf(k, t)
	if err != nil {
		return nil, err
	}
	w := &wrong{BatchStep: b}
	d, err := e.ClaimAt(t)
	if err != nil {
		return nil, err
	}
	if w.claimed, err = e.Apply(d, b.X, b.Draws.Rewind()); err != nil {
		return nil, err
	}
	if w.exact, err = e.Apply(&emulate.Device{Mode: e.Mode}, b.X, b.Draws.Rewind()); err != nil {
		return nil, err
	}
	want := w.claimed.Next(w.claimed.Out)
	w.want = want.Data
	w.rms = measure.RMSDiff(b.Got, w.want)
	w.floor, err = e.roundings(w, want)
	return w, err
}

// roundings returns the RMS distance of right steps from the claim's: that of
// the exact step, or where the claim stores float32 numbers the error of the
// sums, which it leaves open. Such a claim rounds each sum once, and a long sum may lose
// some forty times that: the distance counts eight times here, and four times that is called right.
// A claim of TF32 rounds operands as the exact step does; what falls otherwise for sums in another
// order is that of a disturbed one.
func (e *Gate) roundings(w *wrong, want *tensor.Tensor) (float64, error) {
	d := measure.RMSDiff(w.exact.Next(w.exact.Out).Data, want.Data)
	if want.Format.Ulp(1) < 1e-5 && w.claimed.D.Store[len(w.claimed.D.Store)-1] == want.Format {
		d *= 8
	}
	if e.Mode.Precision == fp16.TF32 {
		l := &emulate.Legal{Machine: e.Machine, U: emulate.Accumulator(e.Mode), Lambda: 1, Member: 1<<34 + uint64(w.Step)}
		p, err := e.Apply(&emulate.Device{Mode: e.Mode, Perturb: l.Disturb, Sum: l.Sum}, w.X, w.Draws.Rewind())
		if err != nil {
			return 0, err
		}
		d = max(d, measure.RMSDiff(p.Next(p.Out).Data, want.Data))
	}
	return d + 0x1p-24*measure.RMS(w.want), nil
}

// bestSuspect returns the hypothesis that comes nearest to the device's states,
// if it explains them: down to the roundings of right steps, and a quarter of
// what they are off as claimed, or the most of it in the case of noise. Among equals the first in the list is taken.
func (e *Gate) bestSuspect(w *wrong) (*suspect, error) {
	all := slices.Concat(e.stateSuspects(w), e.blendSuspects(w), e.noiseSuspects(w), e.storeSuspects(w))
	var best *suspect
	for i := range all {
		if e.Late("rollout hypotheses") {
			break
		}
		s := &all[i]
		y, err := s.step()
		if err != nil {
			return nil, err
		}
		if y == nil {
			continue
		}
		s.rms = measure.RMSDiff(w.Got, w.either(y))
		if s.gate == "noise" && w.rms <= w.floor {
			continue // right steps have as much: what explains it is no other noise
		}
		if w.rms > 0 && s.rms <= w.floors(s)*w.floor && s.rms <= s.enough(w.rms) && (best == nil || s.rms < best.rms/1.25) {
			best = s
		}
	}
	return best, nil
}

// enough is what it may leave of what a step is off: a quarter, or of its square a
// half where nothing else goes with the draws, and coarse roundings differ anyway.
// Factors of whole channels, as of dropout, go with other things too.
func (s *suspect) enough(rms float64) float64 {
	if s.verdict == report.FailRNG && !s.masks {
		return 0.7 * rms
	}
	return rms / 4
}

// floors is how many times the errors of right steps it may leave: less where the factors of a dropout may be any,
// which make something of any fault. The errors of a coarse claim are known, and a right device leaves its own beside
// those of the claim's step: two, and in the mean square a quarter more for how well they are known.
func (w *wrong) floors(s *suspect) float64 {
	switch {
	case w.claimed.D.Mode.Precision.Half():
		return math.Sqrt(2 * 1.25)
	case s.masks && s.odd:
		return 2
	}
	return 4
}

// either returns, of each realization, the states that are nearer to the
// device's: y or what the claim makes.
func (w *wrong) either(y []float64) []float64 {
	z := append([]float64(nil), w.want...)
	for m := w.Lo; m < w.Hi; m++ {
		got := w.Sample(w.Got, m)
		if s := w.Sample(y, m); measure.RMSDiff(got, s) < measure.RMSDiff(got, w.Sample(w.want, m)) {
			copy(w.Sample(z, m), s)
		}
	}
	return z
}

// stranger says that a trajectory is another operator's, where no step of it is
// nearer to the claim's than two unrelated outputs are to each other. Those are sqrt 2 of
// their deviation apart; 0.7 is half of that.
func (e *Gate) stranger(w *wrong) error {
	if w.Step != 1 {
		return nil
	}
	least := math.Inf(1)
	for t := 1; t < e.States.T; t = max(t+1, min(2*t, e.States.T-1)) {
		if e.Late("whether the states are another operator's") {
			return nil
		}
		v, err := e.wrongStep(w.Batch, t)
		if err != nil {
			return err
		}
		// Got and want share what the policy keeps of X: beyond that they are outputs.
		own := diff.Std(v.want)
		if e.Case.Rollout.Normalization == "" {
			own = e.OutputShare() * diff.Std(v.exact.Out.Data)
		}
		least = min(least, measure.Ratio(v.rms, own))
	}
	if least < 0.7 {
		return nil
	}
	e.Report.Stranger = fmt.Sprintf("no step comes near to what the operator makes of the state before: "+
		"its distance is %.2g times the operator's own share of the state or more; "+
		"these may be other weights or another operator", least)
	e.Report.Notes = append(e.Report.Notes, e.Report.Stranger)
	return nil
}
