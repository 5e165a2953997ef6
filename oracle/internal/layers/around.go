package layers

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// What lies around the operator in a rollout: its input, which is the state
// before, and the policy that makes the next state of its output.

// layerInput compares the file's input with the state before its step, both
// in the coarser of their formats. It returns whether the numbers are equal. An
// input may also be the initial condition before post-processing; another
// state of the trajectory, or none, is a fault of the rollout, if the file says
// of which step it is.
func (e *gate) layerInput(l *evidence.LayerFile) bool {
	n, s := l.Input.N(), e.States
	if l.Step >= s.T || l.Realization+n > s.M || l.Input.H() != s.H || l.Input.W() != s.W || l.Input.C() != s.C {
		return false
	}
	at := func(t int) bool {
		for i := range n {
			state := s.At(l.Realization+i, t)
			for k, v := range l.Input.Samples(i, i+1).Data {
				if x := state[k]; l.Input.Format.Round(x) != v && s.Format.Round(v) != x && (v == v || x == x) {
					return false
				}
			}
		}
		return true
	}
	if at(l.Step - 1) {
		return true
	}
	if !l.Dated || l.Alone || l.Step == 1 && e.isStart(l) {
		return false
	}
	text := fmt.Sprintf("the operator's input at step %d is not the state before it", l.Step)
	for t := range s.T {
		if t != l.Step-1 && at(t) {
			text += fmt.Sprintf(", but the one at %d", t)
			break
		}
	}
	e.Find(report.Finding{Verdict: report.FailRollout, Gate: "bound", Step: l.Step, Realization: l.Realization,
		Excess: diff.Number(math.Inf(1)), Text: text})
	return false
}

// isStart reports whether the input is the recorded initial condition.
func (e *gate) isStart(l *evidence.LayerFile) bool {
	if e.Case.Trajectory == nil {
		return false
	}
	x0, shape, err := e.Case.ReadStart()
	if err != nil {
		return false
	}
	size := shape.C * shape.H * shape.W
	for i := range l.Input.N() {
		from := x0
		if len(x0) > size {
			from = x0[(l.Realization+i)*size:][:size]
		}
		for k, v := range l.Input.Samples(i, i+1).Data {
			if l.Input.Format.Round(from[k]) != v && (v == v || from[k] == from[k]) {
				return false
			}
		}
	}
	return true
}

// layerPolicy holds the recorded next state against the policy applied to the
// recorded output. States that are normalised over all of their numbers are
// left to the gate of the steps.
func (e *gate) layerPolicy(g *layerGate, l *evidence.LayerFile) {
	s, ro := e.States, e.Case.Rollout
	if l.Output == nil || !l.Dated || l.Alone || l.Step >= s.T || ro.Normalization != rollout.NoNormalization {
		return
	}
	n := l.Input.N()
	next := tensor.New(s.Format, n, s.C, s.H, s.W)
	for i := range n {
		copy(next.Samples(i, i+1).Data, s.At(l.Realization+i, l.Step))
	}
	last := g.of[len(g.of)-1]
	store := e.Case.Rollout.StateFormat(last)
	if s.Format.Bytes() < store.Bytes() {
		store = s.Format // the file's states are rounded once more
	}
	if store != fp16.Float64 && !evidence.OnFormat(store, next.Data) {
		store = fp16.Float32
	}
	var best *layerScore
	for a := range e.policyAnswers(g, l, last, store) {
		t := judge(a, next, store)
		if t.better(best) {
			best = t
		}
		if t.right() {
			break
		}
	}
	best.row.Step, best.row.Name, best.row.Op = l.Step, "policy", "policy"
	e.Report.Layers = append(e.Report.Layers, best.row)
	if best.right() {
		return
	}
	where := best.where()
	e.Find(report.Finding{Verdict: report.FailRollout, Gate: best.gate, Step: l.Step,
		Realization: best.first(l.Realization), Slice: where, Excess: diff.Number(best.excess), Text: fmt.Sprintf(
			"the policy: %d of %d numbers of the state at step %d are not what it makes of the recorded output",
			max(best.violations, best.row.Flips), len(next.Data), l.Step,
		)})
}

// policyAnswers: a X + c O, or X + dt O, where the products round in float32,
// that with O to O's type first or not, and a device may form 1-alpha in
// float32, an ulp off.
func (e *gate) policyAnswers(g *layerGate, l *evidence.LayerFile, f, store fp16.Format) iter.Seq[*answer] {
	ro, mode, u := e.Case.Rollout, e.Mode, g.u
	x, out := l.Input, l.Output
	a, c := mode.Scalar(ro.Alpha, store), mode.Scalar(1-ro.Alpha, f)
	switch ro.Policy {
	case rollout.Residual:
		a, c = 1, mode.Scalar(ro.Dt, f)
	case rollout.Autoregressive:
		a, c = 0, 1
	}
	return func(yield func(*answer) bool) {
		half := f.Half()
		// A file of a half type may hold a copy, rounded or cut, of what the policy read.
		copied := l.Output.Format.Half()
		keeps := ro.Policy == rollout.Convex && ro.State != "" && store.Half()
		c, constant := c, f.Round(c)
		for _, way := range []struct{ share, kept, copied, constants, is bool }{
			{half, keeps, false, false, true}, {false, false, false, false, half || keeps}, {half, false, false, false,
				keeps}, {false, keeps, true, false, copied}, {true, keeps, true, false, half && copied},
			{half, keeps, false, true, half && constant != c}, {false, false, false, true, half && constant != c},
		} {
			if !way.is {
				continue
			}
			c := c
			if way.constants {
				c = constant
			}
			share := way.share || way.kept
			ans := &answer{how: "", wide: usualSlack}
			ans.mid, ans.lo, ans.hi = make([]float64, len(x.Data)), make([]float64, len(x.Data)), make([]float64, len(x.Data))
			ans.sd = make([]float64, len(x.Data))
			if share {
				ans.flip = make([]float64, len(x.Data))
			}
			for k, v := range out.Data {
				q := certain(v)
				if way.copied && measure.Finite(v) {
					ulp := l.Output.Format.Ulp(v)
					q = span{v - ulp, v, v + ulp, ulp / math.Sqrt(3), 0}
				}
				if ro.Policy != rollout.Autoregressive {
					q = q.times(c).blur(4*u, u)
					if way.share {
						q = q.round(f)
					}
					old := certain(x.Data[k]).times(a).blur(2*u, u)
					if way.kept {
						old = old.round(store)
					}
					q = q.plus(old).blur(2*u, u)
				}
				if ro.Clamp != nil {
					lo, hi := store.Round(ro.Clamp[0]), store.Round(ro.Clamp[1])
					cut := func(v float64) float64 { return max(lo, min(hi, v)) }
					q.lo, q.mid, q.hi = cut(q.lo), cut(q.mid), cut(q.hi)
				}
				ans.mid[k], ans.lo[k], ans.hi[k], ans.sd[k] = q.mid, q.lo, q.hi, q.sd
				if share {
					ans.flip[k] = q.flip
				}
			}
			if !yield(ans) {
				return
			}
		}
	}
}

// first is the realization of the first element outside of its interval, or
// the given one if there is none; realizations count from it.
func (s *layerScore) first(from int) int {
	x := s.got
	if k := slices.Index(s.bad, true); k >= 0 {
		return from + k/(x.C()*x.H()*x.W())
	}
	return from
}
