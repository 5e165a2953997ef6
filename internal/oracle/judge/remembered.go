package judge

import (
	"errors"
	"reflect"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// remembered is what the steps of a graph make, so that with a fault only what follows it is evaluated again.
type remembered struct {
	b     *builder
	round rounded
	of    []*tensor.Tensor // by value
	node  map[called]int

	size    int // how many numbers these are
	numbers int // that were made again so far
}

// called is a node's name, and how many before it have the same.
type called struct {
	name  string
	again int
}

// calls numbers the nodes of steps.
func calls(b *builder) map[*graph.Node]called {
	of, times := map[*graph.Node]called{}, map[string]int{}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		of[n] = called{b.Name(n), times[b.Name(n)]}
		times[b.Name(n)]++
	}
	return of
}

// keep evaluates steps; nil if these have more numbers than that.
func (q *Question) keep(b *builder, round rounded, most int) (*remembered, error) {
	k := &remembered{b: b, round: round, of: make([]*tensor.Tensor, len(b.Values)), node: map[called]int{}}
	n := 0
	b.wide = q.wide
	err := walk(b, q.Inputs, func(v int, x *tensor.Tensor) { k.of[v] = x }, func(node *graph.Node) error {
		if n > most {
			return errTooMany
		}
		out, err := k.make(node, k.of, round)
		for _, x := range out {
			n += len(x.Data)
		}
		return err
	})
	if errors.Is(err, errTooMany) {
		return nil, nil
	}
	of := calls(b)
	for i := range b.Nodes {
		k.node[of[&b.Nodes[i]]] = i
	}
	k.size = n
	return k, err
}

// Memory is what the steps of one evaluation make under a contract, so that of other contracts only what differs is
// evaluated.
type Memory struct {
	at   int // which evaluation, from 1 on
	kept *remembered
	off  map[int]float64 // by evaluation, see [Many.usual]
}

// made is [Question.made] of evaluation i.
func (m *Memory) made(i int, q *Question, types []graph.Type, c Contract) (y []float64, err error) {
	b := expand(q.Graph, types, c.Form, built{})
	values, err := b.values(c.Round)
	if err != nil {
		return nil, err
	}
	round := b.rounds(values, q.Narrow)
	if m.at != i+1 {
		m.at = i + 1
		if m.kept, err = q.keep(b, round, mostRemembered/2); err != nil {
			return nil, err
		}
	}
	if m.kept == nil {
		return q.made(c)
	}
	return m.kept.made(q, b, round, nil)
}

var errTooMany = errors.New("more numbers than are kept")

// make evaluates a node.
func (k *remembered) make(n *graph.Node, of []*tensor.Tensor, round rounded) ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(n.In))
	for j, v := range n.In {
		in[j] = of[v]
	}
	out, err := evaluator(k.b.wide)(n.Op, in...)
	if err != nil {
		return nil, err
	}
	for j, v := range n.Out {
		if f, is := round[v]; is {
			out[j] = roundTo(f, out[j], nil)
		}
		of[v] = out[j]
	}
	return out, nil
}

// effect is [Question.effect] of the kept steps.
func (k *remembered) effect(q *Question, types []graph.Type, c Contract, f built) ([]float64, error) {
	b := expand(q.Graph, types, c.Form, f)
	values, err := b.values(c.Round)
	if !b.broken || err != nil { // the fault took the step away
		return nil, nil
	}
	return k.made(q, b, b.rounds(values, q.Narrow), nil)
}

// made evaluates steps, but for those that are kept ones. The first result that is another one it shows to local, if
// that is not nil, with what it was, and goes on if it says so; it returns nil if it does not, or nothing is another.
func (k *remembered) made(
	q *Question, b *builder, round rounded, local func(now, was *tensor.Tensor) bool,
) ([]float64, error) {
	of, same := make([]*tensor.Tensor, len(b.Values)), make([]int, len(b.Values)) // the kept value that each is, or -1
	for v := range same {
		same[v] = -1
		if t := b.Values[v].Const; t != nil {
			same[v] = slices.IndexFunc(k.b.Values, func(o graph.Value) bool { return o.Const != nil && sameNumbers(o.Const, t) })
		}
	}
	for i, v := range b.Inputs {
		if same[v] = -1; sameNumbers(q.Inputs[i], k.of[k.b.Inputs[i]]) {
			same[v] = k.b.Inputs[i]
		}
	}
	names := calls(b)
	var mine []*tensor.Tensor
	defer func() { release(mine...) }()
	err := walk(b, q.Inputs, func(v int, t *tensor.Tensor) { of[v] = t }, func(n *graph.Node) error {
		i, is := k.node[names[n]]
		if o := k.alike(b, n, i, same, round); is && o != nil {
			for j, v := range n.Out {
				same[v], of[v] = o.Out[j], k.of[o.Out[j]]
			}
			return nil
		}
		out, err := k.make(n, of, round)
		if err != nil {
			return err
		}
		for j, x := range out {
			if k.numbers += len(x.Data); n.Out[j] != b.Graph.Outputs[0] {
				mine = append(mine, x)
			}
		}
		if !is || len(k.b.Nodes[i].Out) != len(out) {
			return nil
		}
		for j, v := range n.Out {
			was := k.of[k.b.Nodes[i].Out[j]]
			switch {
			case sameNumbers(out[j], was):
				same[v] = k.b.Nodes[i].Out[j]
			case local != nil && !local(out[j], was):
				return errNotJudged
			default:
				local = nil
			}
		}
		return nil
	})
	if errors.Is(err, errNotJudged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return of[b.Graph.Outputs[0]].Data, nil
}

// alike is kept node i if a node does the same of the same, and nil if not.
func (k *remembered) alike(b *builder, n *graph.Node, i int, same []int, round rounded) *graph.Node {
	o := &k.b.Nodes[i]
	if len(o.In) != len(n.In) || len(o.Out) != len(n.Out) || !reflect.DeepEqual(o.Op, n.Op) {
		return nil
	}
	for j, v := range n.In {
		if same[v] != o.In[j] && !k.equal(b, v, o.In[j]) {
			return nil
		}
	}
	for j, v := range n.Out {
		mine, rounds := round[v]
		other, rounded := k.round[o.Out[j]]
		if rounds != rounded || mine != other {
			return nil
		}
	}
	return o
}

// equal reports whether two values are the same constant.
func (k *remembered) equal(b *builder, v, o int) bool {
	x, y := b.Values[v].Const, k.b.Values[o].Const
	return x != nil && y != nil && sameNumbers(x, y)
}

// sameNumbers reports whether two tensors are the same numbers.
func sameNumbers(x, y *tensor.Tensor) bool {
	return x == y || slices.Equal(x.Shape, y.Shape) && identical(x, y)
}
