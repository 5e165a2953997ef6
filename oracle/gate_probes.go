package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/report"
)

// checkProbes reads the answers to directed inputs (WriteProbes). What the other
// gates found at the one step of such a case is said once more in terms of the
// probe that it was found with; and probes with a known answer are held to it.
func checkProbes(ev *evidence, f *facts) ([]report.Finding, error) {
	e := &probeGate{newGate(ev, f)}
	all, err := readProbes(e.c)
	if err != nil || all == nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(p probe) bool { return p.Name == nonfinite }) {
		e.poisoned(all)
	}
	seen := map[string]bool{}
	for _, f := range e.findings() {
		if f.Gate == "probe" || f.Realization < 0 || f.Realization >= len(all) || !strings.HasPrefix(string(f.Verdict), "FAIL") {
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
		e.find(f)
	}
	return e.found, nil
}

// probeGate is that gate at work.
type probeGate struct{ *gate }

// isNonfinite reports whether the case holds the nonfinite probes, in which
// states are NaN on purpose.
func isNonfinite(e *evidence) bool {
	all, err := readProbes(e.c)
	return err == nil && len(all) > 0 && all[0].Name == nonfinite
}

// poisoned: a sample with a NaN or an infinity becomes NaN throughout, and the
// others stay as finite as they were.
func (e *probeGate) poisoned(all []probe) {
	s := e.states
	for m := range all {
		clean := firstPoison(s.At(m, 0)) < 0
		next := s.At(m, s.T-1)
		f := report.Finding{Verdict: report.FailLogic, Gate: "probe", Step: s.T - 1, Realization: m, Excess: diff.Number(math.Inf(1))}
		switch at := firstPoison(next); {
		case clean && at >= 0:
			f.Slice = place(at, s.H, s.W)
			f.Text = fmt.Sprintf("the probe nonfinite: the state of realization %d is %v at %s, though its input is finite: another sample's numbers reach it", m, next[at], f.Slice)
			e.find(f)
		case !clean && !poisonedBy(s.At(m, 0), next):
			k := slices.IndexFunc(next, func(v float64) bool { return v == v })
			f.Slice = place(k, s.H, s.W)
			f.Text = fmt.Sprintf("the probe nonfinite (%s): the state after it is %v at %s: a NaN was swallowed on the way", all[m].What, next[k], f.Slice)
			e.find(f)
		}
	}
	e.r.Steps = append(e.r.Steps, report.StepRow{Step: s.T - 1})
	if len(e.findings()) == 0 {
		e.r.Contract = e.r.Claim
	}
}

// poisonedBy reports whether a state is what a bad number in the one before
// makes of it: NaN throughout after a NaN. An infinity may leave infinities,
// and whether a function has a limit there is left to the device.
func poisonedBy(x, next []float64) bool {
	if slices.ContainsFunc(x, func(v float64) bool { return v != v }) {
		return allPoison(next)
	}
	return firstPoison(next) >= 0
}
