package match

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
)

// certify looks for the faults that may hide below the rounding errors, and
// says which of them could not have been seen.
func (f *filter) certify() error {
	var blind []report.Blind
	all := fault.Library()
	for k, h := range all {
		if !h.Small || h.Many != "" && (f.near == nil || f.forward > evidence.LargeForward) {
			continue // a fine claim hides no such thing
		}
		if h.TF32 && f.exact.Device.Mode.Precision == fp16.TF32 {
			continue
		}
		f.e.Progress("hypotheses", k+1, len(all))
		if f.e.Late(fmt.Sprintf("small faults that the budget did not reach at step %d", f.s.Step)) {
			break
		}
		if err := f.e.Ctx.Err(); err != nil {
			return err
		}
		if f.rests(h) {
			continue
		}
		if err := f.ask(h); err != nil {
			return err
		}
		if h.On() && h.Probe == "" && (h.Needs == "" || f.near != nil) {
			continue // not larger than the errors of correct devices anywhere
		}
		if least := f.e.Pool.least(h); least > 1 {
			name := cmp.Or(h.Many, h.Name)
			if i := slices.IndexFunc(blind, func(b report.Blind) bool { return b.Name == name }); i >= 0 {
				blind[i].Least = max(blind[i].Least, diff.Number(least))
				continue
			}
			blind = append(blind, report.Blind{Name: name, Least: diff.Number(least), Probe: h.Probe, Needs: h.Needs})
		}
	}
	f.e.Report.Blind = append(f.e.Pool.Blind, blind...)
	return nil
}

// ask looks for one such fault.
func (f *filter) ask(h *trial.Fault) error {
	var around measure.Match // the emulation
	delete(f.e.Pool.refuted, h.Prior)
	for _, v := range f.views(h) {
		t, err := f.try(h, trial.Everywhere, v, math.Inf(1))
		if err != nil {
			return err
		}
		if t == nil || t.Match.QQ == 0 {
			if v == f.near {
				return nil // the claim itself does that
			}
			continue
		}
		if v == f.near {
			around = t.Match
		}
		if f.near == nil && h.Rounding && measure.RMS(t.q) < 1e-3 {
			continue // none that could matter
		}
		refuted := refutes(t) && !f.wrong()
		if !refuted {
			if err := f.scatter(t); err != nil {
				return err
			}
		}
		p, s := f.e.Pool.At(h, v == f.near), f.right(t)
		p.information += 1 / float64(s*s)
		if at, err := f.atOne(t); at != nil || err != nil {
			p.found = p.found || at != nil
			f.keep(cmp.Or(at, t))
			return err
		}
		if refuted {
			f.e.Pool.refute(h)
			f.keep(t)
			return nil // nor is it there by the other view, which is no sharper
		}
		if !f.asksForPower(h) { // no device of a fine claim rounds so
			if t.fits, err = f.hidden(t, p); err != nil {
				return err
			}
			if v == f.exact && f.near != nil && around.QQ == 0 { // a policy that no contract describes
				around = f.held(v, f.near.Next, t.q)
				around.C, around.Sigma = t.k*around.C, math.Abs(t.k)*around.Sigma
				if !f.wrong() {
					f.e.Pool.At(h, true).add(f.s.Step, &around)
				}
			}
			if m := f.e.Pool.At(h, true).From(t.whole); t.whole > 0 && m.QQ > 0 {
				around = m // of the same steps
			}
			t.fits = t.fits && (v == f.near || !shareOf(around, t).Refutes())
			if t.fits {
				may, err := f.mayBe(t)
				if t.fits = !may; err != nil {
					return err
				}
			}
		}
		p.found = p.found || t.fits
		f.keep(t)
	}
	return nil
}

// atOne returns a fault that a fine claim's device has at one node alone, which explains most of the residual, nil if
// there is none: that of all nodes together shows in it, but not by its own amplitude.
func (f *filter) atOne(t *Tried) (*Tried, error) {
	if m := &t.Match; f.named(t) || f.near != nil || t.H.Family || math.Abs(m.T) < measure.LeastT {
		return nil, nil
	}
	var best *Tried
	for _, s := range f.scopes(t.H, true) {
		at, err := f.try(t.H, s, t.v, math.Inf(1))
		if at == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if at.Match.Gain < 0.5 || best != nil && at.Match.Gain < best.Match.Gain {
			continue
		}
		if err := f.scatter(at); err != nil {
			return nil, err
		}
		if at.fits, err = f.hidden(at, &pooled{}); err != nil {
			return nil, err
		}
		if at.fits {
			best = at
		}
	}
	return best, nil
}

// asksForPower reports whether nothing but whether a fault would show is asked of it: what rounds
// operands coarser is no fault of a half type's device that a step would hide.
func (f *filter) asksForPower(h *trial.Fault) bool {
	return h.Rounding && f.near != nil && f.near.Device.Mode.Precision != fp16.TF32
}

// rests reports whether a fault need not be looked for at this step: one before has refuted it, and
// one after looks again; or whether it would show is all that is asked, and it would.
func (f *filter) rests(h *trial.Fault) bool {
	if f.asksForPower(h) {
		least := f.e.Pool.least(h)
		return least > 0 && least <= 1
	}
	return f.s.SkipRefuted && f.e.Pool.refuted[h.Prior]
}

// refutes reports whether a step is proof that it has not got a fault: one of its known amplitude,
// 1, or from 0.7 on where roundings make it less, would be 7 standard deviations off, were they
// twice as large; the least one of a family 8.
func refutes(t *Tried) bool {
	c, sigma := math.Abs(t.Match.C), 2*t.Match.Sigma
	if t.H.Family {
		return c+measure.LeastT*sigma < max(leastFamily, t.H.Least)
	}
	return c < 0.25 && sigma < 1./16
}

// shareOf returns m with its amplitude as a share of that of a family's t.
func shareOf(m measure.Match, t *Tried) *measure.Match {
	if t.H.Family {
		m.C, m.Sigma = m.C/t.Match.C, m.Sigma/math.Abs(t.Match.C)
	}
	return &m
}

// right returns the standard deviation of an amplitude in a step that is right:
// a wrong one has a residual that says nothing about that, and the residual of
// a device that happens to equal the emulation is not the scatter of all.
func (f *filter) right(t *Tried) float64 {
	rest := measure.RMS(f.residual(t.v, t.v.Next))
	least := f.limit(t.v) / 4 * math.Sqrt(float64(t.Match.N)/t.Match.QQ)
	return max(least, t.Match.Sigma*min(1, f.limit(t.v)/rest))
}

// named reports whether the amplitude is that of the fault as it is known, and
// not by chance.
func (f *filter) named(t *Tried) bool {
	m := &t.Match
	right := math.Abs(m.C-1) < amplitudeTol
	if t.H.Family { // a wrong rounding may scale by so little too
		right = math.Abs(m.C) > max(leastFamily, t.H.Least)
	}
	return math.Abs(m.T) > measure.LeastT && right &&
		float64(m.N)*f.limit(t.v)*f.limit(t.v) < m.QQ*leastSize*leastSize
}

// shrunk reports whether a fault explains most of a residual that roundings have
// made less of: those behind it fall otherwise, here and there, in the device and
// in the step with the fault, which takes from the amplitude and adds to what is left. So do, in
// exact arithmetic, operands that the device has other last bits of.
func (f *filter) shrunk(t *Tried) bool {
	m := &t.Match
	return (t.v == f.near || f.near == nil && t.H.Rounding) && !t.H.Family && m.Gain > 0.5 && m.T > measure.LeastT &&
		m.C > 0.7 && m.C < 1
}

// steady reports whether parts of the data agree with the amplitude: three
// sets of planes. What correlates by accident does so in some of them.
func (f *filter) steady(t *Tried) bool {
	r := f.residual(t.v, t.v.Next)
	var rq, qq [3]float64
	for i, v := range r {
		k := f.cluster[t.v.Lo+i] / cells % 3
		rq[k] += float64(v * t.q[i])
		qq[k] += float64(t.q[i] * t.q[i])
	}
	want, all := 1.0, measure.Dot(t.q, t.q)
	for k := range rq {
		if qq[k] < 0.05*all {
			continue
		}
		c := rq[k] / qq[k]
		sigma := t.Match.Sigma / math.Abs(t.k) * math.Sqrt(all/qq[k]) // of t.q
		if math.Abs(c-want) > amplitudeTol+float64(4*sigma) {
			return false
		}
	}
	return true
}

// scatter widens the standard deviation of an amplitude that could be a fault's
// to that of correct devices. What is explained nearly whole is no accident.
//
// Steps are taken together, and n of them whose t is below leastT/sqrt(n) have a t
// below leastT, by Cauchy's inequality. So all are widened whose t is more than that
// over sqrt 2: the others are at most half of any t^2 that counts.
//
// Of few devices a standard deviation is itself uncertain, and the tail of t that of
// Student's distribution: leastT is as rare as it should be only with many. More are
// asked as long as they leave a t that one step may bring into the sum of many.
func (f *filter) scatter(t *Tried) error {
	if f.named(t) && t.Match.Gain > 0.9 || f.wrong() {
		return nil
	}
	plain, asked, least := t.Match, 0, measure.LeastT/math.Sqrt(2*mostCovered)
	for _, n := range []int{fewDevices, someDevices, manyDevices} {
		if n = min(n, f.devices()); n == asked || math.Abs(t.Match.T) <= least {
			break
		}
		t.Match, asked, least = plain, n, measure.LeastT/2
		if err := f.spread(t, n); err != nil {
			return err
		}
	}
	return nil
}

const (
	fewDevices  = 6
	someDevices = 16
	manyDevices = 64
)

// devices returns how many correct devices a signature is held against: many, or
// what a large operator leaves time for.
func (f *filter) devices() int {
	return int(max(fewDevices, min(manyDevices, mostDevices/max(f.forward, 1))))
}

// mostDevices is how many multiplications with weights all of them take together.
const mostDevices = 2e10

// hidden reports whether a fault is there that need not show otherwise: by this
// step, or by it and those before.
func (f *filter) hidden(t *Tried, p *pooled) (bool, error) {
	if f.sparse(t) {
		return false, nil
	}
	alone, m, wrong := *t, &t.Match, f.wrong()
	if !wrong {
		p.add(f.s.Step, m)
		if !(f.named(t) && m.Gain > 0.9) && !t.H.Family {
			t.whole = p.together(m)
		}
	}
	if !(f.named(t) && f.steady(&alone) || f.shrunk(t)) || !f.conforms(t) {
		return false, nil
	}
	if c := m.RQ / m.QQ; !wrong && t.H.Family {
		t.since = p.since(c)
	} else if !wrong {
		t.since = p.since(m.C)
	}
	return true, nil
}

// spread widens the standard deviation of an amplitude to that which it has in
// n correct devices.
func (f *filter) spread(t *Tried, n int) error {
	correct, err := f.correct(t.v, n)
	if err != nil {
		return err
	}
	t.Match.Spread(correct, t.q, t.k)
	return nil
}

// correct returns what n correct devices leave of a view's step.
func (f *filter) correct(v *trial.View, n int) ([][]float64, error) {
	for k := len(f.h0[v]); k < n; k++ {
		next, err := v.Perturbed(&trial.Fault{Row: &table.Row{}}, trial.Everywhere, uint64(k+1))
		if err != nil {
			return nil, err
		}
		f.h0[v] = append(f.h0[v], f.units(v, next.Data, v.Next.Data))
	}
	return f.h0[v][:n], nil
}

// sparse reports whether a signature lies in a few places, such as those of
// roundings that fall otherwise: there any correct device may have what the
// fault has, and an amplitude has no normal scatter.
func (f *filter) sparse(t *Tried) bool {
	var squares, fourth float64
	blocks := make([]float64, 16*t.v.X.N()) // of all channels, which share such places
	for i, v := range t.q {
		plane := int(f.cluster[i]) / cells
		blocks[plane/t.v.X.C()*cells+int(f.cluster[i])%cells] += float64(v * v)
	}
	for _, b := range blocks {
		squares += b
		fourth += float64(b * b)
	}
	const fewest = 8 // blocks of equal size
	return float64(squares*squares) < fewest*fourth
}

// wholly is the share of a residual that is next to all of it.
const wholly = 0.9

// Has reports whether a step shows a fault that was named at a later one: its signature, with the amplitude that it has
// there. Its name is known, so that it may be too small for one here, or shown by few numbers, many times each: as many
// deviations as it takes to doubt a fault, of which it leaves next to nothing.
func (e *Matcher) Has(s *Step, was *Tried) (bool, error) {
	f := newFilter(e, s)
	if ok, err := f.open(); !ok || err != nil {
		return false, err
	}
	v := f.exact
	if was.Near {
		v = f.near
	}
	t, err := f.try(was.H, was.Scope, v, math.Inf(1))
	if t == nil || err != nil {
		return false, err
	}
	m := &t.Match
	if math.Abs(m.C-was.Match.C) > amplitudeTol*math.Abs(was.Match.C) {
		return false, nil
	}
	shown := math.Abs(m.T) > measure.LeastT || m.Gain > wholly && measure.RMS(t.q) > measure.LeastT/2
	return shown && f.steady(t) && !f.sparse(t), nil
}
