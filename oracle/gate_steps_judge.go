package oracle

import (
	"fmt"
	"math"
	"slices"
)

// stepFigures are what is kept of a step.
type stepFigures struct {
	batch, lo, step int
	count           float64
	alike           float64 // see lookAlikes
	maxAbs, sumAbs  float64 // of Got - truth
	sumZ, peak      float64 // of its square over s^2, and the largest of its size over s
	cuts            *cuts
	wrong           int // numbers that are not finite where they should be, or the reverse
	wrongAt         int
}

// figures sums a step up.
func (m *measured) figures() *stepFigures {
	f := &stepFigures{batch: m.Batch, lo: m.Lo, step: m.Step, alike: m.alike, cuts: m.cuts, wrong: len(m.wrong)}
	if f.wrong > 0 {
		f.wrongAt = m.wrong[0]
	}
	for i, r := range m.r {
		if r != r {
			continue
		}
		d := math.Abs(m.Got[i] - m.truth[i])
		z := d / m.s[i]
		f.count++
		f.sumAbs += d
		f.sumZ += float64(z * z)
		f.maxAbs, f.peak = max(f.maxAbs, d), max(f.peak, z)
	}
	return f
}

// stepFault is a statistic of a step, or of the run, beyond its limit.
type stepFault struct {
	kind   sliceKind
	index  int
	gate   string
	slice  string  // whose statistic it is
	home   string  // the slice in which the fault lies
	value  float64 // a root mean square or a mean
	limit  float64
	excess float64
	at     int // element, where the slice is small; otherwise -1
}

// judge returns the worst statistic of a step over its limit, nil if none is
// beyond it.
func (h *spreads) judge(f *stepFigures) *stepFault {
	h = h.at(f.alike)
	var worst *stepFault
	see := func(x *stepFault) {
		if x.excess > 1 && (worst == nil || x.excess > worst.excess) {
			worst = x
		}
	}
	for k := range inWindow {
		t := &f.cuts.of[k]
		for i, n := range t.count {
			if n == 0 {
				continue
			}
			q, limit := t.mean(i), h.limit(k, n)
			see(&stepFault{kind: k, index: i, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit), excess: math.Sqrt(q / limit), at: -1})
			g, limit := t.excess(i), h.gainLimit(k, n)
			see(&stepFault{kind: k, index: i, gate: "accuracy", value: g, limit: limit, excess: g / limit, at: -1})
		}
	}
	for k := inWindow; k < kinds; k++ {
		for i, q := range f.cuts.most[k] {
			limit := h.limit(k, f.cuts.size(k))
			see(&stepFault{kind: k, index: i, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit), excess: math.Sqrt(q / limit), at: f.cuts.at[k][i]})
		}
	}
	if worst != nil {
		worst.slice = f.cuts.name(worst.kind, worst.index)
		if worst.at >= 0 {
			worst.slice = f.cuts.place(worst.kind, worst.at, f.lo)
		}
		worst.home = f.cuts.home(f.lo)
		if worst.home == "" && f.cuts.of[inAll].mean(0) <= h.limit(inAll, f.count) {
			worst.home = worst.slice
		}
	}
	return worst
}

// size returns the numbers of a window, a spot or a peak.
func (s *cuts) size(k sliceKind) float64 {
	side := map[sliceKind]int{inWindow: 8, inSpot: 3, inPeak: 1}[k]
	side = min(side, s.h, s.w)
	if k == inWindow {
		return float64(side * side * s.c)
	}
	return float64(side * side)
}

// place names the window, spot or number that begins at an element.
func (s *cuts) place(k sliceKind, at, lo int) string {
	x, y, p := at%s.w, at/s.w%s.h, at/(s.w*s.h)
	switch k {
	case inWindow:
		return fmt.Sprintf("tile of %dx%d at (%d,%d) of realization %d", min(8, s.h), min(8, s.w), y, x, lo+p/s.c)
	case inSpot:
		return fmt.Sprintf("%dx%d pixels at (%d,%d) of channel %d of realization %d", min(3, s.h), min(3, s.w), y, x, p%s.c, lo+p/s.c)
	}
	return fmt.Sprintf("element (%d,%d) of channel %d of realization %d", y, x, p%s.c, lo+p/s.c)
}

// judgeRun holds the sums over all steps against what independent steps of
// correct devices add up to. It returns the first step of what is beyond.
func (h *spreads) judgeRun(all []*stepFigures) (*stepFault, int) {
	var q, g, steps, few float64
	for _, f := range all {
		few = max(few, h.at(f.alike).few(inAll, f.count))
		if c := &f.cuts.of[inAll]; c.count[0] > 0 {
			q, g, steps = q+c.mean(0), g+c.excess(0), steps+1
		}
	}
	if steps < 2 {
		return nil, 0
	}
	q, g = q/steps, g/steps
	m := h.squares[inAll].upper()
	v := h.stepVariance()
	limit := h.factor * chernoff(m, 1.5*v/steps+float64(m*m)*1e-3)
	limit = max(limit, 2*few/steps)
	if q > limit {
		start := onset(all, (q+h.squares[inAll].mean())/2, func(c *tally) float64 { return c.mean(0) })
		return &stepFault{kind: inAll, gate: "conformity", value: math.Sqrt(q), limit: math.Sqrt(limit), excess: math.Sqrt(q / limit), at: -1}, start
	}
	limit = max(h.gained(inAll)+8*math.Sqrt(1.5*h.gainVariance()/steps)+0.02*m, 2*few/steps)
	if g > limit {
		start := onset(all, g/2, func(c *tally) float64 { return c.excess(0) })
		return &stepFault{kind: inAll, gate: "accuracy", value: g, limit: limit, excess: g / limit, at: -1}, start
	}
	return nil, 0
}

// onset returns the step from which on a statistic is above a level, the one
// that leaves most above it.
func onset(all []*stepFigures, level float64, of func(c *tally) float64) int {
	sum, most, at := 0.0, math.Inf(-1), all[0].step
	for i := len(all) - 1; i >= 0; i-- {
		if sum += of(&all[i].cuts.of[inAll]) - level; sum > most {
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
		case bad.kind >= inWindow:
			q, _ := greatest(f.cuts.most[bad.kind])
			return q
		case bad.gate == "accuracy":
			return f.cuts.of[bad.kind].excess(min(bad.index, len(f.cuts.of[bad.kind].count)-1))
		}
		return f.cuts.of[bad.kind].mean(min(bad.index, len(f.cuts.of[bad.kind].count)-1))
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
