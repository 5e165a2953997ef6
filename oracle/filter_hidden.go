package oracle

import (
	"math"
)

// pool collects over the steps of a check what they say about the faults that
// are looked for in each.
type pool struct {
	of       map[poolKey]*pooled
	steps    int   // that were looked at
	searched bool  // a wrong step
	work     int64 // multiplications with weights so far
}

type poolKey struct {
	prior int
	near  bool
}

type pooled struct{ rq, qq, variance float64 }

// add adds a match of a step, and returns amplitude and standard deviation over
// all steps so far: the amplitudes of steps weigh as their <q,q>.
func (p *pooled) add(m match) (c, sigma float64) {
	p.rq += m.rq
	p.qq += m.qq
	p.variance += float64(m.qq*m.sigma) * float64(m.qq*m.sigma)
	return p.rq / p.qq, math.Sqrt(p.variance) / p.qq
}

// certify looks for the faults that may hide below the rounding errors, and
// says which of them could not have been seen.
func (f *filter) certify() error {
	var blind []Blind
	for _, h := range library() {
		if !h.small {
			continue
		}
		least, fits, none := math.Inf(1), false, true
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
			none = false
			if f.near == nil && h.rounding && rootMean(t.q) < 1e-3 {
				none = true // none that could matter
				continue
			}
			if !h.rounding {
				if t.fits, err = f.hidden(t); err != nil {
					return err
				}
			}
			f.keep(t)
			least, fits = min(least, leastT*f.right(t)), fits || t.fits
		}
		if least > 1 && !fits && !none {
			blind = append(blind, Blind{Name: h.name, Least: Number(least), Probe: h.probe})
		}
	}
	if f.e.r.Blind == nil {
		f.e.r.Blind = blind
	}
	return nil
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
		right = math.Abs(m.c) > leastFamily
	}
	return math.Abs(m.t) > leastT && right &&
		float64(m.n)*f.limit(t.v)*f.limit(t.v) < m.qq*leastSize*leastSize
}

// steady reports whether parts of the data agree with the amplitude: three
// sets of planes. What correlates by accident does so in some of them.
func (f *filter) steady(t *tried) bool {
	r := f.residual(t.v, t.v.next)
	var rq, qq [3]float64
	for i, v := range r {
		k := f.cluster[t.v.lo+i] / 16 % 3
		rq[k] += float64(v * t.q[i])
		qq[k] += float64(t.q[i] * t.q[i])
	}
	want := 1.0
	for k := range rq {
		if qq[k] < 0.05*t.match.qq {
			continue
		}
		c := rq[k] / qq[k]
		sigma := t.match.sigma * math.Sqrt(t.match.qq/qq[k])
		if t.h.family {
			sigma /= math.Abs(t.match.c) // the signature has that amplitude already
		}
		if math.Abs(c-want) > amplitudeTol+float64(4*sigma) {
			return false
		}
	}
	return true
}

// hidden reports whether a fault is there that need not show otherwise. What it
// explains nearly all of is no accident; for less, the scatter of correct
// devices counts, and all steps so far.
func (f *filter) hidden(t *tried) (bool, error) {
	if f.named(t) && t.match.gain > 0.9 {
		return f.steady(t) && f.conforms(t), nil
	}
	if math.Abs(t.match.t) > leastT/2 && !f.wrong() {
		if err := f.spread(t); err != nil {
			return false, err
		}
	}
	if !f.wrong() && !t.h.family {
		key := poolKey{t.h.prior, t.v == f.near}
		p := f.e.pool.of[key]
		if p == nil {
			p = &pooled{}
			f.e.pool.of[key] = p
		}
		t.match.c, t.match.sigma = p.add(t.match)
		t.match.t = t.match.c / t.match.sigma
	}
	return f.named(t) && f.steady(t) && f.conforms(t), nil
}

// spread widens the standard deviation of an amplitude to that which it has in
// correct devices.
func (f *filter) spread(t *tried) error {
	if f.h0[t.v] == nil {
		for k := range 6 {
			next, err := t.v.perturbed(&hypothesis{}, everywhere, uint64(k+1))
			if err != nil {
				return err
			}
			f.h0[t.v] = append(f.h0[t.v], f.units(t.v, next.Data, t.v.next.Data))
		}
	}
	t.match.spread(f.h0[t.v], t.q)
	return nil
}
