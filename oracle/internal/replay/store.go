package replay

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// storeSuspects are right states that were stored in the wrong place, or not
// quite. A part that was not written to, or with what is another sample's, may
// have been so in the operator's output already: that is no fault of the rollout
// alone. A part that is as it was before, is (see outlived).
func (e *Gate) storeSuspects(w *wrong) []suspect {
	s := e.States
	all := []suspect{{name: "rollout.channels-in-another-order", what: "its channels are stored in another order",
		verdict: report.FailRollout, gate: "rollout",
		step: func() ([]float64, error) { return w.reordered(), nil }}}
	part := func(name, what string, source func(m int) []float64) {
		all = append(all, suspect{name: name, what: what, verdict: report.FailLogic, gate: "rollout",
			step: func() ([]float64, error) { return w.patched(source), nil }})
	}
	for back := 1; back <= min(w.Step, 3); back++ {
		part(Stale, fmt.Sprintf("some of its numbers are those of state %d", w.Step-back),
			func(m int) []float64 { return s.At(m, w.Step-back) })
	}
	for _, p := range mixings(w.Hi - w.Lo) {
		part("rollout.part-of-the-state-is-another-realization-s", "some of its numbers are "+p.name, func(m int) []float64 {
			if p.of[m-w.Lo] == m-w.Lo {
				return nil
			}
			return s.At(w.Lo+p.of[m-w.Lo], w.Step)
		})
	}
	zeros := make([]float64, s.CHW())
	part("rollout.part-of-the-state-is-not-written", "some of its numbers, which are zero, are left out",
		func(int) []float64 { return zeros })
	if i, ok := w.flipped(); ok {
		all = append(all, suspect{name: "rollout.a-bit-has-flipped", what: "one bit of element " +
			evidence.Place(i%s.CHW(), s.H, s.W) + " has flipped", verdict: report.FailLogic, gate: "rollout",
			step: func() ([]float64, error) {
				y := append([]float64(nil), w.want...)
				y[i] = w.Got[i]
				return y, nil
			}})
	}
	return all
}

// Stale is the ID of the fault that leaves a part of a state as it was.
const Stale = "rollout.part-of-the-state-is-stale"

// outlived reports whether a stale part of a state cannot have come out of the
// operator: a blend of state and output is none of either. An output that is
// zero leaves a state as it was where the policy adds it, one that is stale where
// the policy takes it as it is; but a kernel that does not write does so again,
// while the race that such a fault of a rollout is leaves the next step right.
func (e *Gate) outlived(w *wrong) (bool, error) {
	if e.Case.Rollout.Policy == rollout.Convex {
		return true, nil
	}
	if w.Step+1 >= e.States.T {
		return false, nil
	}
	next, err := e.wrongStep(w.Batch, w.Step+1)
	return err == nil && next.rms <= 4*next.floor, err
}

// patched returns the claim's states with the elements taken from a source that
// the device's states share with it, bit for bit. By chance few do; fewer than
// four say nothing (nil). A realization without a source (nil) stays as claimed.
func (w *wrong) patched(source func(m int) []float64) []float64 {
	y := append([]float64(nil), w.want...)
	n := 0
	for m := w.Lo; m < w.Hi; m++ {
		from, got, to := source(m), w.Sample(w.Got, m), w.Sample(y, m)
		if from == nil {
			continue
		}
		for i, v := range got {
			if v == from[i] && math.Abs(v-to[i]) > 4*w.floor {
				to[i] = v
				n++
			}
		}
	}
	if n < 4 {
		return nil
	}
	return y
}

// flipped returns the element that differs from the claim's, if there is but
// one, and one bit makes it fit: up to the last bits, in which a right device
// may differ too.
func (w *wrong) flipped() (at int, ok bool) {
	f := w.claimed.D.State
	worst := -1.0
	for i, v := range w.Got {
		if d := math.Abs(v - w.want[i]); d > worst {
			worst, at = d, i
		}
	}
	for i, v := range w.Got {
		if i != at && math.Abs(v-w.want[i]) > 16*w.floor {
			return 0, false
		}
	}
	if f == fp16.Float64 || !f.Holds(w.Got[at]) {
		return 0, false
	}
	got := f.Bits(w.Got[at])
	for b := range bits.Len64(f.Bits(-1)) {
		if math.Abs(f.FromBits(got^1<<b)-w.want[at]) <= 16*w.floor && worst > 16*w.floor {
			return at, true
		}
	}
	return 0, false
}

// reordered returns the claim's states with their channels in the order in
// which the device's fit best; nil if that is the right order.
func (w *wrong) reordered() []float64 {
	x := w.Tensor(w.want)
	got := w.Tensor(w.Got)
	m := w.worst() - w.Lo
	y := x.Clone()
	moved := false
	for c := range x.C() {
		best, from := math.Inf(1), c
		for k := range x.C() {
			if d := measure.RMSDiff(got.Plane(m, c), x.Plane(m, k)); d < best {
				best, from = d, k
			}
		}
		moved = moved || from != c
		for n := range x.N() {
			copy(y.Plane(n, c), x.Plane(n, from))
		}
	}
	if !moved {
		return nil
	}
	return y.Data
}
