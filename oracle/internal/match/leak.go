package match

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/report"
)

// leak looks for a state that is multiplied by a number near 1, where states are
// wider than the operator's output. That is far below the roundings of the output,
// but most outputs of a device are the emulation's own, to the last bit, and those
// states show a factor as exactly as their format allows.
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
	var got, want []float64
	for i, y := range v.Next.Data {
		if f.counts(y) {
			got, want = append(got, f.got[i]), append(want, y)
		}
	}
	last := 8 * state.Ulp(1)
	c, with, without := factorOf(got, want, last)
	if with == 0 {
		return
	}
	f.e.Pool.searched = true
	row := table.Named("rollout.state-times", 1+c)
	f.e.Find(report.Finding{
		Verdict: row.Verdict, Gate: "filter", Step: f.s.Step, Realization: -1, ID: row.ID, Diagnosis: row.Name,
		Excess: diff.Number(math.Abs(c) / (8 * last)), Text: fmt.Sprintf("%d of %d numbers of step %d are %.6g times "+
			"what the claim gives, to the last bits, and %d as it gives them", with, len(want), f.s.Step, 1+c, without),
	})
}

// factorOf returns the c of got = (1+c) want, if more than half of all numbers have it to a share last of their size,
// and how many have it and how many are as they should be; nothing if there is none. c is their middle, which the
// others do not move. Where most outputs are one number, another rounding of it moves these states alike, by an amount
// that is also a factor of each: a factor is one where no single amount does as much.
func factorOf(got, want []float64, last float64) (c float64, with, without int) {
	n := len(want)
	if n < evidence.FewestNumbers {
		return 0, 0, 0
	}
	moved := func(c, amount float64) (k int) {
		for i, y := range want {
			if math.Abs(got[i]-y-float64(c*y)-amount) < last*math.Abs(y) {
				k++
			}
		}
		return k
	}
	c = middle(n, func(i int) float64 { return got[i]/want[i] - 1 })
	with, without = moved(c, 0), moved(0, 0)
	if 2*with <= n || 4*without > n || math.Abs(c) < 8*last {
		return 0, 0, 0
	}
	if amount := middle(n, func(i int) float64 { return got[i] - want[i] }); 2*moved(0, amount) > n {
		return 0, 0, 0
	}
	return c, with, without
}

// middle returns the median of n numbers.
func middle(n int, of func(i int) float64) float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = of(i)
	}
	slices.Sort(all)
	return all[n/2]
}

// counts leaves out numbers that are zero, or that a clamp has made.
func (f *filter) counts(y float64) bool {
	c := f.e.Case.Rollout.Clamp
	return y != 0 && (c == nil || y > c[0] && y < c[1])
}
