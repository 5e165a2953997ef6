// Package facts is what passes between gates: what was found so far, and what one gate
// establishes for others, by name.
package facts

import (
	"cmp"
	"slices"
	"time"

	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// Check is a gate, or what comes before one: it reads the evidence and what is
// established so far, and returns what it finds.
type Check func(*evidence.Evidence, *Facts) ([]report.Finding, error)

// Open returns a report with what is known before any gate.
func Open(e *evidence.Evidence) *report.Report {
	stream := e.Stream
	if stream == nil {
		stream = &rollout.Stream{Name: words.UnknownNoise}
	}
	s := e.States
	var notes []string
	if why := e.Case.Incomplete; why != "" {
		notes = append(notes, "the case is incomplete: "+why)
	}
	r := &report.Report{Notes: notes, FirstStep: -1, FirstRealization: -1, Shape: []int{s.M, s.T, s.C, s.H, s.W},
		Noise: report.NoiseReport{Stream: stream.Name}}
	if g := e.Case.Step; g != nil {
		r.Subject, r.Shape = stepSubject(g), append([]int{s.M, s.T}, s.Dims...)
	} else {
		r.Subject, r.Claim = subject(e.Machine.Nodes, e.Case.Rollout), e.Case.Rollout.ModeName(e.Op, e.Mode, stream)
	}
	return r
}

// Facts are what the gates so far have established. A gate reads them, adds its own
// rows, notes and blind spots to the report, and returns its findings.
type Facts struct {
	Report *report.Report
	Until  time.Time // the end of the budget, zero if there is none
	Masks  *Masks    // of an unknown dropout, if they were read off the states
}

// Gate is what a running Check works with: the evidence, the facts so far, and what
// it finds.
type Gate struct {
	*evidence.Evidence
	*Facts
	Found []report.Finding
}

// Begin begins a gate.
func Begin(e *evidence.Evidence, f *Facts) *Gate { return &Gate{Evidence: e, Facts: f} }

// Find adds a finding, with what the library's table says of its ID. What is not said to be proved is known by odds,
// but for what is outside of an interval, or of a structure that no run has.
func (g *Gate) Find(f report.Finding) {
	if f.ID == "" {
		f.ID = "unnamed." + f.Gate
	}
	switch {
	case !f.Verdict.Failed():
	case f.Gate == "bound" || f.Gate == "structure":
		f.Known = report.Proved
	default:
		f.Known = cmp.Or(f.Known, report.ByOdds)
	}
	row := table.ByID(f.ID)
	f.Diagnosis, f.Advice = cmp.Or(f.Diagnosis, row.Name), cmp.Or(f.Advice, row.Advice)
	g.Found = append(g.Found, f)
}

// Findings are those of the gates before, and this gate's.
func (g *Gate) Findings() []report.Finding { return slices.Concat(g.Report.Findings, g.Found) }

// Late reports whether the budget is spent, and notes what is left out of the search for causes and limits.
func (f *Facts) Late(what string) bool {
	if !f.spent() {
		return false
	}
	note(&f.Report.Skipped, what)
	return true
}

// Missed reports whether the budget is spent, and notes evidence that nothing is held against for that.
func (f *Facts) Missed(what string) bool {
	if !f.spent() {
		return false
	}
	note(&f.Report.Unjudged, what)
	return true
}

func (f *Facts) spent() bool { return !f.Until.IsZero() && !time.Now().Before(f.Until) }

func note(list *[]string, what string) {
	if !slices.Contains(*list, what) {
		*list = append(*list, what)
	}
}

// Masks are those of a dropout: [realization*(T-1)+step-1][channel], 1 for kept.
type Masks struct {
	Of   [][]float64
	Seen [][]bool // the channel shows in the state
	P    float64  // of a channel to be dropped
}
