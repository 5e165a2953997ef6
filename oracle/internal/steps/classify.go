package steps

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// classify tells a fault of logic from one of precision, where nothing is known
// but its errors. What rounds too much, or approximates, has errors everywhere, and
// no larger than the coarsest arithmetic there is would have: those of bfloat16,
// times beyondRounding for what it does more often or in worse places. Errors
// that are larger, or that lie in a place, are of another function.
func (g *stepGate) classify(m *measured, bad *verdictOn) (report.Verdict, error) {
	if bad.line {
		return report.FailRollout, nil
	}
	if bad.gate == "structure" || bad.lone || bad.figures.cuts.Local() {
		return report.FailLogic, nil
	}
	mode, err := graph.ParseMode("bfloat16", "cuda")
	if err != nil {
		return "", err
	}
	coarse, _, err := g.emulation(m.BatchStep, emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, mode))
	if err != nil {
		return "", err
	}
	var theirs, ours float64
	for i, v := range m.truth {
		d, c := m.Got[i]-v, coarse.Data[i]-v
		if measure.Finite(d) && measure.Finite(c) {
			theirs, ours = theirs+float64(d*d), ours+float64(c*c)
		}
	}
	if math.Sqrt(theirs) > beyondRounding*math.Sqrt(ours) {
		return report.FailLogic, nil
	}
	return report.FailPrecision, nil
}

// beyondRounding is how many times the errors of bfloat16 are more than those of
// any arithmetic.
const beyondRounding = 4
