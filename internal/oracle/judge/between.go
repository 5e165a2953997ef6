package judge

import (
	"maps"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// Right kernels are simulated at a few of many evaluations. If errors are of one size at two evaluations and at the one
// in the middle, they are of that size at all others between. An evaluation that is not plainly right by that is
// simulated, too.

// scale is the size of right kernels' errors at an evaluation.
type scale struct {
	planes []float64 // the deviation of each plane or group, see scaleOf and groupOf
	grain  float64
	flips  int // that kernels have at most
}

// scaleOf is the scale of a trial. An element in units of u is off by s(s+u) in the mean square, as [trial.model] has
// it, and s is that of a plane.
func (q *Question) scaleOf(t *trial) scale {
	f, plane := q.Output.Format, groupOf(q.Output.Shape)
	s := scale{grain: t.grain, planes: []float64{}}
	for at := 0; plane > 0 && at+plane <= len(t.e); at += plane {
		mean, unit := 0.0, 0.0
		for i := at; i < at+plane; i++ {
			if u := f.Ulp(t.stored[i]); u-u == 0 {
				mean, unit = mean+t.e[i]/float64(plane), unit+u/float64(plane)
			}
		}
		s.planes = append(s.planes, math.Sqrt(float64(unit/2*unit/2)+mean)-unit/2)
	}
	for _, k := range t.tally.right {
		s.flips = max(s.flips, k.flips)
	}
	return s
}

// groupOf is how many numbers have one scale: those of a plane, or of as many as it takes to know it.
func groupOf(shape []int) int {
	n := planeOf(shape)
	for a := min(2, len(shape)) - 1; a >= 0 && n < numbersOfTheory; a-- {
		n *= shape[a]
	}
	return n
}

// toward is the scale on the way to another one.
func (s scale) toward(to scale, way float64) scale {
	between := scale{grain: max(s.grain, to.grain), flips: max(s.flips, to.flips)}
	for p, v := range s.planes {
		between.planes = append(between.planes, v+float64(way*(to.planes[p]-v)))
	}
	return between
}

// fits reports whether errors are of about the same size by both scales.
func (s scale) fits(o scale) bool {
	for p, v := range s.planes {
		least, most := min(v, o.planes[p]), max(v, o.planes[p])
		if most*most > usualSlack*least*least {
			return false
		}
	}
	return true
}

// tryBetween is tryThin without kernels, of errors of that scale.
func (q *Question) tryBetween(types []graph.Type, c Contract, s scale) (*trial, error) {
	c = q.in(c)
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, q.built), grain: s.grain}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round, t.b.thin = t.b.rounds(values, q.Narrow), true
	if t.y, err = q.made(c); err != nil {
		return nil, err
	}
	f := q.Output.Format
	t.r, t.e, t.stored = make([]float64, len(t.y)), make([]float64, len(t.y)), make([]float64, len(t.y))
	t.store(f, t.stored, t.y)
	plane := groupOf(q.Output.Shape)
	for i := range t.e {
		t.r[i] = math.Inf(1)
		if u := f.Ulp(t.stored[i]); u-u == 0 {
			t.e[i] = s.planes[i/plane] * (s.planes[i/plane] + u)
		}
	}
	q.statistics(t)
	q.count(t)
	return t, nil
}

// exactly reports whether what a trial makes is exact: nothing of it is rounded.
func (q *Question) exactly(t *trial) bool {
	return len(t.round) == 0 && t.Operands == "" && !slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool {
		op, is := n.Op.(graph.Cast)
		return is && op.Dtype != fp16.Float64.String() && op.Dtype != q.steps().String()
	})
}

// evaluations are those of [Many] under a contract, at work.
type evaluations struct {
	*Many
	*Joint
	sums   totals
	scales map[int]scale  // of those that were simulated
	trials map[int]*trial // of the first, the middle and the last one, and of those that are wrong first
	count  int            // of those that are judged
	first  int            // the first that is wrong by itself, N if none is so far
}

// Under judges all under a contract. See [Many.Faults] for what lies along a fault.
func (m *Many) Under(c Contract) (*Joint, error) {
	e := &evaluations{Many: m, scales: map[int]scale{}, trials: map[int]*trial{}, first: m.N,
		Joint: &Joint{Contract: c, Each: make([]Each, m.N), Seen: m.N - 1}}
	e.of = e
	series := m.series()
	for from := range min(series, m.N) {
		last := from + (m.N-1-from)/series*series
		for _, i := range []int{from, last} {
			if err := e.simulate(i); err != nil {
				return nil, err
			}
		}
		if err := e.halve(from, last, series); err != nil {
			return nil, err
		}
	}
	laws := common(e.Each)
	for i := range m.N {
		if err := e.between(i, laws); err != nil {
			return nil, err
		}
	}
	laws = common(e.Each)
	for i := range e.Each {
		e.Each[i].by(laws)
	}
	e.Excess, e.Region = e.sums.excess(e.Each)
	e.late()
	return e.Joint, nil
}

// halve simulates the middle of two evaluations, and those of both halves if its errors are not between theirs.
func (e *evaluations) halve(from, to, by int) error {
	if to-from <= by {
		return nil
	}
	mid := from + (to-from)/by/2*by
	if err := e.simulate(mid); err != nil {
		return err
	}
	if a, b, c := e.scales[from], e.scales[mid], e.scales[to]; a.fits(c) && a.fits(b) && b.fits(c) {
		return nil
	}
	if err := e.halve(from, mid, by); err != nil {
		return err
	}
	return e.halve(mid, to, by)
}

// simulate judges an evaluation by simulated kernels.
func (e *evaluations) simulate(i int) error {
	if _, is := e.scales[i]; is {
		return nil
	}
	q, types, err := e.question(i, e.At)
	if err != nil {
		return err
	}
	if i == 0 { // the first is as large as any
		if err := q.fits(thinKernels); err != nil {
			return err
		}
	}
	t, err := q.tryThin(types, e.Contract, e.Cores, e.Bounds)
	if err != nil {
		return err
	}
	e.scales[i] = q.scaleOf(t)
	if i == 0 || i == (e.N-1)/2 || i == e.N-1 || i < e.first && !t.passes() { // of more, a long rollout has no memory
		e.trials[i] = t
	}
	judged := q
	if x, _ := t.ways.excess(); i < e.first && (x > 1 || t.ways[everywhere].chance < atOdds(float64(e.N))) {
		less, other, err := q.withFlips(types, t)
		if err != nil {
			return err
		}
		if less != nil {
			judged, t = less, other
		} else if x > 1 {
			e.first = i // it is wrong, whatever flips there are
		}
	}
	return e.add(i, q, judged, t)
}

// between judges an evaluation by those before and after it that were simulated. If it is not plainly right, it is
// simulated, too, unless one before it is wrong.
func (e *evaluations) between(i int, laws map[string]law) error {
	if _, is := e.scales[i]; is {
		return nil
	}
	q, types, err := e.question(i, e.At)
	if err != nil {
		return err
	}
	s := e.scale(i)
	t, err := q.tryBetween(types, e.Contract, s)
	if err != nil {
		return err
	}
	each := Each{ways: maps.Clone(t.ways)}
	if each.by(laws); i < e.first && (t.violations > 0 || each.Excess > mostBetween) {
		return e.simulate(i)
	}
	if err := e.add(i, q, q, t); err != nil {
		return err
	}
	e.Each[i].Expected = s.flips
	return nil
}

// scale is that of an evaluation that was simulated, or between two such.
func (e *evaluations) scale(i int) scale {
	if s, is := e.scales[i]; is {
		return s
	}
	before, after := i, i
	for e.scales[before].planes == nil {
		before -= e.series()
	}
	for e.scales[after].planes == nil {
		after += e.series()
	}
	return e.scales[before].toward(e.scales[after], float64(i-before)/float64(after-before))
}

// add notes what a trial is, of an evaluation or of what flips leave of it.
func (e *evaluations) add(i int, q, judged *Question, t *trial) (err error) {
	each := &e.Each[i]
	*each = Each{flips: t.turns, Violations: t.violations, Unknown: t.unknown, Flips: t.flips, Elements: t.elements,
		Errors: t.errors(), Wrong: t.wrong, Worst: t.worst, ways: t.ways, kernels: len(t.right)}
	for _, k := range t.tally.right {
		each.Expected = max(each.Expected, k.flips)
	}
	if each.Reach = t.reach; t.biased > 0 {
		each.Bias = t.bias / math.Sqrt(t.biased*storing)
	}
	seen := i == e.Seen || i < e.Seen && !t.passes()
	if seen {
		e.Seen = i
	}
	if each.Figures, err = e.figures(i, q, t, seen); err != nil {
		return err
	}
	if e.N > 1 {
		e.sums.add(judged, t)
	}
	if e.count++; e.Progress != nil {
		return e.Progress(e.count)
	}
	return nil
}
