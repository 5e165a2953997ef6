package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/tensor"
)

// candidate is a pattern and how far the device is from it.
type candidate struct {
	emulate.Pattern
	re     float64 // rms of (Got - emulation)/s
	unlike float64 // see unlikeness
}

// distance returns how far the device is from a pattern in one step.
func (g *stepGate) distance(m *measured, p emulate.Pattern) (float64, error) {
	c, err := g.compare(m, p)
	return c.re, err
}

func (g *stepGate) compare(m *measured, p emulate.Pattern) (candidate, error) {
	ref, err := g.nearest(m, p)
	if err != nil {
		return candidate{}, err
	}
	r := g.against(m, m.Got, ref)
	return candidate{p, math.Sqrt(meanOf(r)), unlikeness(r)}, nil
}

// unlikeness is -ln of the likelihood of residuals, for each of them, if most
// numbers are the same and the others lie anywhere: by Cauchy's distribution, of
// the width same. A device is the same as its own pattern but where single sums
// were rounded the other way. Where an operator makes much of these, they are most
// of the mean square, and a pattern without the last roundings has a smaller one,
// as it is nowhere the same and nowhere far.
func unlikeness(r []float64) float64 {
	var sum, n float64
	for _, d := range r {
		if d == d {
			sum, n = sum+elem.Log1p(float64(d*d)/(same*same)), n+1
		}
	}
	return sum / max(n, 1)
}

// same is how near to an emulation numbers are, in expected deviations, that have
// the same roundings: a normalization of all of them leaves that much.
const same = 1. / 32

// meanOf returns the mean square of the numbers that are none of NaN.
func meanOf(r []float64) float64 {
	var sum, n float64
	for _, d := range r {
		if d == d {
			sum, n = sum+float64(d*d), n+1
		}
	}
	return sum / max(n, 1)
}

// nearest returns what a device of a pattern makes of the step; where it may
// form its share of the state in two ways, the one that is nearer to Got.
func (g *stepGate) nearest(m *measured, p emulate.Pattern) ([]float64, error) {
	if !p.Discrete() {
		return g.reference(m.BatchStep, p)
	}
	y, o, err := g.emulation(m.BatchStep, p)
	if p.Plain {
		y, o, err = g.settled(m, p)
	}
	if err != nil {
		return nil, err
	}
	return g.chosen(m, y, o, p), nil
}

// chosen returns the states y that follow from outputs o by a pattern, or, where it is twofold, the closest.
func (g *stepGate) chosen(m *measured, y, o *tensor.Tensor, p emulate.Pattern) []float64 {
	if g.twofold(p) {
		return g.closest(m.Got, y, m.X, o, p)
	}
	return y.Data
}

// search looks for the pattern that explains a step best, among the claim's
// neighbours and what is left of them without some points: the usual
// combinations first, then point by point. From afar the mean square leads to the
// device's pattern; from near, what is the same. near is the nearest in the mean
// square.
func (g *stepGate) search(m *measured) (best, near candidate, err error) {
	nodes, c := g.e.Machine.Nodes, g.e.Case.Rollout
	nothing := candidate{g.claim, math.Inf(1), math.Inf(1)}
	near = nothing
	alike := nothing
	seen, most := map[emulate.Pattern]bool{}, mostPatterns
	if g.e.Op.MACs(m.X.H(), m.X.W())*int64(m.X.N()) > evidence.LargeForward {
		most = fewPatterns
	}
	try := func(p emulate.Pattern) (candidate, error) {
		if seen[p] || len(seen) == most {
			return nothing, nil
		}
		seen[p] = true
		c, err := g.compare(m, p)
		if err != nil {
			return nothing, err
		}
		if c.re < 0.99*near.re {
			near = c
		}
		if c.unlike < 0.99*alike.unlike {
			alike = c
		}
		return c, nil
	}
	first := []emulate.Pattern{g.claim}
	if g.claim.Mode.Autocast == graph.CPU113 {
		p := g.claim
		p.Narrow = true
		first = append(first, p)
	}
	for _, p := range append(first, g.allowed(g.claim)...) {
		if _, err := try(p); err != nil {
			return nothing, nothing, err
		}
	}
	bases := []candidate{near}
	wide := nothing // the best one without a half type
	for _, n := range neighbours(g.claim.Mode) {
		before, like := near, alike
		p := emulate.Contract(nodes, c, n)
		at, err := try(p)
		if err != nil {
			return nothing, nothing, err
		}
		if !p.Half() && g.claim.Half() { // nearer than eager half modes, but is it near?
			near, alike = before, like
			if at.unlike < wide.unlike {
				wide = at
			}
			continue
		}
		if !slices.ContainsFunc(bases, func(b candidate) bool { return b.re == at.re }) { // another device on this operator
			bases = append(bases, at)
		}
	}
	if g.claim.Half() {
		for k, b := range bases {
			for _, f := range fused {
				p := b.Pattern
				p.Points &^= f
				c, err := try(p)
				if err != nil {
					return nothing, nothing, err
				}
				if c.unlike < 0.99*bases[k].unlike {
					bases[k] = c
				}
			}
		}
		for _, p := range slices.Concat(unrounded(g.claim, g.folds()), g.chained(), g.alone()) {
			if _, err := try(p); err != nil {
				return nothing, nothing, err
			}
		}
		for _, best := range []*candidate{&near, &alike} {
			if err := g.climb(best, try); err != nil {
				return nothing, nothing, err
			}
		}
		for k := range bases {
			if alike.re < stillFar { // it is found
				break
			}
			if err := g.climb(&bases[k], func(p emulate.Pattern) (candidate, error) {
				c, err := try(p)
				if err == nil && c.unlike < 0.99*bases[k].unlike {
					bases[k] = c
				}
				return c, err
			}); err != nil {
				return nothing, nothing, err
			}
		}
	}
	alike = alike.unlessFar(near)
	if g.claim.Mode.Precision == fp16.TF32 {
		best, err = g.mix(m, near)
		return best, near, err
	}
	if wide.unlike < 0.99*alike.unlike {
		return wide, near, nil
	}
	return alike, near, nil
}

// unlessFar returns the candidate that most numbers are the same as, or the nearest in the mean
// square, if that is much nearer: then the device is far from all that is the same. Where an
// operator makes much of single roundings, a device may be a third nearer to another pattern than
// to its own, of which more numbers are the same.
func (c candidate) unlessFar(near candidate) candidate {
	if c.re > 1.5*near.re {
		return near
	}
	return c
}

// How many patterns a search tries at the most, lest it finds one for anything.
const (
	mostPatterns = 300
	fewPatterns  = 120 // of an operator of which each takes long
)

// climb tries the best pattern, which try knows, with one point more or less, as
// long as that is better.
func (g *stepGate) climb(best *candidate, try func(emulate.Pattern) (candidate, error)) error {
	for range 4 {
		from := *best
		all := emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, best.Mode).Points
		if slices.ContainsFunc(g.e.Machine.Nodes,
			func(n operator.Node) bool { return n.Op == operator.OpConv && n.Bias != nil }) {
			all |= emulate.AtBias
		}
		for at := emulate.Points(1); at < emulate.AllPoints; at <<= 1 {
			p := best.Pattern
			if p.Points ^= at; at&all == 0 {
				continue
			}
			if _, err := try(p); err != nil {
				return err
			}
		}
		for _, p := range g.beside(best.Pattern) {
			if _, err := try(p); err != nil {
				return err
			}
		}
		if from == *best {
			break
		}
	}
	return nil
}
