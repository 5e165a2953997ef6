package judge

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// again are steps of which other roundings are asked, one after the other: each time only what they change is
// evaluated. It keeps the values of the steps as they are without any, from the second time on that the steps
// are the same.
type again struct {
	graph  *graph.Graph
	inputs []*tensor.Tensor
	form   Form
	built  built

	b        *builder         // nil until their values are kept
	last     [][]int          // by node: the values that it is the last to read
	wide, of []*tensor.Tensor // by value: before the steps' own roundings, and after
}

// again evaluates steps as made does, from what it has kept; nil if it has not.
func (q *Question) again(c Contract) ([]float64, error) {
	if q.kept == nil {
		return nil, nil
	}
	f := q.built
	if strings.HasPrefix(f.id, roundedStep) { // which is one rounding more
		f = built{}
	}
	if !q.kept.are(q, c.Form, f) {
		*q.kept = again{graph: q.Graph, inputs: q.Inputs, form: c.Form, built: f}
		return nil, nil
	}
	if ok, err := q.kept.keep(); !ok {
		return nil, err
	}
	b := *q.kept.b
	b.built, b.round = q.built, maps.Clone(b.round)
	b.narrowStep()
	values, err := b.values(c.Round)
	if err != nil {
		return nil, err
	}
	y, err := q.kept.with(q.somewhere(b.rounds(values, q.Narrow)))
	if err == nil && len(y) != len(q.Output.Data) { // a fault of the shape
		err = errNotJudged
	}
	return y, err
}

// are reports whether the steps are those of a question in a form and with a fault.
func (a *again) are(q *Question, form Form, f built) bool {
	return a.graph == q.Graph && slices.Equal(a.inputs, q.Inputs) && a.form == form &&
		a.built.id == f.id && a.built.at == f.at && slices.Equal(a.built.figures, f.figures)
}

// keep evaluates the steps; false if their values are too many.
func (a *again) keep() (bool, error) {
	if a.b != nil {
		return a.of != nil, nil
	}
	of := Question{Graph: a.graph, Inputs: a.inputs}
	types, err := of.types()
	if err != nil {
		return false, err
	}
	a.b = expand(a.graph, types, a.form, a.built)
	a.last = make([][]int, len(a.b.Nodes))
	wide, kept, numbers := make([]*tensor.Tensor, len(a.b.Values)), make([]*tensor.Tensor, len(a.b.Values)), 0
	err = walk(a.b, a.inputs, func(v int, t *tensor.Tensor) { kept[v] = t }, func(n *graph.Node) error {
		if numbers > mostKept {
			return nil
		}
		out, err := apply(n.Op, pick(kept, n.In)...)
		if err != nil {
			return err
		}
		for k, v := range n.Out {
			wide[v], kept[v] = out[k], out[k]
			if f, is := a.b.round[v]; is {
				kept[v] = roundTo(f, out[k], nil)
			}
			numbers += 2 * len(out[k].Data)
		}
		return nil
	})
	if err != nil || numbers > mostKept {
		return false, err
	}
	last := a.b.lastRead()
	for i := range a.b.Nodes {
		for _, v := range a.b.Nodes[i].In {
			if last[v] == &a.b.Nodes[i] {
				a.last[i] = append(a.last[i], v)
			}
		}
	}
	a.wide, a.of = wide, kept
	return true, nil
}

// with returns the output with other roundings.
func (a *again) with(round rounded) ([]float64, error) {
	of := slices.Clone(a.of)
	for i := range a.b.Nodes {
		n := &a.b.Nodes[i]
		moved := slices.ContainsFunc(n.In, func(v int) bool { return of[v] != a.of[v] })
		out := pick(a.wide, n.Out)
		if moved {
			var err error
			if out, err = apply(n.Op, pick(of, n.In)...); err != nil {
				return nil, err
			}
		}
		for k, v := range n.Out {
			f, is := round[v]
			if !moved && f == a.b.round[v] {
				continue
			}
			y := out[k]
			if is {
				y = roundTo(f, y, nil)
			}
			if y != out[k] && moved {
				release(out[k])
			}
			if identical(y, a.of[v]) {
				if y != out[k] || moved {
					release(y)
				}
				continue
			}
			of[v] = y
		}
		for _, v := range a.last[i] {
			if of[v] != a.of[v] && of[v] != a.wide[v] {
				release(of[v])
			}
			of[v] = a.of[v]
		}
	}
	y := of[a.b.Graph.Outputs[0]]
	return slices.Clone(y.Data), nil
}

// pick are those of the values.
func pick(of []*tensor.Tensor, values []int) []*tensor.Tensor {
	picked := make([]*tensor.Tensor, len(values))
	for k, v := range values {
		picked[k] = of[v]
	}
	return picked
}

// identical reports whether two tensors have the same bits.
func identical(a, b *tensor.Tensor) bool {
	return a == b ||
		slices.EqualFunc(a.Data, b.Data, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}
