package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/graph"
)

// Plain is the contract of evaluation i without any other form or rounding than its graph says.
func (m *Many) Plain(i int) (Contract, error) {
	q, _, err := m.question(i, m.At)
	if err != nil {
		return Contract{}, err
	}
	return Contract{Form: Form{written: q.Written, Operands: q.Operands}}, nil
}

// Contracts are those that explain evaluations best, of which there is one at least, see [Question].
func (m *Many) Contracts(of ...int) ([]Contract, error) {
	q, types, err := m.question(of[0], m.At)
	if err != nil {
		return nil, err
	}
	var also []*Question
	for _, i := range of[1:] {
		o, types, err := m.question(i, m.At)
		if err != nil {
			return nil, err
		}
		also = append(also, o.few(types))
	}
	all, err := q.likely(types, also...)
	if err == nil && !q.Narrow.Half() {
		all = append(all, q.onePasses(types, Contract{Form: Form{written: q.Written, Operands: q.Operands}})...)
	}
	return all, err
}

// Elementary are the contracts of evaluation i by which activations are several operations, each of which rounds its
// result.
func (m *Many) Elementary(i int) (all []Contract, err error) {
	q, types, err := m.question(i, m.At)
	if err != nil {
		return nil, err
	}
	for _, f := range q.forms(types) {
		if f.Composed {
			plain := f
			plain.Composed = false
			own := besides(expand(q.Graph, types, f, built{}).names(), expand(q.Graph, types, plain, built{}).names())
			all = append(all, Contract{f, own})
		}
	}
	return all, nil
}

// Atomic is a contract with each addition to a place that an index names rounded to the format of half numbers, in an
// order that nobody knows, and so with errors of its own that bring no output nearer; false where nothing is added so.
func (m *Many) Atomic(i int, c Contract) (Contract, bool, error) {
	q, _, err := m.question(i, m.At)
	if err != nil || !q.Narrow.Half() || q.WideSums ||
		!slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool { return scatters(n.Op) }) {
		return c, false, err
	}
	c.Atomic = q.Narrow.String()
	return c, true, nil
}

// Off is how far evaluations are from what a contract stores, as [Question] compares contracts, but in places of the
// coarser of its format and that of steps, or in what errors are usually, if that is less: in a chain of many roundings
// a number is right to the last place of float32 only when all of them are, and each of them that is put right should
// show. A contract with steps that there are not is infinitely far.
func (m *Many) Off(c Contract, of ...int) (far Distance, err error) {
	for _, i := range of {
		one, err := m.off(c, i)
		if err != nil {
			return Distance{}, err
		}
		far = far.and(one)
	}
	return far, nil
}

func (m *Many) off(c Contract, i int) (Distance, error) {
	q, types, err := m.question(i, m.At)
	if err != nil {
		return Distance{}, err
	}
	if _, err := expand(q.Graph, types, c.Form, built{}).values(c.Round); err != nil {
		return Distance{Mean: math.Inf(1)}, nil
	}
	made := q.made
	if m.Memory != nil {
		made = func(c Contract) ([]float64, error) { return m.Memory.made(i, q, types, c) }
	}
	y, err := made(c)
	if err != nil {
		return Distance{}, err
	}
	most, err := m.usual(i, q)
	return distanceIn(q.coarser(), most, q.Output.Format, q.Output.Data, y), err
}

// usual is the root mean square of all errors of evaluation i. Where a step takes a small part of what it rounds, they
// are far less than a place of its output, and a rounding that is put right should show there, too.
func (m *Many) usual(i int, q *Question) (float64, error) {
	if q.Truth == nil || m.Memory == nil {
		return math.Inf(1), nil
	}
	if off, is := m.Memory.off[i]; is {
		return off, nil
	}
	truth, err := q.Truth()
	if err != nil {
		return 0, err
	}
	squares, n := 0.0, 0.0
	for k, got := range q.Output.Data {
		if d := got - truth[k]; d-d == 0 {
			squares, n = squares+float64(d*d), n+1
		}
	}
	if m.Memory.off == nil {
		m.Memory.off = map[int]float64{}
	}
	m.Memory.off[i] = math.Inf(1)
	if squares > 0 {
		m.Memory.off[i] = math.Sqrt(squares / n)
	}
	return m.Memory.off[i], nil
}
