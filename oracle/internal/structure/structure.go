// Package structure is the gate that asks whether states are those of a rollout at all,
// before anybody asks how exact they are.
package structure

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
)

// Check is gate 0: whether the states are what a rollout stores at all,
// before anybody asks how exact they are. What looks wrong is held against a
// step of the claim before it is called so: an operator may overflow, stand
// still, or give few numbers by right.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e := &Gate{facts.Begin(ev, f)}
	for _, look := range []func() error{e.poison, e.start, e.repeats, e.grid, e.flat} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return e.Found, nil
}

// Numbers is the part of gate 0 that asks for no step of the claim: whether there are numbers that show anything.
func Numbers(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e := &Gate{facts.Begin(ev, f)}
	err := e.flat()
	return e.Found, err
}

// Gate is that gate at work.
type Gate struct{ *facts.Gate }

// poison looks for NaNs and infinities.
func (e *Gate) poison() error {
	s := e.States
	for t := range s.T {
		for m := range s.M {
			at := evidence.FirstPoison(s.At(m, t))
			if at < 0 {
				continue
			}
			f := report.Finding{Verdict: report.FailLogic, Gate: "structure", Step: t, Realization: m,
				Slice: evidence.Place(at, s.H, s.W), Excess: diff.Number(math.Inf(1))}
			what := fmt.Sprintf("state %d of realization %d holds %v at %s", t, m, s.At(m, t)[at], f.Slice)
			if evidence.AllPoison(s.At(m, t)) {
				what = fmt.Sprintf("state %d of realization %d is NaN throughout", t, m)
			}
			f.Text = what + ", where the claim gives finite numbers"
			if t > 0 {
				b, y, err := e.Predict(m, t)
				if err != nil {
					return err
				}
				if evidence.FirstPoison(b.Sample(y.Data, m)) >= 0 {
					e.Report.Notes = append(e.Report.Notes,
						what+", as the claimed arithmetic gives: it overflows; such numbers show nothing")
					return nil
				}
			} else {
				f.Text = what
			}
			e.Find(f)
			return nil
		}
	}
	return nil
}

// flat looks for evidence that cannot show a fault: constant fields, numbers
// that a clamp or a zero has replaced, too few numbers.
func (e *Gate) flat() error {
	if probes, err := evidence.ReadProbes(e.Case); err != nil || probes != nil {
		return err // they are what they are on purpose
	}
	n, zeros, clamped, constant, states := 0, 0, 0, 0, 0
	for _, s := range e.Each() {
		for m := range s.M {
			for t := 1; t < s.T; t++ {
				x, before := s.At(m, t), s.At(m, t-1)
				varies, still := false, 0
				for i, v := range x {
					if v == 0 && before[i] == 0 {
						still++ // land, a part of a cache that no step has reached: neither evidence nor a lack of it
					} else if v == 0 {
						zeros++
					} else if c := e.Case.Rollout.Clamp; c != nil && (v <= fp16.Float32.Round(c[0]) || v >= fp16.Float32.Round(c[1])) {
						clamped++
					}
					varies = varies || v != x[0]
				}
				if !varies {
					constant++
				}
				n += len(x) - still
			}
		}
		states += s.M * (s.T - 1)
	}
	blind := func(text string) {
		e.Find(report.Finding{Verdict: report.NoPower, Gate: "structure", Step: -1, Realization: -1, Excess: 1, Text: text})
	}
	live := n - zeros - clamped
	const enough = 1 << 12 // for statistics
	switch {
	case constant == states:
		blind("every state is one constant: nothing of the operator shows in it")
	case n < enough:
		blind(fmt.Sprintf("%d numbers of steps: statistics want %d or more", n, enough))
	// the gate of steps says what few numbers show
	case 10*zeros > 3*n && e.Case.Rollout.Clamp == nil || live < evidence.FewestNumbers || 20*live < n:
		ends := ""
		if e.Case.Rollout.Clamp != nil {
			ends = fmt.Sprintf(" and %.0f %% lie at the clamp's ends", 100*float64(clamped)/float64(n))
		}
		blind(fmt.Sprintf("%.0f %% of the states' numbers are zeros%s: such numbers show nothing, and %d are left",
			100*float64(zeros)/float64(n), ends, live))
	case 2*live < n:
		e.Report.Notes = append(e.Report.Notes, fmt.Sprintf("%.0f %% of the states' numbers lie at the clamp's ends "+
			"or are zero, and show nothing", 100*float64(n-live)/float64(n)))
	}
	return nil
}
