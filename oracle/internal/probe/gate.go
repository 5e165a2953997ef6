package probe

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
)

// Check reads the answers to directed inputs (WriteProbes). What the other
// gates found at the one step of such a case is said once more in terms of the
// probe that it was found with; and probes with a known answer are held to it.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e := &Gate{facts.Begin(ev, f)}
	all, err := evidence.ReadProbes(e.Case)
	if err != nil || all == nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(p evidence.Probe) bool { return p.Name == table.Nonfinite }) {
		e.Poisoned(all)
	}
	seen := map[string]bool{}
	for _, f := range e.Findings() {
		if f.Gate == "probe" || f.Realization < 0 || f.Realization >= len(all) ||
			!strings.HasPrefix(string(f.Verdict), "FAIL") {
			continue
		}
		p := all[f.Realization]
		if seen[p.Name+f.Layer] {
			continue
		}
		seen[p.Name+f.Layer] = true
		rung := ""
		if p.Value != 0 {
			rung = fmt.Sprintf(" %g", p.Value)
		}
		f.Gate, f.Text = "probe", fmt.Sprintf("the probe %s%s (%s) shows it: %s", p.Name, rung, p.What, f.Text)
		e.Find(f)
	}
	return e.Found, nil
}

// Gate is that gate at work.
type Gate struct{ *facts.Gate }

// IsNonfinite reports whether the case holds the nonfinite probes, in which
// states are NaN on purpose.
func IsNonfinite(e *evidence.Evidence) bool {
	all, err := evidence.ReadProbes(e.Case)
	return err == nil && len(all) > 0 && all[0].Name == table.Nonfinite
}

// Poisoned: a sample with a NaN or an infinity becomes NaN throughout, and the
// others stay as finite as they were.
func (e *Gate) Poisoned(all []evidence.Probe) {
	s := e.States
	for m := range all {
		clean := evidence.FirstPoison(s.At(m, 0)) < 0
		next := s.At(m, s.T-1)
		f := report.Finding{
			Verdict: report.FailLogic, Gate: "probe", Step: s.T - 1, Realization: m, Excess: diff.Number(math.Inf(1)),
		}
		switch at := evidence.FirstPoison(next); {
		case clean && at >= 0:
			f.Slice = evidence.Place(at, s.H, s.W)
			f.Text = fmt.Sprintf("the probe nonfinite: the state of realization %d is %v at %s, though its input "+
				"is finite: another sample's numbers reach it", m, next[at], f.Slice)
			e.Find(f)
		case !clean && !poisonedBy(s.At(m, 0), next):
			k := slices.IndexFunc(next, func(v float64) bool { return v == v })
			f.Slice = evidence.Place(k, s.H, s.W)
			f.Text = fmt.Sprintf("the probe nonfinite (%s): "+
				"the state after it is %v at %s: a NaN was swallowed on the way", all[m].What, next[k], f.Slice)
			e.Find(f)
		}
	}
	e.Report.Steps = append(e.Report.Steps, report.StepRow{Step: s.T - 1})
	if len(e.Findings()) == 0 {
		e.Report.Contract = e.Report.Claim
	}
}

// poisonedBy reports whether a state is what a bad number in the one before
// makes of it: NaN throughout after a NaN. An infinity may leave infinities,
// and whether a function has a limit there is left to the device.
func poisonedBy(x, next []float64) bool {
	if slices.ContainsFunc(x, func(v float64) bool { return v != v }) {
		return evidence.AllPoison(next)
	}
	return evidence.FirstPoison(next) >= 0
}
