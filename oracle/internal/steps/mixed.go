package steps

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
)

// held has all steps as they are by a pattern, and what correct devices of it show.
type held struct {
	use emulate.Pattern
	h0  *spreads
	all []*stepFigures
}

// wrong returns the steps that are wrong by the pattern, in order.
func (h held) wrong() (l []int) {
	for _, f := range h.all {
		if !slices.Contains(l, f.step) && (f.wrong > 0 || h.h0.judge(f) != nil) {
			l = append(l, f.step)
		}
	}
	return l
}

// mixed is a run whose steps keep two contracts: each step one of them. The fewer steps are
// the others: a warm-up, a fallback, a kernel that was changed.
type mixed struct {
	most, fewer held
	steps       []int // of fewer
}

// mixture returns the mixture that all steps are by two patterns, a first; nil if a step is
// wrong by both, or all are right by one.
func mixture(a, b held) *mixed {
	byB, byA := a.wrong(), b.wrong()
	if len(byA) == 0 || len(byB) == 0 || slices.ContainsFunc(byB, func(t int) bool { return slices.Contains(byA, t) }) {
		return nil
	}
	if len(byB) > len(byA) {
		return &mixed{b, a, byA}
	}
	return &mixed{a, b, byB}
}

// reportMixed writes down all steps by the contract of most, and finds the others.
func (g *stepGate) reportMixed(m *mixed) error {
	of := func(h held) string {
		return h.use.Name(g.e.Case.Rollout.StateFormat(g.output(h.use)), g.streamName(),
			h.use.Whole(g.e.Machine.Nodes, g.e.Case.Rollout))
	}
	at := slices.IndexFunc(m.most.all, func(f *stepFigures) bool { return f.step == m.steps[0] })
	first := m.most.all[at]
	excess := 1.0
	if x := m.most.h0.judge(first); x != nil {
		excess = x.excess
	}
	row := table.Named("precision.steps-of-another-contract", m.fewer.use.Mode)
	g.e.Find(report.Finding{
		Verdict: row.Verdict, Gate: "conformity", Step: m.steps[0], Realization: g.realization(first), ID: row.ID,
		Diagnosis: row.Name, Excess: diff.Number(excess), Text: fmt.Sprintf("only step %s has the contract %s; all "+
			"others have %s", stepList(m.steps), of(m.fewer), of(m.most)),
	})
	return g.report(m.most.all, nil)
}

// stepList names steps, at most eight of them.
func stepList(steps []int) string {
	s := ""
	for i, t := range steps {
		if i == 8 {
			return s + ", ..."
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(t)
	}
	return s
}
