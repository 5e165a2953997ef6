package structure

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/report"
)

// repeats looks for states that are stored twice: buffers that were not copied,
// realizations that stand still, or follow each other. A state that repeats
// another one by right is what the claim makes of the state before it (a fixed
// point, or realizations without noise that start alike); noise that is
// continuous never does that.
func (e *Gate) repeats() error {
	s := e.States
	hash := make([]uint64, s.M*s.T)
	first := map[uint64][2]int{} // where a state was seen first, in the order of steps
	for t := range s.T {
		for m := range s.M {
			if t == 0 && m > 0 {
				hash[m*s.T] = stateHash(s.At(m, 0)) // starts may be alike
				continue
			}
			h := stateHash(s.At(m, t))
			hash[m*s.T+t] = h
			if _, seen := first[h]; !seen {
				first[h] = [2]int{m, t}
			}
		}
	}
	for t := 1; t < s.T; t++ {
		for m := range s.M {
			at := first[hash[m*s.T+t]]
			if t > 0 && hash[m*s.T+t] == hash[m*s.T+t-1] {
				at = [2]int{m, t - 1}
			}
			if at == [2]int{m, t} || !slices.Equal(s.At(m, t), s.At(at[0], at[1])) {
				continue // NaNs are not equal to each other
			}
			right, err := e.mayRepeat(m, t, at)
			if err != nil {
				return err
			}
			if right {
				continue
			}
			f, err := e.repeat(hash, m, t, at)
			if err != nil {
				return err
			}
			e.Find(f)
			return nil
		}
	}
	return nil
}

// mayRepeat reports whether state t of m, which equals that one, is one by right.
func (e *Gate) mayRepeat(m, t int, at [2]int) (bool, error) {
	if e.Stream == nil { // the noise is continuous: dropout's has been recovered
		return e.silent(m, t)
	}
	if at[1] == t && slices.Equal(e.States.At(m, t-1), e.States.At(at[0], t-1)) {
		same, err := e.sameDraws(m, at[0], t)
		if same || err != nil {
			return same, err
		}
	}
	return e.Fits(m, t)
}

// silent reports whether noise that multiplies finds nothing but zeros in step t of m.
func (e *Gate) silent(m, t int) (bool, error) {
	at := e.NoiseNode()
	if at < 0 || e.Machine.Nodes[at].Noise.Type != noise.Multiplicative {
		return false, nil
	}
	b, err := e.StepWith(m, t)
	if err != nil {
		return false, err
	}
	p, err := e.Apply(&emulate.Device{Mode: e.Mode}, b.X, nil)
	if err != nil {
		return false, err
	}
	zeros := !slices.ContainsFunc(p.Hidden().Samples(m-b.Lo, m-b.Lo+1).Data, func(v float64) bool { return v != 0 })
	return zeros, nil
}

// sameDraws reports whether two realizations have the same noise at a step, as
// masks of a few channels may be by chance.
func (e *Gate) sameDraws(m, n, t int) (bool, error) {
	of := func(m int) ([][]float64, error) {
		b, err := e.StepWith(m, t)
		if err != nil || b.Draws == nil {
			return nil, err
		}
		if _, err := e.Machine.Operator(&emulate.Device{Mode: e.Mode}, b.X, b.Draws.Rewind()); err != nil {
			return nil, err
		}
		return evidence.Part(b.Draws, m-b.Lo, m-b.Lo+1, b.X.N()).Data, nil
	}
	a, err := of(m)
	if err != nil {
		return false, err
	}
	b, err := of(n)
	return err == nil && slices.EqualFunc(a, b, slices.Equal), err
}

// repeat says what the repetition of state `at` by state t of m means.
func (e *Gate) repeat(hash []uint64, m, t int, at [2]int) (report.Finding, error) {
	s := e.States
	same := func(m, t, n, u int) bool { return hash[m*s.T+t] == hash[n*s.T+u] }
	all := func(p func(m int) bool) bool {
		for m := range s.M {
			if !p(m) {
				return false
			}
		}
		return true
	}
	f := report.Finding{
		Verdict: report.FailRollout, Gate: "structure", Step: t, Realization: m, Excess: diff.Number(math.Inf(1)),
	}
	switch {
	case at[1] == t-1 && at[0] == m && s.T-t >= 2 && all(func(m int) bool {
		for u := t; u < s.T; u++ {
			if !same(m, u, m, u-1) {
				return false
			}
		}
		return true
	}):
		f.ID = "rollout.stored-states-share-one-buffer"
		if t > 1 { // the buffer's last state is where state t-1 should be
			right, err := e.Fits(m, t-1)
			if err != nil {
				return f, err
			}
			if !right || e.Stream == nil {
				f.Step--
			}
		}
		f.Text = fmt.Sprintf("states %d to %d are the same numbers in every realization: "+
			"one buffer, or a rollout that stands still", t-1, s.T-1)
	case at[1] == t-1 && at[0] == m && all(func(m int) bool { return same(m, t, m, t-1) }):
		f.ID = table.NotMade
		f.Text = fmt.Sprintf("state %d is state %d again in every realization: "+
			"a step that was not made, or a state stored twice", t, t-1)
		late, err := e.StoredLate(m, t)
		if err != nil {
			return f, err
		}
		if late {
			f.ID = "rollout.states-stored-one-step-late"
			f.Text = fmt.Sprintf("state %d is state %d again in every realization, "+
				"and the steps after it have the noise of the step before: states are stored one step late", t, t-1)
		}
	case at[1] == t-1 && at[0] == m:
		f.ID, f.Text = table.Frozen,
			fmt.Sprintf("state %d of realization %d is its state %d again, while others go on", t, m, t-1)
	case at[1] == t && all(func(m int) bool { return same(m, t, 0, t) }) &&
		all(func(m int) bool { return same(m, t-1, 0, t-1) }):
		f.Verdict, f.Gate = report.FailRNG, "noise"
		f.ID, f.Text = "noise.the-same-noise-for-all-realizations",
			fmt.Sprintf("all realizations have the same state %d, which different noise would have kept apart", t)
	case at[1] == t && same(m, t-1, at[0], t-1):
		f.Verdict, f.Gate = report.FailRNG, "noise"
		f.ID, f.Text = "noise.realizations-share-their-noise", fmt.Sprintf(
			"realizations %d and %d have the same state %d, which different noise would have kept apart", at[0], m, t,
		)
	case at[1] == t:
		f.ID, f.Text = "rollout.realizations-share-a-state",
			fmt.Sprintf("realizations %d and %d have the same state %d, from different states before", at[0], m, t)
	default:
		f.ID, f.Text = "rollout.state-stored-twice",
			fmt.Sprintf("state %d of realization %d is state %d of realization %d again", t, m, at[1], at[0])
	}
	return f, nil
}

func stateHash(x []float64) uint64 {
	h := fnv.New64a()
	var buf [8]byte
	for _, v := range x {
		binary.LittleEndian.PutUint64(buf[:], math.Float64bits(v))
		h.Write(buf[:])
	}
	return h.Sum64()
}
