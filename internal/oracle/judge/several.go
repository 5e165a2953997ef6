package judge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Several is a question about several outputs of one kernel, such as the gradients that a backward kernel returns. The
// outputs are judged one by one, under one contract if there is one under which all are right.
type Several struct {
	// Graphs have these outputs, in one order: the same functions, in other operations each. The usual one comes first.
	Graphs  []*graph.Graph
	Inputs  []*tensor.Tensor // of each graph
	Names   []string         // of the outputs
	Outputs []*tensor.Tensor // nil is one that the kernel does not return
	Claimed *Contract
	// WideSums, Attends and Double are as in [Question].
	WideSums, Attends, Double bool
	// Loose are outputs in which axes of size 1 do not matter, such as the mean of rows.
	Loose []string
	// Wrong are graphs with a fault that one of the graphs may have, whose outputs are looked for in one that fails;
	// nil is none.
	Wrong func(of *graph.Graph, output int) []Wrong
}

// SeveralReport is the answer: that of each output, and what they say together.
type SeveralReport struct {
	Verdict string `json:"verdict"`
	// Reason is why it does not pass, in one line.
	Reason string `json:"reason,omitempty"`
	// Contract is that under which all outputs are right; nil if there is none, and those of the outputs say more.
	Contract *Contract `json:"contract,omitempty"`
	Outputs  []Row     `json:"outputs"`
}

// Row is the report of one output.
type Row struct {
	Name string `json:"name"`
	*Report
	form int // the graph
}

// CheckSeveral answers. An output of which it is not known what right kernels return is NO-POWER, and so is the whole.
func CheckSeveral(s Several) (*SeveralReport, error) {
	r := &SeveralReport{Outputs: make([]Row, 0, len(s.Outputs))}
	var found []explained
	for _, k := range s.order() {
		row, err := s.row(k, found)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Names[k], err)
		}
		if row.Verdict == Pass {
			found = append(found, explained{row.form, row.Contract})
		}
		r.Outputs = append(r.Outputs, *row)
	}
	if err := s.agree(r, found); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Outputs,
		func(a, b Row) int { return cmp.Compare(slices.Index(s.Names, a.Name), slices.Index(s.Names, b.Name)) })
	r.sum()
	return r, nil
}

// explained is a graph, and a contract of it.
type explained struct {
	form int
	Contract
}

// order are the outputs that there are, those of the longest graphs first: their contract says most about the others.
func (s *Several) order() (all []int) {
	nodes := make([]int, len(s.Outputs))
	for k, y := range s.Outputs {
		if y != nil {
			nodes[k] = len(s.question(0, k).Graph.Nodes)
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(nodes[b], nodes[a]) })
	return all
}

// question is that about one output in one form.
func (s *Several) question(form, k int) *Question {
	g, used := only(s.Graphs[form], k)
	q := &Question{Graph: g, Output: s.Outputs[k], Claimed: s.Claimed, WideSums: s.WideSums, Attends: s.Attends,
		Double: s.Double, Narrow: s.narrowest()}
	for _, i := range used {
		q.Inputs = append(q.Inputs, s.Inputs[i])
	}
	if y := q.Output; slices.Contains(s.Loose, s.Names[k]) {
		if types, err := q.types(); err == nil && slices.Equal(squeezed(types[g.Outputs[0]].Shape), squeezed(y.Shape)) {
			q.Output = &tensor.Tensor{Format: y.Format, Shape: types[g.Outputs[0]].Shape, Data: y.Data}
		}
	}
	return q
}

// squeezed is a shape without axes of size 1.
func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
}

// narrowest is that of all inputs and of the usual graph: a kernel that has half numbers may round any step to them.
func (s *Several) narrowest() fp16.Format {
	return (&Question{Graph: s.Graphs[0], Inputs: s.Inputs, Double: s.Double}).narrowest()
}

// row judges an output: under what explains others, then in each form, and if none is right in that which is nearest.
func (s *Several) row(k int, found []explained) (*Row, error) {
	name := s.Names[k]
	if s.Claimed == nil {
		for _, e := range found {
			if r, err := s.under(e, k); err == nil && r.Verdict == Pass {
				return &Row{name, r, e.form}, nil
			}
		}
	}
	var best *Row
	var unjudged error
	for form := range s.Graphs {
		q := s.question(form, k)
		q.Brief = true
		r, err := Check(*q)
		switch {
		case errors.Is(err, ErrNotJudged):
			unjudged = err
			continue
		case err != nil:
			return nil, err
		case r.Verdict != Fail:
			return &Row{name, r, form}, nil
		}
		if best == nil || r.Off < best.Off {
			best = &Row{name, r, form}
		}
	}
	if best == nil {
		y := s.Outputs[k]
		return &Row{name, &Report{Verdict: NoPower, Store: y.Format.String(), Elements: len(y.Data),
			Reason: unjudged.Error(), Unjudged: unjudged.Error()}, 0}, nil
	}
	r, err := Check(*s.question(best.form, k))
	if err == nil && r.Verdict == Fail {
		err = s.named(r, best.form, k)
	}
	return &Row{name, r, best.form}, err
}

// under judges an output in a form under a contract that explains another: under what of it there is here.
func (s *Several) under(e explained, k int) (*Report, error) {
	e.Parts, e.division, e.Singles, e.singles = "", division{}, "", "" // those of another graph's nodes
	q := s.question(e.form, k)
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	known := expand(q.Graph, types, e.Form, built{}).names()
	c := Contract{Form: e.Form}
	for _, name := range e.Round {
		if slices.Contains(known, name) {
			c.Round = append(c.Round, name)
		}
	}
	q.Claimed, q.Brief = &c, true
	r, err := Check(*q)
	if err == nil {
		r.Claimed = false // it was found
	}
	return r, err
}

// agree looks for one contract of all outputs: that of one of them, or what they round together.
func (s *Several) agree(r *SeveralReport, found []explained) error {
	if len(found) < len(r.Outputs) || len(found) == 0 || s.Claimed != nil {
		return nil
	}
	all := found[0]
	all.Round = slices.Clone(all.Round)
	same := true
	for _, e := range found[1:] {
		same = same && e.form == all.form && e.Form == all.Form
		for _, name := range e.Round {
			if !slices.Contains(all.Round, name) {
				all.Round = append(all.Round, name)
			}
		}
	}
	if !same {
		return nil
	}
	if len(all.Round) > len(found[0].Round) { // what one output rounds, another may not
		for _, row := range r.Outputs {
			if one, err := s.under(all, slices.Index(s.Names, row.Name)); err != nil || one.Verdict != Pass {
				return err
			}
		}
	}
	r.Contract = &all.Contract
	return nil
}

// sum is what the outputs say together.
func (r *SeveralReport) sum() {
	r.Verdict = Pass
	for _, verdict := range []string{NoPower, Fail} {
		for _, row := range r.Outputs {
			if row.Verdict == verdict && (r.Verdict != verdict || r.Reason == "") {
				r.Verdict, r.Reason = verdict, row.Name+": "+row.Report.Reason
			}
		}
	}
}

// only is what of a graph makes one of its outputs, and which of the inputs that reads.
func only(g *graph.Graph, output int) (*graph.Graph, []int) {
	read := make([]bool, len(g.Values))
	read[g.Outputs[output]] = true
	part := *g
	part.Nodes, part.Inputs, part.Outputs = nil, nil, []int{g.Outputs[output]}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if slices.ContainsFunc(n.Out, func(v int) bool { return read[v] }) {
			part.Nodes = append(part.Nodes, n)
			for _, v := range n.In {
				read[v] = true
			}
		}
	}
	slices.Reverse(part.Nodes)
	part.Values = slices.Clone(g.Values)
	for v := range part.Values {
		if !read[v] {
			part.Values[v].Const = nil
		}
	}
	var used []int
	for k, v := range g.Inputs {
		if read[v] {
			part.Inputs, used = append(part.Inputs, v), append(used, k)
		}
	}
	return &part, used
}
