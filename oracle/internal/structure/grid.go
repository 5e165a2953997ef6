package structure

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// grid looks for states whose numbers all lie on a coarser grid than the
// claim's states have: float32 states that went through a half type. One number
// in 2^13 lies on float16's grid by chance; where a whole state does, the claim
// is asked whether its state would, too.
func (e *Gate) grid() error {
	s := e.States
	asked := 0 // how often the claim gave few numbers itself
	for t := 1; t < s.T; t++ {
		d, err := e.ClaimAt(t)
		if err != nil {
			return err
		}
		for m := range s.M {
			x := s.At(m, t)
			if repeated(x) {
				continue // a state of zeros lies on every grid
			}
			found, err := e.coarse(x, m, t, d.State)
			if !found && err == nil {
				found, err = e.levels(x, m, t, d.State, &asked)
			}
			if found || err != nil {
				return err
			}
		}
	}
	return nil
}

// repeated reports whether half of the numbers or more are one and the same.
func repeated(x []float64) bool {
	var most float64
	lead, count := 0, 0
	for _, v := range x { // if one has a majority, it is what is left of a vote
		switch {
		case lead == 0:
			most, lead = v, 1
		case v == most:
			lead++
		default:
			lead--
		}
	}
	for _, v := range x {
		if v == most {
			count++
		}
	}
	return 2*count >= len(x)
}

// coarse looks at x, state t of realization m, which is claimed to have format f.
func (e *Gate) coarse(x []float64, m, t int, f fp16.Format) (found bool, err error) {
	for _, g := range []fp16.Format{fp16.BFloat16, fp16.Float16, fp16.TF32} {
		if g.Ulp(1) <= f.Ulp(1) || !holdsAll(g, x) {
			continue
		}
		b, y, err := e.Predict(m, t)
		if err != nil {
			return false, err
		}
		off := 0
		for _, v := range b.Sample(y.Data, m) {
			if !g.Holds(v) {
				off++
			}
		}
		if 2*off < len(x) {
			continue // the claim's are, too
		}
		stored := ""
		if e.States.Format == g {
			stored = fmt.Sprintf("; the trajectory is stored as %v, so it may be that only the file is", g)
		}
		e.Find(report.Finding{Verdict: report.FailPrecision, Gate: "structure", Step: t, Realization: m,
			ID: "rollout.state-kept-in:" + g.String(), Excess: diff.Number(float64(off)), Text: fmt.Sprintf(
				"state %d of realization %d has only %v numbers, where the claim has %v states%s", t, m, g, f, stored,
			)})
		return true, nil
	}
	return false, nil
}

// holdsAll reports whether all numbers are finite and of a format.
func holdsAll(f fp16.Format, x []float64) bool {
	for _, v := range x {
		if !measure.Finite(v) || !f.Holds(v) {
			return false
		}
	}
	return true
}

// levels looks for a state of few distinct numbers, among some 500 of it that no
// clamp has made equal: a quantized one. Half of them or less are different there,
// and nine tenths or more in what the claim gives.
func (e *Gate) levels(x []float64, m, t int, f fp16.Format, asked *int) (found bool, err error) {
	if f != fp16.Float32 && f != fp16.Float64 || *asked > 2 || evidence.FirstPoison(x) >= 0 {
		return false, nil
	}
	got, n := e.distinct(x)
	if n < 64 || 2*got > n {
		return false, nil
	}
	b, y, err := e.Predict(m, t)
	if err != nil {
		return false, err
	}
	if want, of := e.distinct(b.Sample(y.Data, m)); 10*want < 9*of {
		*asked++
		return false, nil
	}
	e.Find(report.Finding{Verdict: report.FailPrecision, Gate: "structure", Step: t,
		Realization: m, ID: "rollout.state-quantized", Excess: diff.Number(float64(n) / float64(got)),
		Text: fmt.Sprintf("state %d of realization %d has only %d different numbers among %d", t, m, got, n)})
	return true, nil
}

// distinct counts the different numbers among some 500 of x, those at the ends
// of a clamp left out, and how many there are.
func (e *Gate) distinct(x []float64) (different, n int) {
	seen := map[uint64]bool{}
	c := e.Case.Rollout.Clamp
	for i := 0; i < len(x); i += max(1, len(x)/512) {
		if c == nil || x[i] > c[0] && x[i] < c[1] {
			seen[math.Float64bits(x[i])] = true
			n++
		}
	}
	return len(seen), n
}
