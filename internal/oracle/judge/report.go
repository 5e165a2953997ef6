package judge

import (
	"fmt"

	"github.com/refrun/refrun/oracle/report"
)

// report puts the best trial into words.
func (q *Question) report(t *trial) *Report {
	r := &Report{
		Store: q.Output.Format.String(), Elements: t.elements, Contract: t.Contract, Claimed: q.Claimed != nil,
		Violations: t.violations,
		Flips:      t.flips, Errors: t.errors(), Blind: t.blind, Untried: t.untried, Close: t.close, Worst: t.worst,
	}
	r.Off, r.Chance = t.off, t.ways.chance()
	if t.along != nil {
		r.Chance = min(r.Chance, among(t.along.chance, t.directions()))
	}
	if t.expected > 0 {
		r.Power = t.power()
	}
	for _, k := range t.tally.right {
		r.Expected = max(r.Expected, k.flips)
	}
	r.Unseen = t.unknown > 0 || t.mixed() || t.zero <= 1 && !(t.constant && t.value == 0)
	switch {
	case !t.passes():
		r.Verdict = Fail
	case t.unknown > 0:
		r.Verdict, r.Reason = NoPower,
			fmt.Sprintf("of %d of %d elements it is not known what right kernels return", t.unknown, t.elements)
	case t.elements > 0 && !t.finite:
		r.Verdict, r.Reason = NoPower, "no number of what is right is finite: this data shows nothing"
	// one number, such as a loss, shows something if it was rounded
	case t.constant && !(t.elements == 1 && len(t.y) == 1 && t.inexact(0)):
		r.Verdict, r.Reason = NoPower, "what is right is one number everywhere: this data shows nothing"
	case t.zero <= 1:
		r.Verdict, r.Reason = NoPower, "this data would not tell a right kernel from one that writes zeros"
	case t.mixed():
		n := flushes{t.units[0].gone + t.units[1].gone, t.units[0].kept + t.units[1].kept}
		r.Verdict, r.Reason = NoPower, fmt.Sprintf("%d results are as if subnormal numbers were 0, and %d are not: "+
			"it is not known whether the first were computed", n.gone, n.kept)
	default:
		r.Verdict = Pass
	}
	if r.Verdict != Fail {
		return r
	}
	if r.Known = report.ByOdds; t.violations > 0 {
		r.Known, r.Chance = report.Proved, 0
	}
	switch {
	case t.violations > 0:
		r.Reason = fmt.Sprintf("%d of %d elements are what no right kernel returns", t.violations, t.elements)
	case t.excess > 1 && t.region == everywhere:
		r.Reason = "errors are larger everywhere than those of right kernels"
	case t.excess > 1:
		r.Reason = fmt.Sprintf("errors are larger than those of right kernels, most at %s", t.region)
	default:
		r.Reason = "the errors lie along a fault"
	}
	if t.excess > 1 && t.region != everywhere {
		r.Region = t.region
	}
	if c := t.cause; c != nil {
		r.FaultID, r.Fault, r.Advice = c.id, c.title, c.advice
	}
	return r
}
