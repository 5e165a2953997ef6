package judge

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// pieces returns the first piece of a question, and the others that make it whole. Of a question that is
// small, or whose rows depend on each other, the first is all of it.
func (q *Question) pieces(types []graph.Type) (first *Question, rest []Question) {
	most := mostSearched
	for i := range q.Graph.Nodes {
		op := q.Graph.Nodes[i].Op
		if _, is := op.(graph.Attention); is || products[op.Name()] {
			most = mostProduct
		}
	}
	all := q.cut(types, most)
	if all == nil {
		return q, nil
	}
	first = &all[0]
	if rest = q.cut(types, mostPiece); rest == nil {
		rest = all
	}
	return first, rest
}

// cut divides a question into pieces of so many numbers; nil if it is one.
func (q *Question) cut(types []graph.Type, most int) []Question {
	w, ok := q.flat(types)
	if !ok {
		w = q
	}
	if types, err := w.types(); err == nil {
		if rows := w.rows(types); rows != nil {
			return w.slices(rows, most/max(1, w.perRow(types)))
		}
	}
	return nil
}

// flat is an attention of one node, [...,L,E], as one of matrices [N,L,E].
func (q *Question) flat(types []graph.Type) (*Question, bool) {
	if len(q.Graph.Nodes) != 1 {
		return nil, false
	}
	op, is := q.Graph.Nodes[0].Op.(graph.Attention)
	if !is || len(q.Inputs) < 3 || len(q.Output.Shape) < 4 || len(q.Inputs) > 3 && len(q.Inputs[3].Shape) > 2 {
		return nil, false
	}
	heads := q.Output.Shape[:len(q.Output.Shape)-2]
	w := *q
	w.Inputs = slices.Clone(q.Inputs)
	flat := func(t *tensor.Tensor) *tensor.Tensor {
		n := len(t.Shape)
		return &tensor.Tensor{Format: t.Format, Shape: []int{tensor.Size(heads), t.Shape[n-2], t.Shape[n-1]}, Data: t.Data}
	}
	for k := range 3 {
		s := q.Inputs[k].Shape
		if !slices.Equal(s[:len(s)-2], heads) {
			return nil, false
		}
		w.Inputs[k] = flat(q.Inputs[k])
	}
	w.Output = flat(q.Output)
	w.Graph = graph.New(nil)
	var in []int
	for _, v := range q.Graph.Inputs {
		in = append(in, w.Graph.Input(q.Graph.Values[v].Name))
	}
	w.Graph.Outputs = []int{w.Graph.Add(op, q.Graph.Name(&q.Graph.Nodes[0]), in...)}
	return &w, true
}

// blocks divides a piece into those that are evaluated one after the other; itself where it is small.
func (q *Question) blocks(types []graph.Type) []Question {
	if q.built.whole() {
		return []Question{*q}
	}
	if all := q.queries(mostScored); all != nil {
		return all
	}
	if q.built.id != "" { // which may mix rows
		return []Question{*q}
	}
	if rows := q.rows(types); rows != nil {
		if all := q.slices(rows, mostBlock/max(1, q.widest(types))); all != nil {
			return all
		}
	}
	return []Question{*q}
}

// someQueries is attention whose first query is not the first of all, which matters where keys are
// masked by their place.
type someQueries struct {
	graph.Attention
	from, of int
}

// queries divides an attention of one node into blocks of queries of one head whose scores are so many;
// nil if it is one, or not such an attention.
func (q *Question) queries(most int) (all []Question) {
	w, ok := q.flat(nil)
	if !ok {
		if w = q; len(q.Graph.Nodes) != 1 || len(q.Output.Shape) != 3 || len(q.Inputs) < 3 || len(q.Inputs[1].Shape) !=
			3 || q.Inputs[1].Shape[0] != q.Output.Shape[0] || len(q.Inputs) > 3 && len(q.Inputs[3].Shape) != 2 {
			return nil
		}
	}
	op, is := w.Graph.Nodes[0].Op.(graph.Attention)
	if !is {
		return nil
	}
	heads, length, keys := w.Output.Shape[0], w.Output.Shape[1], w.Inputs[1].Shape[1]
	each := max(1, most/max(1, keys))
	if heads*length <= each || w.Output.Shape[2] == 0 {
		return nil
	}
	for head := range heads {
		of := *w
		of.Inputs = slices.Clone(w.Inputs)
		for k := range 3 {
			of.Inputs[k] = part(w.Inputs[k], head, head+1)
		}
		of.Output = part(w.Output, head, head+1)
		for from := 0; from < length; from += each {
			to := min(length, from+each)
			b := of
			b.Inputs = slices.Clone(of.Inputs)
			line := func(t *tensor.Tensor) *tensor.Tensor {
				inner := t.Shape[2]
				return &tensor.Tensor{Format: t.Format, Shape: []int{1, to - from, inner}, Data: t.Data[from*inner : to*inner]}
			}
			b.Inputs[0], b.Output = line(of.Inputs[0]), line(of.Output)
			if len(b.Inputs) > 3 && b.Inputs[3].Shape[0] == length {
				b.Inputs[3] = part(b.Inputs[3], from, to)
			}
			b.offset = w.offset + (head*length+from)*w.Output.Shape[2]
			b.Graph = graph.New(nil)
			var in []int
			for _, v := range w.Graph.Inputs {
				in = append(in, b.Graph.Input(w.Graph.Values[v].Name))
			}
			b.Graph.Outputs = []int{b.Graph.Add(someQueries{op, from, length}, w.Graph.Name(&w.Graph.Nodes[0]), in...)}
			all = append(all, b)
		}
	}
	return all
}

// part is some of a tensor's rows.
func part(t *tensor.Tensor, from, to int) *tensor.Tensor {
	inner := len(t.Data) / t.Shape[0]
	return &tensor.Tensor{
		Format: t.Format, Shape: append([]int{to - from}, t.Shape[1:]...), Data: t.Data[from*inner : to*inner],
	}
}

// rows returns which inputs have a row for each row of the output, along the first axis, and nil if rows
// depend on each other.
func (q *Question) rows(types []graph.Type) []bool {
	const (
		unknown = iota
		row
		all
	)
	of := make([]int, len(q.Graph.Values))
	of[q.Graph.Outputs[0]] = row
	if len(q.Output.Shape) == 0 {
		return nil
	}
	n := q.Output.Shape[0]
	for i := len(q.Graph.Nodes) - 1; i >= 0; i-- {
		node := &q.Graph.Nodes[i]
		if len(node.Out) != 1 {
			return nil
		}
		if of[node.Out[0]] != row {
			return nil
		}
		by := rowsOf(node, types)
		if by == nil {
			return nil
		}
		for k, v := range node.In {
			want := all
			if by[k] {
				want = row
			}
			if of[v] != unknown && of[v] != want || want == row && (q.Graph.Values[v].Const != nil || types[v].Shape[0] != n) {
				return nil
			}
			of[v] = want
		}
	}
	cut := make([]bool, len(q.Graph.Inputs))
	for k, v := range q.Graph.Inputs {
		cut[k] = of[v] == row
	}
	return cut
}

// rowsOf returns which inputs of a node have a row for each of its output; nil if rows depend on each
// other or it is not known.
func rowsOf(n *graph.Node, types []graph.Type) []bool {
	shapes := make([][]int, len(n.In))
	for k, v := range n.In {
		shapes[k] = types[v].Shape
	}
	out := types[n.Out[0]].Shape
	first := make([]bool, len(n.In))
	if len(shapes[0]) == 0 || len(out) == 0 {
		return nil
	}
	first[0] = true
	inner := func(axis, least int) bool { // whether an axis is not the first
		if axis < 0 {
			axis += len(shapes[0])
		}
		return axis >= least
	}
	switch op := n.Op.(type) {
	case graph.Unary, graph.Act:
		return first
	case graph.Binary:
		if op.Self != nil || op.Other != nil || len(n.In) == 1 {
			return first
		}
		for k, s := range shapes {
			first[k] = len(s) == len(out) && s[0] == out[0] && out[0] > 1
		}
		return first
	case graph.Softmax:
		if inner(op.Axis, 1) {
			return first
		}
	case graph.LayerNorm:
		if inner(-max(1, len(op.Shape)), 1) {
			return first
		}
	case graph.RMSNorm:
		if inner(-max(1, len(op.Shape)), 1) {
			return first
		}
	case graph.Linear:
		if len(shapes[0]) > 1 {
			return first
		}
	case graph.MatMul:
		if len(shapes[0]) == len(out) && len(out) > 1 && len(shapes[1]) > 1 {
			first[1] = len(out) > 2 && len(shapes[1]) == len(out)
			return first
		}
	case graph.Conv, graph.GroupNorm, graph.InstanceNorm:
		if len(shapes[0]) > 2 {
			return first
		}
	case graph.BatchNorm:
		if !op.Training {
			return first
		}
	case graph.Attention:
		if len(out) > 2 && len(shapes[1]) == len(out) && len(shapes[2]) == len(out) {
			first[1], first[2] = true, true
			if len(first) < 4 || len(shapes[3]) == 2 {
				return first
			}
		}
	case crossEntropy:
		if op.Reduction == "none" {
			return []bool{true, true}
		}
	case rotary:
		if len(shapes[0]) > 2 && len(shapes[1]) < len(shapes[0]) && len(shapes[2]) < len(shapes[0]) {
			return first
		}
	}
	return nil
}

// widest is how many numbers the largest value of the graph has in a row of the output.
func (q *Question) widest(types []graph.Type) (most int) {
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		for _, v := range n.In {
			if s := types[v].Shape; len(s) > 0 && s[0] == q.Output.Shape[0] {
				most = max(most, rowSize(s))
			}
		}
		most = max(most, rowSize(types[n.Out[0]].Shape))
	}
	return most
}

// rowSize is how many numbers a row of a value has; a number alone is one.
func rowSize(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return tensor.Size(shape) / max(1, shape[0])
}

// perRow is how many numbers the largest step has in a row of the output; a product's terms count in
// part.
func (q *Question) perRow(types []graph.Type) int {
	most := q.widest(types)
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		s := types[n.Out[0]].Shape
		row := rowSize(s)
		switch n.Op.(type) {
		case graph.Attention:
			k := types[n.In[1]].Shape
			most = max(most, row/max(1, s[len(s)-1])*k[len(k)-2]*(1+s[len(s)-1]/fewColumns))
		case graph.Linear:
			most = max(most, row*(1+types[n.In[1]].Shape[1]/fewTerms))
		case graph.MatMul:
			a := types[n.In[0]].Shape
			most = max(most, row*(1+a[len(a)-1]/fewTerms))
		case graph.Conv:
			w := types[n.In[1]].Shape
			most = max(most, row*(1+tensor.Size(w)/w[0]/fewTerms))
		}
	}
	return most
}

// slices cuts the inputs that have rows, and the output; nil if that is one piece.
func (q *Question) slices(rows []bool, each int) []Question {
	n := q.Output.Shape[0]
	each = max(1, each)
	if n == 0 || each >= n {
		return nil
	}
	var all []Question
	for from := 0; from < n; from += each {
		to := min(n, from+each)
		p := *q
		p.Inputs = slices.Clone(q.Inputs)
		for k, is := range rows {
			if is {
				p.Inputs[k] = part(q.Inputs[k], from, to)
			}
		}
		p.Output = part(q.Output, from, to)
		p.offset = q.offset + from*(len(q.Output.Data)/n)
		all = append(all, p)
	}
	return all
}
