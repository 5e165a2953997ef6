package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// recovered is the name of a stream of masks that were read off a trajectory.
const recovered = "recovered"

// ReadMasks takes the masks of an unknown dropout from the trajectory itself:
// one factor per channel for thousands of pixels is a problem of least squares.
// With the masks known everything else can be checked as if they had been
// recorded; whether they are masks of the specified kind is tested later.
func ReadMasks(ev *evidence.Evidence, known *facts.Facts) ([]report.Finding, error) {
	e := facts.Begin(ev, known)
	m := NewModel(ev)
	if e.Stream != nil || m == nil || m.Kind != noise.Dropout {
		return nil, nil
	}
	s := e.States
	channels := len(m.W[0])
	if s.H*s.W*len(m.Rows) < 4*channels {
		e.Report.Notes = append(e.Report.Notes, "the dropout is unknown, "+
			"and the states are too small to read its masks off them: nothing behind it was tested")
		return nil, nil
	}
	p := e.Machine.Nodes[m.Node].Noise.Scale
	k := &facts.Masks{Of: make([][]float64, s.M*(s.T-1)), Seen: make([][]bool, s.M*(s.T-1)), P: p}
	for t := 1; t < s.T; t++ {
		for batch := range e.Case.Rollout.EngineBatches() {
			st, err := e.StepOf(batch, t)
			if err != nil {
				return nil, err
			}
			once, err := e.Apply(&emulate.Device{Mode: e.Mode}, st.X, nil)
			if err != nil {
				return nil, err
			}
			rest := m.Without(ev, once, once.Out, once.Hidden())
			for r := st.Lo; r < st.Hi; r++ {
				mask, seen := make([]float64, channels), make([]bool, channels)
				factors, normal := m.solved(e.Case.Rollout, once.Hidden(), rest, st, r)
				for c, f := range factors {
					if 2*f.Value*(1-p) > 1 {
						mask[c] = 1
					}
					// Of 0 and 1/(1-p) it is one or the other, five deviations from the middle.
					seen[c] = f.deviation*(1-p) < 0.1
					if !seen[c] && f.alone*(1-p) < 0.1 && f.unexplained < 0.01 {
						e.Report.Notes = append(e.Report.Notes, "the dropout is unknown, and hidden channels are too "+
							"much alike to read its masks off the states: nothing behind it was tested")
						return nil, nil
					}
				}
				if e.Case.Rollout.Normalization == "" { // of which a scale and an offset are unknown, too
					normal.refine(mask, p)
				}
				k.Of[r*(s.T-1)+t-1], k.Seen[r*(s.T-1)+t-1] = mask, seen
			}
		}
		e.Progress("masks", t, s.T-1)
	}
	known.Masks = k
	ev.Stream = rollout.NewStream(recovered, func(_, lo, hi, t int) (noise.Draws, error) {
		d := &emulate.Draws{Kinds: []noise.Kind{noise.Bernoulli}, Data: [][]float64{nil}}
		for r := lo; r < hi; r++ {
			d.Data[0] = append(d.Data[0], k.Of[r*(s.T-1)+t-1]...)
		}
		return d, nil
	})
	e.Report.Noise.Stream = recovered
	return nil, nil
}

// maskTests tests masks that were read off: how many channels are dropped, and
// whether realizations and steps drop the same ones. Two independent masks agree
// in a channel with probability p^2 + (1-p)^2.
func (e *gate) maskTests() {
	k, s := e.Masks, e.States
	at := func(m, t int) ([]float64, []bool) { return k.Of[m*(s.T-1)+t], k.Seen[m*(s.T-1)+t] }
	dropped, n := 0.0, 0.0
	for i, v := range k.Of {
		for c, x := range v {
			if k.Seen[i][c] {
				dropped += 1 - x
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	var kinds []alike
	for d := 1; d < s.M; d++ {
		kinds = append(kinds, alike{d, 0})
	}
	for d := 1; d < min(s.T-1, 33); d++ {
		kinds = append(kinds, alike{0, d})
	}
	for d := 1; d < min(s.T-1, 4) && s.M > 1; d++ {
		kinds = append(kinds, alike{1, d}, alike{-1, d})
	}
	limit := measure.ZLimit(float64(1 + len(kinds)*s.T))
	test := func(name string, value, want, z float64) bool {
		ok := math.Abs(z) <= limit
		e.Report.Noise.Tests = append(e.Report.Noise.Tests,
			report.NoiseTest{Name: name, Value: diff.Number(value), Want: diff.Number(want), Z: diff.Number(z), OK: ok})
		return ok
	}
	found := func(step int, id, text string, z float64) {
		e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: step, Realization: -1, ID: id,
			Excess: diff.Number(math.Abs(z) / limit), Text: text})
	}
	rate := dropped / n
	z := binomialZ(dropped, n, k.P)
	if !test("rate of dropout", rate, k.P, z) {
		name := "noise.dropout-rate-wrong"
		if math.Abs(rate-(1-k.P)) < 0.1 && math.Abs(rate-k.P) > 0.1 {
			name = "noise.dropout-with-p-and-1-p-swapped"
		}
		found(-1, name, fmt.Sprintf("%.3g of the channels are dropped, where %.3g should be (%.1f standard deviations)",
			rate, k.P, math.Abs(z)), z)
		return
	}
	chance := k.P*k.P + (1-k.P)*(1-k.P)
	var most alike
	mostZ, first, share, hidden := 0.0, -1, 0.0, 0.0
	for _, a := range kinds {
		var agree, count float64
		begins := -1
		for t := a.dt; t < s.T-1; t++ {
			var one, of float64
			for m := max(0, -a.dm); m < min(s.M, s.M-a.dm); m++ {
				_, lo, _ := evidence.BatchOf(e.Case.Rollout, m)
				if _, next, _ := evidence.BatchOf(e.Case.Rollout, m+a.dm); a.dm != 0 && next != lo && lo+t == next+t-a.dt {
					continue // seeds that engine batches share by design
				}
				x, seen := at(m, t)
				y, other := at(m+a.dm, t-a.dt)
				for c := range x {
					if !seen[c] || !other[c] {
						continue
					}
					if x[c] == y[c] {
						one++
					}
					of++
				}
			}
			if of > 0 && begins < 0 && binomialZ(one, of, chance) > limit {
				begins = t + 1
			}
			agree += one
			count += of
		}
		if count == 0 {
			continue
		}
		// Masks that are the same since two thirds of the run: all agree there.
		if seen := binomialZ(count*(chance+(1-chance)/3), count, chance); seen < limit {
			hidden = max(hidden, limit/seen)
		}
		z := binomialZ(agree, count, chance)
		if begins > 0 {
			z = max(z, limit+1e-9)
		}
		if z > mostZ {
			most, mostZ, first, share = a, z, begins, agree/count
		}
	}
	if hidden > 1 {
		e.Report.Blind = append(e.Report.Blind,
			report.Blind{Name: "masks that some realizations or steps have in common", Least: diff.Number(hidden)})
	}
	if !test("masks in common", share, chance, mostZ) {
		found(first, most.name(1), fmt.Sprintf("%s: %.3g of the channels have the same mask, "+
			"where %.3g should (%.1f standard deviations)", most, share, chance, mostZ), mostZ)
	}
}

// binomialZ returns the normal deviate of k of n with probability p, whose tail
// is Chernoff's bound: sqrt(2 n KL(k/n | p)), of the sign of k/n - p.
func binomialZ(k, n, p float64) float64 {
	q := k / n
	part := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * (elem.Log(a) - elem.Log(b))
	}
	d := 2 * n * (part(q, p) + part(1-q, 1-p))
	return math.Copysign(math.Sqrt(max(d, 0)), q-p)
}
