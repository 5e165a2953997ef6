package match

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
)

// confirm reports whether the device does what the hypothesis says: whether its
// states are as far from that as a correct device's are from the claim. The
// fault may itself make errors grow, so the limit is found by perturbing the
// faulty step. Without rounding a residual is large anyway: there most of it
// must be explained.
func (f *filter) confirm(t *Tried) (bool, error) {
	if f.near != nil && t.v != f.near && t.Match.Gain < wholly && t.H.Advance == nil {
		return false, nil
	}
	if mimicked, err := f.mimicked(t); mimicked || err != nil {
		return false, err
	}
	if may, err := f.mayBe(t); may || err != nil {
		return false, err
	}
	if f.conforms(t) {
		return true, nil
	}
	if t.Match.Gain < wholly {
		return false, nil
	}
	v := *t.v
	if t.H.Family {
		v.Amplitude = t.Match.C
	}
	next, err := v.Run(t.H, t.Scope, nil)
	if err != nil {
		return false, err
	}
	most := 0.0
	for k := range 3 {
		p, err := v.Perturbed(t.H, t.Scope, uint64(k+1))
		if err != nil {
			return false, err
		}
		most = max(most, measure.RMS(f.units(t.v, p.Data, next.Data)))
	}
	return t.Match.After <= 2*most, nil
}

// mayBe reports whether what right devices may do explains the residual as well: whether what the fault does besides
// has less than half of its amplitude in what that leaves, or none that is sure.
func (f *filter) mayBe(t *Tried) (bool, error) {
	if t.H.Instead == nil {
		return false, nil
	}
	next, err := t.v.Run(t.H.Instead, t.Scope, nil)
	if next == nil || err != nil {
		return false, err
	}
	besides := slices.Clone(t.q)
	for i, d := range f.units(t.v, next.Data, t.v.Next.Data) {
		besides[i] -= d
	}
	m := f.held(t.v, next, besides)
	return m.C < 0.5 || m.T < leastBesides, nil
}

// mimicked reports whether some of many correct devices have half the amplitude that
// a fault would have, where no gate has found the step to be wrong. If one number stands
// next to the middle between two of a half type, and much depends on it, a few
// correct devices have it on the other side, as the step with the fault may have:
// then the signature is what that number does.
func (f *filter) mimicked(t *Tried) (bool, error) {
	if t.v != f.near || f.known() || f.forward > evidence.LargeForward {
		return false, nil
	}
	correct, err := f.correct(t.v, manyDevices)
	if err != nil {
		return false, err
	}
	qq := measure.Dot(t.q, t.q)
	return slices.ContainsFunc(correct, func(r []float64) bool { return math.Abs(measure.Dot(r, t.q)) > 0.5*qq }), nil
}

// far is how many times more or less than a node's output the operator's may
// change.
const far = 30

// search looks for the hypothesis that explains a step that is known to be wrong, or that is far off, which slow ones
// are not asked of.
func (f *filter) search() error {
	all := fault.Library()
	slices.SortStableFunc(all, func(a, b *trial.Fault) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(f.cost(a, len(all)), f.cost(b, len(all))))
	})
	found := func() bool {
		return slices.ContainsFunc(f.tried, func(t Tried) bool { return t.fits })
	}
	for _, single := range []bool{false, true} {
		for _, h := range all {
			if h.Slow && (single || !f.known()) {
				break
			}
			if found() && (single || h.Slow) {
				return nil
			}
			for _, s := range f.scopes(h, single) {
				if err := f.hold(h, s); err != nil {
					return err
				}
				if err := f.e.Ctx.Err(); err != nil {
					return err
				}
				if f.spent() {
					return nil
				}
			}
		}
	}
	return nil
}

// spent reports whether the search has used up its work.
func (f *filter) spent() bool {
	if f.e.Pool.work > f.allowed() {
		f.e.Report.Skipped = append(f.e.Report.Skipped, "hypotheses that the work did not reach")
		return true
	}
	return !f.e.Until.IsZero() && f.e.Late("hypotheses that the budget did not reach")
}

// allowed is the work of a search: all that a small operator needs, or 20 steps of a
// large one.
func (f *filter) allowed() int64 { return max(2e10, 20*f.forward) }

// cost returns the share of a step, in hundredths, that a hypothesis takes: of all
// nodes from the first on where it acts. Where the work does not reach the whole
// library, even once, the many that act late, such as those of noise and policy, come
// first.
func (f *filter) cost(h *trial.Fault, of int) int64 {
	if f.forward <= f.allowed()/int64(of) || h.Input != nil {
		return 0
	}
	var work, all int64
	acts := false
	for i := range f.e.Machine.Nodes {
		n := &f.e.Machine.Nodes[i]
		acts = acts || h.On() && h.At(n)
		if emulate.IsConv(n) {
			all += int64(len(n.Weight.Data))
			if acts {
				work += int64(len(n.Weight.Data))
			}
		}
	}
	return 100 * work / max(all, 1)
}

// order puts slow hypotheses last.
func order(h *trial.Fault) int {
	if h.Slow {
		return 1
	}
	return 0
}

// scopes returns where a hypothesis can act: on all nodes, and on the windows
// among its convolutions if there are others, or on each node alone.
func (f *filter) scopes(h *trial.Fault, single bool) []trial.Scope {
	if !single {
		s := []trial.Scope{trial.Everywhere}
		if h.On() && !h.Whole && slices.ContainsFunc(f.e.Machine.Nodes,
			func(n operator.Node) bool { return emulate.IsConv(&n) && !emulate.IsWindow(&n) && h.At(&n) }) {
			s = append(s, trial.Windows)
		}
		return s
	}
	var s []trial.Scope
	for i := range f.e.Machine.Nodes {
		if h.On() && !h.Whole && h.At(&f.e.Machine.Nodes[i]) {
			s = append(s, trial.Scope(i))
		}
	}
	if len(s) < 2 {
		return nil // tried already
	}
	return s
}

// hold tries one hypothesis in the search: where the residual is large first
// without rounding and on one sample.
func (f *filter) hold(h *trial.Fault, s trial.Scope) error {
	if h.Slow && f.large || f.alone && !h.Batch && h.Advance == nil {
		return nil // they do far less, or to all samples
	}
	if f.large && !h.Rounding {
		v := f.one
		if h.Batch {
			v = f.exact
		}
		t, err := f.try(h, s, v, far)
		if t == nil || err != nil {
			return err
		}
		if !(t.Match.Gain > 0.8) || !h.Family && math.Abs(t.Match.C-1) > 2*amplitudeTol {
			f.keep(t)
			return nil
		}
	}
	for _, v := range f.views(h) {
		t, err := f.try(h, s, v, far)
		if t == nil || err != nil {
			return err
		}
		if f.named(t) && t.Match.Gain > 0.5 {
			if t.fits, err = f.confirm(t); err != nil {
				return err
			}
		}
		f.keep(t)
		if t.fits {
			break
		}
	}
	return nil
}
