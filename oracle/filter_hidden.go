package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/report"
)

// certify looks for the faults that may hide below the rounding errors, and
// says which of them could not have been seen.
func (f *filter) certify() error {
	var blind []report.Blind
	all := library()
	for k, h := range all {
		if !h.small || h.many != "" && (f.near == nil || f.forward() > largeForward) {
			continue // a fine claim hides no such thing
		}
		if h.tf32 && f.exact.d.Mode.Precision == fp16.TF32 {
			continue
		}
		f.e.progress("hypotheses", k+1, len(all))
		if f.e.late(fmt.Sprintf("small faults that the budget did not reach at step %d", f.s.Step)) {
			break
		}
		if err := f.e.ctx.Err(); err != nil {
			return err
		}
		var around match // the emulation
		for _, v := range f.views(h) {
			t, err := f.try(h, everywhere, v, math.Inf(1))
			if err != nil {
				return err
			}
			if t == nil || t.match.qq == 0 {
				if v == f.near {
					break // the claim itself does that
				}
				continue
			}
			if v == f.near {
				around = t.match
			}
			if f.near == nil && h.rounding && rootMean(t.q) < 1e-3 {
				continue // none that could matter
			}
			p := f.e.pool.at(h, v == f.near)
			if err := f.scatter(t); err != nil {
				return err
			}
			s := f.right(t)
			p.information += 1 / float64(s*s)
			if !h.rounding || f.near == nil || v.d.Mode.Precision == fp16.TF32 { // no device of a fine claim rounds so
				if t.fits, err = f.hidden(t, p); err != nil {
					return err
				}
				if v == f.exact && f.near != nil && around.qq == 0 { // a policy that no contract describes
					around = f.held(v, f.near.next, t.q)
					around.c, around.sigma = t.k*around.c, math.Abs(t.k)*around.sigma
					if !f.wrong() {
						f.e.pool.at(h, true).add(f.s.Step, &around)
					}
				}
				if m := f.e.pool.at(h, true).from(t.whole); t.whole > 0 && m.qq > 0 {
					around = m // of the same steps
				}
				t.fits = t.fits && (v == f.near || !around.of(t).refutes())
			}
			p.found = p.found || t.fits
			f.keep(t)
		}
		if h.on() && h.probe == "" && (h.needs == "" || f.near != nil) {
			continue // not larger than the errors of correct devices anywhere
		}
		if least := f.e.pool.least(h); least > 1 {
			name := cmp.Or(h.many, h.name)
			if i := slices.IndexFunc(blind, func(b report.Blind) bool { return b.Name == name }); i >= 0 {
				blind[i].Least = max(blind[i].Least, diff.Number(least))
				continue
			}
			blind = append(blind, report.Blind{Name: name, Least: diff.Number(least), Probe: h.probe, Needs: h.needs})
		}
	}
	f.e.r.Blind = append(f.e.pool.blind, blind...)
	return nil
}

// refutes reports whether an amplitude around the emulation is far from 1. What
// roundings have by themselves, where numbers are nearly equal, may look like a
// fault from the exact step; the emulation has the same roundings. To doubt a fault
// takes less than to name one.
func (m *match) refutes() bool { return m.qq > 0 && m.c < 0.5 && 1-m.c > leastT/2*m.sigma }

// of returns m with its amplitude as a share of that of a family's t.
func (m match) of(t *tried) *match {
	if t.h.family {
		m.c, m.sigma = m.c/t.match.c, m.sigma/math.Abs(t.match.c)
	}
	return &m
}

// right returns the standard deviation of an amplitude in a step that is right:
// a wrong one has a residual that says nothing about that, and the residual of
// a device that happens to equal the emulation is not the scatter of all.
func (f *filter) right(t *tried) float64 {
	rest := rootMean(f.residual(t.v, t.v.next))
	least := f.limit(t.v) / 4 * math.Sqrt(float64(t.match.n)/t.match.qq)
	return max(least, t.match.sigma*min(1, f.limit(t.v)/rest))
}

// named reports whether the amplitude is that of the fault as it is known, and
// not by chance.
func (f *filter) named(t *tried) bool {
	m := &t.match
	right := math.Abs(m.c-1) < amplitudeTol
	if t.h.family { // a wrong rounding may scale by so little too
		right = math.Abs(m.c) > max(leastFamily, t.h.least)
	}
	return math.Abs(m.t) > leastT && right &&
		float64(m.n)*f.limit(t.v)*f.limit(t.v) < m.qq*leastSize*leastSize
}

// shrunk reports whether a fault explains most of a residual that roundings have
// made less of: those behind it fall otherwise, here and there, in the device and
// in the step with the fault, which takes from the amplitude and adds to what is left.
func (f *filter) shrunk(t *tried) bool {
	m := &t.match
	return t.v == f.near && !t.h.family && m.gain > 0.5 && m.t > leastT && m.c > 0.7 && m.c < 1
}

// steady reports whether parts of the data agree with the amplitude: three
// sets of planes. What correlates by accident does so in some of them.
func (f *filter) steady(t *tried) bool {
	r := f.residual(t.v, t.v.next)
	var rq, qq [3]float64
	for i, v := range r {
		k := f.cluster[t.v.lo+i] / cells % 3
		rq[k] += float64(v * t.q[i])
		qq[k] += float64(t.q[i] * t.q[i])
	}
	want, all := 1.0, dot(t.q, t.q)
	for k := range rq {
		if qq[k] < 0.05*all {
			continue
		}
		c := rq[k] / qq[k]
		sigma := t.match.sigma / math.Abs(t.k) * math.Sqrt(all/qq[k]) // of t.q
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
// Student's distribution: leastT is as rare as it should be only with many. Those are
// asked where the few leave a t that one step may bring into the sum of many.
func (f *filter) scatter(t *tried) error {
	if f.named(t) && t.match.gain > 0.9 || f.wrong() {
		return nil
	}
	plain := t.match
	if math.Abs(t.match.t) > leastT/math.Sqrt(2*mostCovered) {
		if err := f.spread(t, fewDevices); err != nil {
			return err
		}
	}
	if n := f.devices(); n > fewDevices && math.Abs(t.match.t) > leastT/2 {
		t.match = plain
		return f.spread(t, n)
	}
	return nil
}

const (
	fewDevices  = 6
	manyDevices = 64
)

// devices returns how many correct devices a signature is held against: many, or
// what a large operator leaves time for.
func (f *filter) devices() int {
	return int(max(fewDevices, min(manyDevices, mostDevices/max(f.forward(), 1))))
}

// mostDevices is how many multiplications with weights all of them take together.
const mostDevices = 2e10

// hidden reports whether a fault is there that need not show otherwise: by this
// step, or by it and those before.
func (f *filter) hidden(t *tried, p *pooled) (bool, error) {
	if f.sparse(t) {
		return false, nil
	}
	alone, m, wrong := *t, &t.match, f.wrong()
	if !wrong {
		p.add(f.s.Step, m)
		if !(f.named(t) && m.gain > 0.9) && !t.h.family {
			t.whole = p.together(m)
		}
	}
	if !(f.named(t) && f.steady(&alone) || f.shrunk(t)) || !f.conforms(t) {
		return false, nil
	}
	if c := m.rq / m.qq; !wrong && t.h.family {
		t.since = p.since(c)
	} else if !wrong {
		t.since = p.since(m.c)
	}
	return true, nil
}

// spread widens the standard deviation of an amplitude to that which it has in
// n correct devices.
func (f *filter) spread(t *tried, n int) error {
	correct, err := f.correct(t.v, n)
	if err != nil {
		return err
	}
	t.match.spread(correct, t.q, t.k)
	return nil
}

// correct returns what n correct devices leave of a view's step.
func (f *filter) correct(v *view, n int) ([][]float64, error) {
	for k := len(f.h0[v]); k < n; k++ {
		next, err := v.perturbed(&hypothesis{}, everywhere, uint64(k+1))
		if err != nil {
			return nil, err
		}
		f.h0[v] = append(f.h0[v], f.units(v, next.Data, v.next.Data))
	}
	return f.h0[v][:n], nil
}

// sparse reports whether a signature lies in a few places, such as those of
// roundings that fall otherwise: there any correct device may have what the
// fault has, and an amplitude has no normal scatter.
func (f *filter) sparse(t *tried) bool {
	var squares, fourth float64
	blocks := make([]float64, 16*t.v.x.N()) // of all channels, which share such places
	for i, v := range t.q {
		plane := int(f.cluster[i]) / cells
		blocks[plane/t.v.x.C()*cells+int(f.cluster[i])%cells] += float64(v * v)
	}
	for _, b := range blocks {
		squares += b
		fourth += float64(b * b)
	}
	const fewest = 8 // blocks of equal size
	return float64(squares*squares) < fewest*fourth
}

// has reports whether a step shows a fault that was found at a later one.
func (e *matcher) has(s *fullStep, was *tried) (bool, error) {
	f := &filter{e: e, s: s, node: -1, h0: map[*view][][]float64{}}
	if ok, err := f.open(); !ok || err != nil {
		return false, err
	}
	v := f.exact
	if was.near {
		v = f.near
	}
	t, err := f.try(was.h, was.scope, v, math.Inf(1))
	if t == nil || err != nil {
		return false, err
	}
	if was.h.family && math.Abs(t.match.c-was.match.c) > amplitudeTol*math.Abs(was.match.c) {
		return false, nil
	}
	return f.named(t) && f.steady(t) && !f.sparse(t), nil
}
