package match

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/table"
	"github.com/refrun/refrun/oracle/report"
)

// leak looks for a state that is multiplied by a number near 1, where states are
// wider than the operator's output. That is far below the roundings of the output,
// but most outputs of a device are the emulation's own, to the last bit, and those
// states show a factor as exactly as their format allows: r = c q for more than
// half of all numbers at once. c is their middle, which the others do not move.
func (f *filter) leak() {
	v := f.near
	if f.wrong() || f.levels || v == nil {
		return
	}
	out := f.e.Op.Output(v.Device.Mode)
	state := f.e.Case.Rollout.StateFormat(out)
	if state.Ulp(1) >= out.Ulp(1)/256 {
		return
	}
	var of []float64
	for i, y := range v.Next.Data {
		if f.counts(y) {
			of = append(of, f.got[i]/y-1)
		}
	}
	n := len(of)
	if n < evidence.FewestNumbers {
		return
	}
	slices.Sort(of)
	c := of[n/2]
	near := func(to float64) (k int) {
		for _, u := range of {
			if math.Abs(u-to) < 8*state.Ulp(1) {
				k++
			}
		}
		return k
	}
	with, without := near(c), near(0)
	if 2*with <= n || 4*without > n || math.Abs(c) < 64*state.Ulp(1) {
		return
	}
	f.e.Pool.searched = true
	row := table.Named("rollout.state-times", 1+c)
	f.e.Find(report.Finding{Verdict: row.Verdict, Gate: "filter", Step: f.s.Step, Realization: -1, ID: row.ID, Diagnosis: row.Name,
		Excess: diff.Number(math.Abs(c) / (64 * state.Ulp(1))),
		Text:   fmt.Sprintf("%d of %d numbers of step %d are %.6g times what the claim gives, to the last bits, and %d as it gives them", with, n, f.s.Step, 1+c, without)})
}

// counts leaves out numbers that are zero, or that a clamp has made.
func (f *filter) counts(y float64) bool {
	c := f.e.Case.Rollout.Clamp
	return y != 0 && (c == nil || y > c[0] && y < c[1])
}
