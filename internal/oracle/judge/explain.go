package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/oracle/table"
)

// A fault is the cause of what is wrong if it explains the output: the same steps with the fault are judged as the
// right ones were, by their own intervals, simulations and contracts, and the output passes as theirs. No share
// of the errors is a cause, however large: of noise, zeros explain more than half.

// cause is a fault, in words, and the contract under which it explains an output.
type cause struct {
	id, title, advice string
}

// suspect is a fault that may be the cause.
type suspect struct {
	built
	rank int       // its place among all: the simplest first
	y    []float64 // what it makes of each element
	left float64   // the squared errors that it leaves
}

// explain looks for the cause of what is wrong with an output that passes under no contract. It returns the trial
// of the right steps under the contract of the cause, with it.
func (q *Question) explain(t *trial) (*trial, error) {
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	if single, err := q.inSingle(t.y); err != nil || single != nil {
		t.cause = single
		return t, err
	}
	all, err := q.suspects(types, t)
	distinct := slices.CompactFunc(slices.Clone(all), func(a, b suspect) bool { return q.far(t, a.y, b.y) < 1 })
	if err != nil {
		return nil, err
	}
	for _, s := range distinct[:min(len(distinct), mostSuspects)] {
		if e := q.explains(types, t, s); e != nil {
			return q.caused(types, t, e, s, all)
		}
	}
	return t, nil
}

// suspects are the faults that leave little of the errors, those that leave the least first.
func (q *Question) suspects(types []graph.Type, t *trial) (all []suspect, err error) {
	squares := q.left(t, t.y)
	for rank, f := range q.candidateFaults(types, t) {
		y, err := q.effect(types, t.Contract, f)
		if err == nil && y == nil {
			y, err = q.effect(types, Contract{}, f)
		}
		if err != nil {
			return nil, err
		}
		if len(y) != len(t.y) {
			continue
		}
		if f.id == storeTruncated {
			truncate(q.Output.Format, y, y)
		}
		if left := q.left(t, y); left < squares && left <= max(leftEach*float64(len(y)), leftShare*squares) {
			all = append(all, suspect{f, rank, y, left})
		}
	}
	slices.SortStableFunc(all, func(a, b suspect) int { return cmp.Compare(a.left, b.left) })
	return all, nil
}

// candidateFaults are all faults, with the figures that families estimate, and in a graph of several nodes that
// can have one, in each of them.
func (q *Question) candidateFaults(types []graph.Type, t *trial) (all []built) {
	for _, f := range Faults {
		if narrowsOperands(f.ID) && q.Narrow.Half() {
			continue
		}
		var figures [][]float64
		if f.figures == nil || f.plain {
			figures = [][]float64{nil}
		}
		if f.figures != nil {
			figures = append(figures, f.figures(q, t)...)
		}
		for _, x := range figures {
			for _, at := range q.nodes(types, t.Form, built{id: f.ID, figures: x}) {
				all = append(all, built{f.ID, at, x})
			}
		}
	}
	return append(all, q.roundings(t, fp16.Float32)...)
}

// nodes are the nodes of a graph that can have a fault, each alone, after all together.
func (q *Question) nodes(types []graph.Type, form Form, f built) []string {
	all := []string{""}
	if len(q.Graph.Nodes) == 1 || len(q.Graph.Nodes) > mostNodes {
		return all
	}
	var can []string
	for i := range q.Graph.Nodes {
		f.at = q.Graph.Name(&q.Graph.Nodes[i])
		if expand(q.Graph, types, form, f).broken {
			can = append(can, f.at)
		}
	}
	if len(can) < 2 {
		return all
	}
	return append(all, can...)
}

// left are the squared errors of the output if y is right, each over what is expected. Where only one of them is
// a number, a fault explains nothing.
func (q *Question) left(t *trial, y []float64) (all float64) {
	f := q.Output.Format
	for i, got := range q.Output.Data {
		want := f.Round(y[i])
		if got == want || want != want && (got != got || got == 0) { // 0/0, or 0 for it
			continue
		}
		d, ulp := got-want, f.Ulp(t.stored[i])
		if v := d * d / (t.rare(i) + ulp*ulp*storing); v-v == 0 {
			all += v
		} else if d-d != 0 {
			all += missing
		}
	}
	return all
}

// explains judges the output as that of the steps with a fault; nil if it is not.
func (q *Question) explains(types []graph.Type, t *trial, s suspect) *trial {
	w := q.with(s.built)
	e, err := w.try(types, t.Contract, false)
	if err != nil || !e.passes() {
		e, err = w.search()
	}
	if err != nil || !e.passes() || !q.telling(t, s.freedom()) { // of an error the claimed steps are not there
		return nil
	}
	return e
}

// telling reports whether an output that passes with a fault says anything: a fault that is not the cause has
// results anywhere about as far off as these, and one of them is within reach of a right kernel's with a chance of
// that reach over the error. Each figure takes one element.
func (q *Question) telling(t *trial, figures int) bool {
	f := q.Output.Format
	var bits []float64
	for i, got := range q.Output.Data {
		ulp := f.Ulp(t.stored[i])
		reach := reachFar * math.Sqrt(t.e[i]+ulp*ulp*storing)
		if d := math.Abs(got - t.y[i]); d > reach {
			bits = append(bits, elem.Log(1+d/reach)/math.Ln2)
		} else if d != d {
			bits = append(bits, mostBits)
		}
	}
	slices.Sort(bits)
	sum := 0.0
	for _, b := range bits[:max(0, len(bits)-figures)] {
		sum += min(b, mostBits)
	}
	return sum > leastBits
}

// freedom is how many elements a fault could fit, whatever they are.
func (f built) freedom() int {
	if f.id == partZeros { // which are zeros
		return 0
	}
	return len(f.figures)
}

// far is how many deviations two outputs are apart.
func (q *Question) far(t *trial, a, b []float64) float64 {
	f, all := q.Output.Format, 0.0
	for i := range a {
		x, y := f.Round(a[i]), f.Round(b[i])
		if d := x - y; d != 0 {
			ulp := f.Ulp(x)
			if v := d * d / (t.rare(i) + ulp*ulp*storing); v-v == 0 {
				all += v
			} else if d-d != 0 && (x == x || y == y) {
				all += missing
			}
		}
	}
	return math.Sqrt(all)
}

// alike are the suspects whose results cannot be told from those of a fault that explains an output: the whole
// difference is no more than errors of right kernels along it may be, which a row's elements share.
func (q *Question) alike(e *trial, all []suspect) (alike []suspect) {
	w := e.weights(q.Output.Format)
	for _, s := range all {
		_, power := q.amount(e, w, s.y, q.Output.Data)
		limit := q.along(e, w, s.y).limit(atOdds(e.directions()))
		if power < limit && q.far(e, e.stored, s.y) < math.Sqrt(missing) {
			alike = append(alike, s)
		}
	}
	return alike
}

// caused puts the cause into a trial: of the faults that cannot be told here from one that explains the output, e,
// the simplest, or, where several are as simple, all.
func (q *Question) caused(types []graph.Type, t, e *trial, s suspect, all []suspect) (*trial, error) {
	others := slices.DeleteFunc(q.alike(e, all), func(o suspect) bool { return o.rank == s.rank })
	best := simplest(append(others, s))
	c := q.cause(best)
	if c == nil {
		return t, nil
	}
	if e.String() != t.String() {
		if k, err := q.try(types, e.Contract, true); err == nil && !k.passes() {
			t = k
		}
	}
	if !slices.Contains(t.blind, c.id) || t.overflows(best[0].y) { // with other figures it shows
		t.cause = c
	}
	return t, nil
}

// simplest are the suspects that are not vague, if there are such, with the fewest figures, in the order of the table.
func simplest(all []suspect) (best []suspect) {
	weight := func(s suspect) int {
		if f := named(s.id); f != nil && f.vague {
			return math.MaxInt
		}
		return len(s.figures)
	}
	for _, s := range all {
		switch {
		case best == nil || weight(s) < weight(best[0]):
			best = []suspect{s}
		case weight(s) == weight(best[0]):
			best = append(best, s)
		}
	}
	slices.SortStableFunc(best, func(a, b suspect) int { return cmp.Compare(a.rank, b.rank) })
	return best
}

// cause is what faults that all explain an output are called.
func (q *Question) cause(alike []suspect) *cause {
	var c *cause
	titles := []string{}
	for i, e := range alike {
		again := func(o suspect) bool { // in a node of several, or with a figure that is less simple
			return o.id == e.id && (slices.Equal(o.figures, e.figures) || named(o.id) != nil && named(o.id).vague)
		}
		title, advice := q.called(e.built)
		if slices.ContainsFunc(alike[:i], again) || slices.Contains(titles, title) {
			continue
		}
		if titles = append(titles, title); c == nil {
			c = &cause{id: e.id, advice: advice}
		}
	}
	if len(titles) > mostAlike {
		return nil
	}
	c.title = strings.Join(titles, ", or ")
	return c
}

// called is the title of a fault with its figures and its node, and what to do.
func (q *Question) called(f built) (title, advice string) {
	if strings.HasPrefix(f.id, roundedStep) {
		r := table.ByID(f.id)
		return r.Name + " to " + formatOf(f.figures[0]).String(), r.Advice
	}
	fault := named(f.id)
	title, advice = fault.Title, fault.Advice
	if fault.words != nil {
		title = fault.words(q, f.id, f.figures)
	}
	if f.at != "" {
		title += " in " + f.at
	}
	return title, advice
}
