package oracle

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// tried is a hypothesis that was held against the residual.
type tried struct {
	h     *hypothesis
	scope scope
	v     *view
	match match
	q     []float64
	fits  bool
	k     float64 // the amplitude that q has: 1, or that of a family
	near  bool    // v is the emulation
	prior int     // the place of the hypothesis in the library
	since int     // the first of the steps that say so together, 0 for this one
	whole int     // the first of the steps whose amplitudes were taken together, 0 for none
}

// units returns (a-b)/s for states of a view.
func (f *filter) units(v *view, a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range r {
		r[i] = a[i] - b[i]
	}
	if f.levels {
		levelOut(f.e.c.Rollout, r, f.exact.next.Data[v.lo:v.lo+len(r)], f.size[v.lo:v.lo+len(r)], v.x.N())
	}
	for i := range r {
		r[i] /= f.size[v.lo+i]
	}
	return r
}

// residual returns (got-x)/s for states x of a view.
func (f *filter) residual(v *view, x *tensor.Tensor) []float64 {
	return f.units(v, f.got[v.lo:v.lo+len(x.Data)], x.Data)
}

// held holds a signature against the residual that x leaves. Pixels that have the same
// surroundings round alike, in whatever clusters they lie: of those there are as many
// fewer. A signature that is a few numbers, many times each, is a few roundings, and so is
// a residual: that they are the same ones says little, however well they agree. From n of
// them t is at most their root.
func (f *filter) held(v *view, x *tensor.Tensor, q []float64) match {
	m := held(f.residual(v, x), q, f.cluster[v.lo:v.lo+len(q)], f.of)
	if f.alike > 1 {
		m.sigma *= math.Sqrt(f.alike)
		m.t /= math.Sqrt(f.alike)
	}
	if f.s.Alike > 1 && m.qq > 0 {
		if least := math.Abs(m.c) * math.Sqrt(f.s.Alike/taking(q)); least > m.sigma {
			m.sigma, m.t = least, m.c/least
		}
	}
	return m
}

// taking returns how many elements take part in q: their number where all are of one
// size.
func taking(q []float64) float64 {
	var squares, fourths float64
	for _, v := range q {
		v *= v
		squares += v
		fourths += float64(v * v)
	}
	return squares * squares / fourths
}

// step returns the states after a step with a fault, or, if the filter is of one
// node, that node's output.
func (f *filter) step(v *view, h *hypothesis, s scope, local func(now, was *tensor.Tensor) bool) (*tensor.Tensor, error) {
	if f.node < 0 {
		return v.step(h, s, local)
	}
	y, err := v.local(h, f.node)
	if y == nil || err != nil || local != nil && !local(y, v.of[f.node]) {
		return nil, err
	}
	return y, nil
}

// try holds a hypothesis against the residual; nil if it changes nothing, or
// cannot have made this residual.
func (f *filter) try(h *hypothesis, s scope, v *view, far float64) (*tried, error) {
	low := far
	if s < 0 {
		low *= far
	}
	next, err := f.step(v, h, s, func(now, was *tensor.Tensor) bool {
		// A fault changes the operator's output by about as much as the output
		// of the node where it is; that of the first of many may be a small part.
		local := relativeChange(now, was)
		return !(local > far*f.change) && !(f.strong && local*low < f.change)
	})
	if next == nil || err != nil {
		return nil, err
	}
	q := f.units(v, next.Data, v.next.Data)
	for _, u := range q {
		if !finite(u) {
			return nil, nil
		}
	}
	t := &tried{h: h, scope: s, v: v, q: q, k: 1, near: v == f.near, prior: h.prior, match: f.held(v, v.next, q)}
	if f.levels && !h.family {
		t.match.after = rootMean(f.residual(v, next))
	}
	if h.family && math.Abs(t.match.t) > leastT && t.match.c != 0 {
		return t, f.tune(t)
	}
	return t, nil
}

// tune finds the amplitude of a family of faults, which need not be linear, and
// takes the signature of that amplitude.
//
// Where the effect is linear, t^2 = (c/sigma)^2 is by how much the squared residual
// is less with the fault than without it, in units of sigma^2 <q,q>. Around an
// emulation it need not be: the fault turns roundings, each by a whole unit, and those
// that it turns in vain are no evidence for it. So t is that of what is really less,
// and 0 where the device is nearer to the claim than to the fault.
func (f *filter) tune(t *tried) error {
	one, c := slices.Clone(t.q), t.match.c
	for range 10 {
		v := *t.v
		v.k = c
		next, err := f.step(&v, t.h, t.scope, nil)
		if next == nil || err != nil {
			return err
		}
		rest := f.held(t.v, next, one)
		q := f.units(t.v, next.Data, t.v.next.Data)
		t.q, t.k = q, c
		t.match.tuned(c, rest, dot(q, q))
		if math.Abs(rest.c) < 0.2*rest.sigma {
			break
		}
		for i, u := range q { // the slope there
			one[i] = u / c
		}
		c += rest.c
	}
	return nil
}

// tuned makes the match that of amplitude c of a family, which leaves rest; qq is
// <q,q> of the signature of that amplitude.
func (m *match) tuned(c float64, rest match, qq float64) {
	m.c, m.sigma, m.after = c, rest.sigma, math.Sqrt(rest.rr/float64(rest.n))
	m.gain = 1 - rest.rr/m.rr
	m.shown = 0
	if less := m.rr - rest.rr; less > 0 && qq > 0 {
		m.shown = min(1, math.Sqrt(less/qq))
	}
	m.t = m.shown * c / rest.sigma
}

// views returns those in which a hypothesis is held against the residual, the
// sharper one first.
func (f *filter) views(h *hypothesis) []*view {
	switch {
	case f.near == nil:
		return []*view{f.exact}
	case f.near.d.Mode.Precision == fp16.TF32:
		return []*view{f.near}
	case h.advance != nil && f.near.fused && !h.rounding:
		return []*view{f.exact}
	case h.rounding || f.s.Limit < 0.5 && !f.large:
		return []*view{f.near} // sharp enough
	}
	return []*view{f.near, f.exact}
}

// keep notes what was tried. A signature is needed only where it was found.
func (f *filter) keep(t *tried) {
	if !t.fits {
		t.q = nil
	}
	f.tried = append(f.tried, *t)
}

// limit returns the residual that correct devices have at most in a view.
func (f *filter) limit(v *view) float64 {
	if v != f.near && f.near != nil {
		return max(1.3, f.s.Limit)
	}
	return f.s.Limit
}

// conforms reports whether what a hypothesis leaves of the residual is what a
// correct device could leave.
func (f *filter) conforms(t *tried) bool { return t.match.after <= f.limit(t.v) }
