package tape

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
)

// numbers gathers what one draw of every step says, of continuous numbers.
type numbers struct {
	kind    noise.Kind
	c, h, w int // of a realization
	grain   float64
	law     *law
	units
	every int // of the numbers of a realization the sign of one is kept
	*copies
	*values

	all                          sample
	realizations, steps, channel []sample
	wholes, planes               []part   // the least likely realization of each step, and channel of one
	near                         []beside // of each step, and last of all that are new
}

// part is a part of a step, and how unlikely it is by itself.
type part struct {
	nats    float64
	m, c    int
	numbers sample
}

// mostSigns are kept of a draw.
const mostSigns = 1 << 22

func newNumbers(kind noise.Kind, u units, c, h, w int, grain float64) *numbers {
	one, total := c*h*w, float64(c*h*w)*float64(u.m*u.t)
	return &numbers{kind: kind, c: c, h: h, w: w, grain: grain, law: newLaw(kind), units: u,
		every:  max(1, min(one/64, int(math.Ceil(total/mostSigns)))),
		copies: newCopies(total, grain), values: newValues(total, grain),
		realizations: make([]sample, u.m), steps: make([]sample, u.t), channel: make([]sample, c),
		wholes: make([]part, u.t), planes: make([]part, u.t), near: make([]beside, u.t+1)}
}

// add takes the draw of one step of a realization. Complex numbers are two of half the variance.
func (n *numbers) add(at place, v []float64) {
	if n.kind == noise.ComplexNormal {
		for i := range v {
			v[i] *= math.Sqrt2
		}
	}
	isNew := n.isNew(at)
	n.copies.add(at, v)
	if isNew {
		n.values.add(v)
	}
	sign := n.signsOf(v)
	var kept []int8
	for i := 0; i < len(sign); i += n.every {
		kept = append(kept, sign[i])
	}
	*n.of(at) = kept
	beside := neighbours(sign, n.c, n.h, n.w)
	n.near[at.t-1].join(beside)
	if isNew {
		n.near[n.t].join(beside)
	}
	var whole sample
	plane := n.h * n.w
	for c := range n.c {
		var s sample
		s.add(n.law, v[c*plane:(c+1)*plane])
		n.note(&n.planes[at.t-1], at, c, &s)
		if isNew {
			n.channel[c].join(&s)
		}
		whole.join(&s)
	}
	n.note(&n.wholes[at.t-1], at, 0, &whole)
	n.realizations[at.m].join(&whole)
	n.steps[at.t-1].join(&whole)
	if isNew {
		n.all.join(&whole)
	}
}

func (n *numbers) note(p *part, at place, c int, s *sample) {
	if nats := s.unlikely(n.law, n.grain); nats > p.nats {
		*p = part{nats, at.m, c, *s}
	}
}

// signsOf says which numbers are above the law's median.
func (n *numbers) signsOf(v []float64) []int8 {
	median := 0.0
	if n.law.positive {
		median = math.Ln2
	}
	y := make([]int8, len(v))
	for i, x := range v {
		switch {
		case x > median:
			y[i] = 1
		case x < median:
			y[i] = -1
		}
	}
	return y
}

// fair are the signs of numbers.
func (n *numbers) fair() signs { return signs{rarer: -1, p: 0.5, slack: n.grain} }

// judge returns the first of these that is not as it should be: the law of a part of one step,
// numbers that come again, the law of all, few values, and what goes with others. Numbers that
// come again are of the law in each part, and not in all; and those of few values come again,
// here and there.
func (n *numbers) judge() *suspicion {
	different, few := n.values.unlikely()
	law, part := n.unlawful()
	switch {
	case part:
		return law
	case n.again > 0 && n.linked > n.again/2:
		return n.comeAgain()
	case law != nil:
		return law
	case few > certain || n.again > 0:
		return &suspicion{"noise.draws-of-few-values", fmt.Sprintf("of %d recorded draws only %d are different: "+
			"they have too few bits, or come again", len(n.values.some), different), max(1, few/certain), -1, -1}
	}
	c, limit := n.units.together(n.fair())
	if c.nats > limit {
		return c.suspicion(limit, fmt.Sprintf("the recorded draws of %s have %.3g %% of their signs in common, "+
			"where half is chance", c.lag, 100*c.agree))
	}
	return n.correlated()
}

// unlawful returns the largest part of the draws that is not of the law, or a smaller one that
// is one number, with the first step that shows it; and whether one channel of one step is not
// of the law, either.
func (n *numbers) unlawful() (found *suspicion, part bool) {
	tests := lawTests * (1 + n.m + n.t + n.c + n.m*n.t*(n.c+1))
	limit := certain + elem.Log(float64(tests))
	look := func(s *sample, step, m int, where string) {
		nats := s.unlikely(n.law, n.grain)
		if nats <= limit {
			return
		}
		if id, what := s.cause(n.law); found == nil || found.id == another && s.least == s.most {
			found = &suspicion{id, fmt.Sprintf("the recorded draws%s %s", where, what), nats / limit, step, m}
		}
	}
	look(&n.all, -1, -1, "")
	for m := range n.realizations {
		look(&n.realizations[m], -1, m, fmt.Sprintf(" of realization %d", m))
	}
	for c := range n.channel {
		look(&n.channel[c], -1, -1, fmt.Sprintf(" of channel %d", c))
	}
	for t := range n.t {
		look(&n.steps[t], t+1, -1, fmt.Sprintf(" of step %d", t+1))
		look(&n.wholes[t].numbers, t+1, n.wholes[t].m, fmt.Sprintf(" of step %d, realization %d", t+1, n.wholes[t].m))
		p := &n.planes[t]
		look(&p.numbers, t+1, p.m, fmt.Sprintf(" of step %d, realization %d, channel %d", t+1, p.m, p.c))
	}
	for t := n.t - 1; t >= 0; t-- {
		if n.steps[t].unlikely(n.law, n.grain) > limit || n.wholes[t].nats > limit || n.planes[t].nats > limit {
			part, found.step = part || n.planes[t].nats > limit, t+1
		}
	}
	return found, part
}

// comeAgain says which draws are those of another place.
func (n *numbers) comeAgain() *suspicion {
	c := n.copies
	share := c.again / c.looked
	all := func(n int) bool { return share > 0.9*float64(n-1)/float64(n) } // all but those of one of n
	at, of := c.first, c.original
	id := lag{at.m - of.m, at.t - of.t}.id(at.t != of.t && all(n.t) || at.t == of.t && all(n.m))
	switch {
	case at.t == of.t && at.m == of.m && all(n.c):
		id = "noise.all-channels-share-their-noise"
	case at.t == of.t && at.m == of.m:
		id = "noise.draws-repeat"
	case at.t == of.t && at.lo != of.lo && at.m-at.lo == of.m-of.lo:
		id = "noise.every-engine-batch-has-the-same-noise"
	}
	text := fmt.Sprintf("the recorded draws of step %d, realization %d, from number %d on are those of step "+
		"%d, realization %d, from number %d on, up to their signs; %.3g %% of all draws come again", at.t, at.m, at.at,
		of.t, of.m, of.at, 100*share)
	return &suspicion{id, text, max(1, c.again), at.t, at.m}
}
