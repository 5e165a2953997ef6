package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// stepFigures are what is kept of a step.
type stepFigures struct {
	batch, lo, step int
	count           float64
	alike, of       float64   // see measured
	maxAbs, sumAbs  float64   // of Got - truth
	sumZ            float64   // of its square over s^2
	live            []float64 // numbers of each plane that a clamp does not hold
	peaks           []float64 // the largest of its size over s, of each realization
	shares          []float64 // of their limits, see stepGate.shares
	common          []float64 // what sums of a normalization add to cuts.Lines, see stepGate.common
	cuts            *measure.Cuts
	fields          *diff.Fields // of Got against truth
	by              *spreads     // the limits of many devices by which it is right; nil if few say so
	wrong           int          // numbers that are not finite where they should be, or the reverse
	wrongAt         int
}

// figures sums a step up.
func (m *measured) figures() *stepFigures {
	f := &stepFigures{batch: m.Batch, lo: m.Lo, step: m.Step, alike: m.alike, of: m.of, cuts: m.cuts,
		wrong: len(m.wrong), peaks: make([]float64, m.X.N())}
	if f.wrong > 0 {
		f.wrongAt = m.wrong[0]
	}
	per, hw := len(m.r)/m.X.N(), m.X.H()*m.X.W()
	f.fields = diff.NewFields(1, m.X.C())
	for lo := 0; lo < len(m.Got); lo += per {
		f.fields.AddState(0, m.Got[lo:lo+per], m.truth[lo:lo+per])
	}
	f.live = make([]float64, len(m.r)/hw)
	for i, r := range m.r {
		if r != r {
			continue
		}
		if !m.held(i) {
			f.live[i/hw]++
		}
		d := math.Abs(m.Got[i] - m.truth[i])
		z := d / m.s[i]
		f.count++
		f.sumAbs += d
		f.sumZ += float64(z * z)
		f.maxAbs = max(f.maxAbs, d)
		f.peaks[i/per] = max(f.peaks[i/per], z)
	}
	return f
}

// peak is the largest of all realizations.
func (f *stepFigures) peak() float64 { return slices.Max(f.peaks) }

// stepFault is a statistic of a step, or of the run, beyond its limit.
type stepFault struct {
	kind   measure.SliceKind
	index  int
	gate   string
	slice  string  // whose statistic it is
	home   string  // the slice in which the fault lies
	value  float64 // a root mean square or a mean
	limit  float64
	excess float64
	at     int  // element, where the slice is small; otherwise -1
	lone   bool // it is wrong by itself, see stepGate.lone
	line   bool // it is all numbers' together, see stepGate.linear
}

// judge returns the worst statistic of a step over its limit, nil if none is
// beyond it.
func (h *spreads) judge(f *stepFigures) *stepFault {
	if f.by != nil {
		by := *f.by
		by.strict, h = h.strict, &by
	}
	return h.at(f.alike, f.of).hold(f)
}

// hold is judge with the limits as they are.
func (h *spreads) hold(f *stepFigures) *stepFault {
	var worst *stepFault
	see := func(x *stepFault) {
		if x.excess > 1 && (worst == nil || x.excess > worst.excess) {
			worst = x
		}
	}
	for k := range measure.InWindow {
		t := &f.cuts.Of[k]
		for i, n := range t.Count {
			if n == 0 {
				continue
			}
			q, limit := t.Mean(i),
				max(h.limit(k, n), h.ownLimit(f.cuts, k, i, func(t *measure.Tally) float64 { return t.Mean(i) }))
			if h.scattered(k) && min(t.Excess(i), f.cuts.Of[measure.InAll].Excess(0)) <= 0 {
				limit = max(limit, unrelated)
			}
			if most, ok := h.strict[stepOf{f.batch, f.step}]; ok && k == measure.InAll {
				limit = min(limit, most)
			}
			see(&stepFault{kind: k, index: i, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit),
				excess: math.Sqrt(q / limit), at: -1})
			g, limit := t.Excess(i),
				max(h.gainLimit(k, n), h.ownLimit(f.cuts, k, i, func(t *measure.Tally) float64 { return t.Excess(i) }))
			see(&stepFault{kind: k, index: i, gate: "accuracy", value: g, limit: limit, excess: g / limit, at: -1})
		}
	}
	for k := measure.InWindow; k < measure.Kinds; k++ {
		for i, q := range f.cuts.Most[k] {
			limit := h.limit(k, f.cuts.Size(k))
			see(&stepFault{kind: k, index: i, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit),
				excess: math.Sqrt(q / limit), at: f.cuts.At[k][i]})
		}
	}
	if worst != nil {
		worst.slice = f.cuts.Name(worst.kind, worst.index)
		if worst.at >= 0 {
			worst.slice = f.cuts.Place(worst.kind, worst.at, f.lo)
		}
		worst.home = f.cuts.Home(f.lo)
		if worst.home == "" && f.cuts.Of[measure.InAll].Mean(0) <= h.limit(measure.InAll, f.count) {
			worst.home = worst.slice
		}
	}
	return worst
}

// Where an operator makes much of single roundings, right devices of one contract are nearly as far from each other as
// those of two, which have nothing in common but that they are right: the mean square of the difference of two errors
// is the sum of theirs, 2. One that is no less accurate than the claim, in a slice or in all, is right up to that, and
// a quarter of it for how well the scale is known.
const (
	nearlyApart = 0.5
	unrelated   = 2.5
)

// scattered reports whether right devices of a coarse claim are so far from its emulation.
func (h *spreads) scattered(k measure.SliceKind) bool {
	return !h.fine && h.squares[k].mean() > nearlyApart
}

// judgeRun holds the means over all steps against what independent steps of correct devices
// have: variances are those of a step over the number of steps, limits as in limit and
// gainLimit, and a few roundings may fall otherwise in two of the steps. It returns the first step of
// what is beyond. Steps whose pixels are alike count where all are.
func (h *spreads) judgeRun(all []*stepFigures) (*stepFault, int) {
	if vary := slices.DeleteFunc(slices.Clone(all), func(f *stepFigures) bool { return f.of < wellKnown }); len(vary) > 0 {
		all = vary
	}
	h = h.at(1, all[0].of)
	var q, g, steps, few float64
	for _, f := range all {
		few = max(few, h.at(f.alike, f.of).few(measure.InAll, f.count))
		if c := &f.cuts.Of[measure.InAll]; c.Count[0] > 0 {
			q, g, steps = q+c.Mean(0), g+c.Excess(0), steps+1
		}
	}
	if steps < 2 {
		return nil, 0
	}
	q, g = q/steps, g/steps
	m := h.squares[measure.InAll].upper()
	v := h.stepVariance()
	limit := chernoff(m, 1.5*v/steps+float64(m*m)*1e-3)
	limit = max(limit, 2*few/steps)
	if q > limit {
		start := onset(all, (q+h.squares[measure.InAll].mean())/2, func(c *measure.Tally) float64 { return c.Mean(0) })
		return &stepFault{kind: measure.InAll, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit),
			excess: math.Sqrt(q / limit), at: -1}, start
	}
	limit = max(h.gained(measure.InAll)+8*math.Sqrt(1.5*h.gainVariance()/steps)+0.02*m, 2*few/steps)
	if g > limit {
		start := onset(all, g/2, func(c *measure.Tally) float64 { return c.Excess(0) })
		return &stepFault{kind: measure.InAll, gate: "accuracy", value: g, limit: limit, excess: g / limit, at: -1}, start
	}
	return nil, 0
}

// onset returns the step from which on a statistic is above a level, the one
// that leaves most above it.
func onset(all []*stepFigures, level float64, of func(c *measure.Tally) float64) int {
	sum, most, at := 0.0, math.Inf(-1), all[0].step
	for i := len(all) - 1; i >= 0; i-- {
		if sum += of(&all[i].cuts.Of[measure.InAll]) - level; sum > most {
			most, at = sum, all[i].step
		}
	}
	return at
}

// earlier returns the first step that shows the fault of a later one in the
// same statistic, if weaker: nearly as much as the faulty steps do, and much
// more than the step that shows least.
func (h *spreads) earlier(all []*stepFigures, bad *verdictOn) *stepFigures {
	value := func(f *stepFigures) float64 {
		switch {
		case bad.kind >= measure.InWindow:
			q, _ := greatest(f.cuts.Most[bad.kind])
			return q
		case bad.gate == "accuracy":
			return f.cuts.Of[bad.kind].Excess(min(bad.index, len(f.cuts.Of[bad.kind].Count)-1))
		}
		return f.cuts.Of[bad.kind].Mean(min(bad.index, len(f.cuts.Of[bad.kind].Count)-1))
	}
	least, faulty := math.Inf(1), []float64{}
	at := -1
	for i, f := range all {
		v := max(value(f), 0)
		least = min(least, v)
		if f == bad.figures {
			at = i
		}
		if at >= 0 && h.judge(f) != nil {
			faulty = append(faulty, v)
		}
	}
	if at < 0 || len(faulty) < 2 {
		return bad.figures // a fault of one step
	}
	slices.Sort(faulty)
	level := faulty[len(faulty)/2]
	for at > 0 && value(all[at-1]) > max(level/2, 4*least) {
		at--
	}
	return all[at]
}

// greatest returns the greatest number of a list and its index.
func greatest(v []float64) (float64, int) {
	most, at := math.Inf(-1), -1
	for i, x := range v {
		if x > most {
			most, at = x, i
		}
	}
	return most, at
}
