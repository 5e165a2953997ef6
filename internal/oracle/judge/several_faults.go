package judge

import (
	"cmp"
	"errors"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/table"
)

// Wrong are graphs with one fault each: the outputs of those of [Several], as a kernel with that fault has them.
type Wrong struct {
	ID    string // of the table of faults
	At    string // where in the graph, "" of all of it
	Graph *graph.Graph
}

// named looks for the cause of an output that fails, where none of those that are built into steps explains it, or only
// one that may look like many: a graph with a fault explains an output if it passes as right in that graph.
func (s *Several) named(r *Report, form, k int) error {
	if f := named(r.FaultID); r.FaultID != "" && (f == nil || !f.vague) {
		return nil
	}
	if s.WideSums && r.FaultID == "" {
		if is, err := s.narrowSums(r, form, k); is || err != nil {
			return err
		}
	}
	if s.Wrong == nil {
		return nil
	}
	all, err := s.plausible(r, form, k, s.Wrong(s.Graphs[form], k))
	if err != nil {
		return err
	}
	var alike []Wrong
	for _, w := range all[:min(len(all), mostSuspects)] {
		again := slices.ContainsFunc(alike, func(o Wrong) bool { return o.ID == w.ID }) // in another place
		if is, err := s.explains(w, k); err != nil || !is || again {
			continue
		}
		if alike = append(alike, w); len(alike) == mostAlike {
			break
		}
	}
	for i, w := range alike { // of two these numbers do not tell which
		row := table.ByID(w.ID)
		title := row.Name
		if w.At != "" {
			title += " in " + w.At
		}
		if i == 0 {
			r.FaultID, r.Fault, r.Advice = w.ID, title, row.Advice
		} else {
			r.Fault += ", or " + title
		}
	}
	return nil
}

// explains reports whether an output passes as right in a graph with a fault.
func (s *Several) explains(w Wrong, k int) (bool, error) {
	one := *s
	one.Graphs = []*graph.Graph{w.Graph}
	q := one.question(0, k)
	q.Brief, q.Shallow = true, true
	r, err := Check(*q)
	if errors.Is(err, ErrNotJudged) {
		return false, nil
	}
	return err == nil && r.Verdict == Pass, err
}

// plausible are the faults that leave little of the errors, those that leave the least first.
func (s *Several) plausible(r *Report, form, k int, all []Wrong) ([]Wrong, error) {
	q := s.question(form, k)
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	t, err := q.try(types, r.Contract, false)
	if err != nil {
		return nil, err
	}
	squares := q.left(t, t.y)
	if !q.telling(t, 0) {
		return nil, nil
	}
	type suspect struct {
		Wrong
		left float64
	}
	var few []suspect
	for _, w := range all {
		one := *s
		one.Graphs = []*graph.Graph{w.Graph}
		p := one.question(0, k)
		y, err := p.made(Contract{})
		if err != nil || len(y) != len(t.y) {
			continue
		}
		if left := q.left(t, y); left < squares && left <= max(leftEach*float64(len(y)), leftShare*squares) {
			few = append(few, suspect{w, left})
		}
	}
	slices.SortStableFunc(few, func(a, b suspect) int { return cmp.Compare(a.left, b.left) })
	var plausible []Wrong
	for _, w := range few {
		plausible = append(plausible, w.Wrong)
	}
	return plausible, nil
}

// narrowSums reports whether sums at places that an index names, each addition rounded to a half format in any order,
// explain an output: their errors are those of such sums, and not smaller. They are looked for in the usual graph, too:
// the form and the contract that fit such sums best are right kernels', and may have sums of parts.
func (s *Several) narrowSums(r *Report, form, k int) (bool, error) {
	is, err := s.narrowSumsIn(r, r.Contract, form, k)
	if is || err != nil {
		return is, err
	}
	return s.narrowSumsIn(r, Contract{}, 0, k)
}

func (s *Several) narrowSumsIn(r *Report, c Contract, form, k int) (bool, error) {
	q := s.question(form, k)
	if !slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool { return scatters(n.Op) }) {
		return false, nil
	}
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		if slices.ContainsFunc(q.Output.Data, func(v float64) bool { return !f.Holds(v) }) {
			continue
		}
		c.Atomic = f.String()
		q.Claimed, q.Brief = &c, true
		n, err := Check(*q)
		if errors.Is(err, ErrNotJudged) {
			continue
		}
		if err != nil {
			return false, err
		}
		if n.Verdict == Pass && n.Errors > leastNarrow {
			row := table.ByID(sumsIn[f])
			r.FaultID, r.Fault, r.Advice = row.ID, row.Name, row.Advice
			return true, nil
		}
	}
	return false, nil
}
