package oracle

import (
	"slices"
	"time"

	"github.com/refrun/refrun/oracle/report"
)

// facts are what the gates so far have established. A gate reads them, adds its own
// rows, notes and blind spots to the report, and returns its findings.
type facts struct {
	r     *report.Report
	until time.Time // the end of the budget, zero if there is none
	masks *masks    // of an unknown dropout, if they were read off the states
}

// gate is a gate at work: what it looks at, what is known already, and what it
// finds.
type gate struct {
	*evidence
	*facts
	found []report.Finding
}

// newGate begins a gate.
func newGate(e *evidence, f *facts) *gate { return &gate{evidence: e, facts: f} }

// find adds a finding.
func (g *gate) find(f report.Finding) { g.found = append(g.found, f) }

// findings are those of the gates before, and this gate's.
func (g *gate) findings() []report.Finding { return slices.Concat(g.r.Findings, g.found) }

// late reports whether the budget is spent, and notes what is left out.
func (f *facts) late(what string) bool {
	if f.until.IsZero() || time.Now().Before(f.until) {
		return false
	}
	if !slices.Contains(f.r.Skipped, what) {
		f.r.Skipped = append(f.r.Skipped, what)
	}
	return true
}
