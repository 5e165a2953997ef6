package match

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// Tried is a hypothesis that was held against the residual.
type Tried struct {
	H     *trial.Fault
	Scope trial.Scope
	v     *trial.View
	Match measure.Match
	q     []float64
	fits  bool
	k     float64 // the amplitude that q has: 1, or that of a family
	Near  bool    // v is the emulation
	prior int     // the place of the hypothesis in the library
	since int     // the first of the steps that say so together, 0 for this one
	whole int     // the first of the steps whose amplitudes were taken together, 0 for none
}

// units returns (a-b)/s for states of a view.
func (f *filter) units(v *trial.View, a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range r {
		r[i] = a[i] - b[i]
	}
	if f.levels {
		measure.LevelOut(f.e.Case.Rollout, r, f.exact.Next.Data[v.Lo:v.Lo+len(r)], f.size[v.Lo:v.Lo+len(r)], v.X.N(), false)
	}
	for i := range r {
		r[i] /= f.size[v.Lo+i]
	}
	return r
}

// residual returns (got-x)/s for states x of a view.
func (f *filter) residual(v *trial.View, x *tensor.Tensor) []float64 {
	return f.units(v, f.got[v.Lo:v.Lo+len(x.Data)], x.Data)
}

// held holds a signature against the residual that x leaves. Pixels that have the same
// surroundings round alike, in whatever clusters they lie: of those there are as many
// fewer. A signature that is a few numbers, many times each, is a few roundings, and so is
// a residual: that they are the same ones says little, however well they agree. From n of
// them t is at most their root.
func (f *filter) held(v *trial.View, x *tensor.Tensor, q []float64) measure.Match {
	m := measure.Hold(f.residual(v, x), q, f.cluster[v.Lo:v.Lo+len(q)], f.of)
	if f.alike > 1 {
		m.Sigma *= math.Sqrt(f.alike)
		m.T /= math.Sqrt(f.alike)
	}
	if f.s.Alike > 1 && m.QQ > 0 {
		if least := math.Abs(m.C) * math.Sqrt(f.s.Alike/taking(q)); least > m.Sigma {
			m.Sigma, m.T = least, m.C/least
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

// try holds a hypothesis against the residual; nil if it changes nothing, or
// cannot have made this residual.
func (f *filter) try(h *trial.Fault, s trial.Scope, v *trial.View, far float64) (*Tried, error) {
	low := far
	if s < 0 {
		low *= far
	}
	next, err := v.Run(h, s, func(now, was *tensor.Tensor) bool {
		// A fault changes the operator's output by about as much as the output
		// of the node where it is; that of the first of many may be a small part.
		if math.IsInf(far, 1) { // any change will do
			return true
		}
		local := measure.RelativeChange(now, was)
		return !(local > far*f.change) && !(f.strong && local*low < f.change)
	})
	if next == nil || err != nil {
		return nil, err
	}
	q := f.units(v, next.Data, v.Next.Data)
	for _, u := range q {
		if !measure.Finite(u) {
			return nil, nil
		}
	}
	t := &Tried{H: h, Scope: s, v: v, q: q, k: 1, Near: v == f.near, prior: h.Prior, Match: f.held(v, v.Next, q)}
	if f.levels && !h.Family {
		t.Match.After = measure.RMS(f.residual(v, next))
	}
	if h.Family && math.Abs(t.Match.T) > measure.LeastT && t.Match.C != 0 {
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
func (f *filter) tune(t *Tried) error {
	one, c := slices.Clone(t.q), t.Match.C
	for range 10 {
		v := *t.v
		v.Amplitude = c
		next, err := v.Run(t.H, t.Scope, nil)
		if next == nil || err != nil {
			return err
		}
		rest := f.held(t.v, next, one)
		q := f.units(t.v, next.Data, t.v.Next.Data)
		t.q, t.k = q, c
		t.Match.Tuned(c, rest, measure.Dot(q, q))
		if math.Abs(rest.C) < 0.2*rest.Sigma {
			break
		}
		for i, u := range q { // the slope there
			one[i] = u / c
		}
		c += rest.C
	}
	return nil
}

// views returns those in which a hypothesis is held against the residual, the
// sharper one first.
func (f *filter) views(h *trial.Fault) []*trial.View {
	switch {
	case f.near == nil:
		return []*trial.View{f.exact}
	case f.near.Device.Mode.Precision == fp16.TF32:
		return []*trial.View{f.near}
	case h.Advance != nil && f.near.Fused && !h.Rounding:
		return []*trial.View{f.exact}
	case h.Rounding || f.s.Limit < 0.5 && !f.large:
		return []*trial.View{f.near} // sharp enough
	}
	return []*trial.View{f.near, f.exact}
}

// keep notes what was tried. A signature is needed only where it was found.
func (f *filter) keep(t *Tried) {
	if !t.fits {
		t.q = nil
	}
	f.tried = append(f.tried, *t)
}

// limit returns the residual that correct devices have at most in a view.
func (f *filter) limit(v *trial.View) float64 {
	if v != f.near && f.near != nil {
		return max(1.3, f.s.Limit)
	}
	return f.s.Limit
}

// conforms reports whether what a hypothesis leaves of the residual is what a
// correct device could leave.
func (f *filter) conforms(t *Tried) bool { return t.Match.After <= f.limit(t.v) }
