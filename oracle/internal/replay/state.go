package replay

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// stateSuspects are right steps from another state than the one before.
func (e *Gate) stateSuspects(w *wrong) []suspect {
	var all []suspect
	t, s := w.Step, e.States
	add := func(name, what string, step func() ([]float64, error)) {
		all = append(all, suspect{name: name, what: what, verdict: report.FailRollout, gate: "rollout", step: step})
	}
	recorded := func(u int) func() *tensor.Tensor {
		return func() *tensor.Tensor { return e.Stored(w.Lo, w.Hi, u) }
	}
	whole := func(x func() *tensor.Tensor, u int) func() ([]float64, error) {
		return func() ([]float64, error) { return e.stepFrom(w, x(), x(), u) }
	}
	read := func(x func() *tensor.Tensor) func() ([]float64, error) {
		return func() ([]float64, error) { return e.stepFrom(w, x(), w.X, t) }
	}
	blend := func(x func() *tensor.Tensor) func() ([]float64, error) {
		return func() ([]float64, error) { return w.claimed.Machine.Advance(w.claimed.D, x(), w.claimed.Out).Data, nil }
	}

	add(table.NotMade, "it is not made at all", func() ([]float64, error) { return w.X.Data, nil })
	for back := 2; back <= min(t, 4); back++ {
		u := t - back
		what := fmt.Sprintf("state %d", u)
		add("rollout.operator-reads-an-old-state", "the operator reads "+what+", while the policy has the state before",
			read(recorded(u)))
		add("rollout.step-from-an-old-state", "it starts from "+what, whole(recorded(u), t))
	}
	if t > 4 {
		add("rollout.step-from-the-start", "it starts from the initial state", whole(recorded(0), t))
	}
	// A state that is one number all over says nothing: what is dead stays so.
	alive := func(u int) bool {
		for m := w.Lo; m < w.Hi; m++ {
			x := s.At(m, u)
			if !slices.ContainsFunc(x, func(v float64) bool { return v != x[0] }) {
				return false
			}
		}
		return true
	}
	if u := s.T - 1; u > t && alive(u) {
		add("rollout.stored-states-share-one-buffer", fmt.Sprintf("it is state %d, as it is stored", u),
			func() ([]float64, error) { return recorded(u)().Data, nil })
	}
	if t+1 < s.T {
		add("rollout.two-states-in-each-other-place", fmt.Sprintf("states %d and %d have changed places", t, t+1),
			whole(recorded(t+1), t+1))
	}
	for _, u := range []int{t, t + 1} {
		if u < s.T {
			add("rollout.two-steps-in-one", "it is made twice", func() ([]float64, error) {
				return e.stepFrom(w, w.Tensor(w.want), nil, u)
			})
		}
	}
	for _, p := range mixings(w.Hi - w.Lo) {
		x := func() *tensor.Tensor { return Mixed(w.X, p.of) }
		add("rollout.state-of-another-realization", "the operator reads "+p.name+" state", read(x))
		all[len(all)-1].verdict = report.FailLogic // which it was given beside its own: it reads the wrong sample of a batch
		add("rollout.state-of-another-realization", "the policy blends with "+p.name+" state", blend(x))
		add("rollout.realizations-in-each-other-place", "it holds "+p.name+" state", func() ([]float64, error) {
			return Mixed(w.Tensor(w.want), p.of).Data, nil
		})
	}
	for _, f := range []fp16.Format{fp16.TF32, fp16.Float16, fp16.BFloat16} {
		x := func() *tensor.Tensor {
			x := tensor.Like(w.X)
			f.RoundSlice(x.Data, w.X.Data)
			return x
		}
		if f.Ulp(1) > w.claimed.D.State.Ulp(1) {
			name := "rollout.state-read-as:" + f.String()
			add(name, fmt.Sprintf("the state before is rounded to %v when it is read", f), whole(x, t))
			add(name, fmt.Sprintf("the operator reads the state before rounded to %v", f), read(x))
			add(name, fmt.Sprintf("the policy has the state before rounded to %v", f), blend(x))
		}
	}
	add("rollout.state-overwritten-while-it-is-read", "its lower half reads the new upper half", e.inPlace(w, true))
	add("rollout.state-overwritten-while-it-is-read", "its upper half reads the new lower half", e.inPlace(w, false))
	return all
}

// stepFrom returns the claim's step with the draws of step u; the operator
// reads x and the policy keep, which nil takes for x.
func (e *Gate) stepFrom(w *wrong, x, keep *tensor.Tensor, u int) ([]float64, error) {
	var draws noise.Draws = w.Draws.Rewind()
	if u != w.Step {
		d, err := e.Stream.Draws(w.Batch, w.Lo, w.Hi, u)
		if err != nil {
			return nil, err
		}
		draws = d
	}
	if w.Draws == nil {
		draws = nil
	}
	d := w.claimed.D
	out, err := e.Machine.Operator(d, x, draws)
	if err != nil {
		return nil, err
	}
	if keep == nil {
		keep = x
	}
	return e.Machine.Advance(d, keep, out).Data, nil
}

// inPlace is a step whose second half of rows sees the new first half, or the
// other way round.
func (e *Gate) inPlace(w *wrong, down bool) func() ([]float64, error) {
	return func() ([]float64, error) {
		h := w.X.H() / 2
		if h == 0 {
			return nil, nil
		}
		lo, hi := 0, h // rows that are written first
		if !down {
			lo, hi = h, w.X.H()
		}
		mixed := w.X.Clone()
		want := w.Tensor(w.want)
		rows := func(dst, src *tensor.Tensor, lo, hi int) {
			for n := range dst.N() {
				for c := range dst.C() {
					copy(dst.Plane(n, c)[lo*dst.W():hi*dst.W()], src.Plane(n, c)[lo*dst.W():hi*dst.W()])
				}
			}
		}
		rows(mixed, want, lo, hi)
		y, err := e.stepFrom(w, mixed, w.X, w.Step)
		if err != nil {
			return nil, err
		}
		rows(w.Tensor(y), want, lo, hi)
		return y, nil
	}
}

// mixing says whose numbers each realization of a batch has.
type mixing struct {
	name string
	of   []int
}

// mixings are the ways in which a batch of n gets mixed up.
func mixings(n int) []mixing {
	if n < 2 {
		return nil
	}
	of := func(f func(m int) int) []int {
		p := make([]int, n)
		for m := range p {
			p[m] = f(m)
		}
		return p
	}
	all := []mixing{
		{"the previous realization's", of(func(m int) int { return (m + n - 1) % n })},
		{"the first realization's", of(func(int) int { return 0 })},
	}
	if n > 2 {
		all = append(all,
			mixing{"the next realization's", of(func(m int) int { return (m + 1) % n })},
			mixing{"the mirrored realization's", of(func(m int) int { return n - 1 - m })},
			mixing{"the realization before's, the first its own,", of(func(m int) int { return max(m-1, 0) })})
	}
	return all
}

// Mixed returns a tensor whose sample m is sample of[m] of x.
func Mixed(x *tensor.Tensor, of []int) *tensor.Tensor {
	y := tensor.Like(x)
	for m, from := range of {
		copy(y.Samples(m, m+1).Data, x.Samples(from, from+1).Data)
	}
	return y
}
