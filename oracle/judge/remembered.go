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
	node  map[string]int   // by name
}

// keep evaluates steps; nil if they are too many to be kept.
func (q *Question) keep(t *trial) (*remembered, error) {
	k := &remembered{b: t.b, round: t.round, of: make([]*tensor.Tensor, len(t.b.Values)), node: map[string]int{}}
	n := 0
	err := walk(t.b, q.Inputs, func(v int, x *tensor.Tensor) { k.of[v] = x }, func(node *graph.Node) error {
		if n > mostRemembered {
			return errTooMany
		}
		out, err := k.make(node, k.of, t.round)
		for _, x := range out {
			n += len(x.Data)
		}
		return err
	})
	if errors.Is(err, errTooMany) {
		return nil, nil
	}
	for i := range t.b.Nodes {
		k.node[t.b.Name(&t.b.Nodes[i])] = i
	}
	return k, err
}

var errTooMany = errors.New("more numbers than are kept")

// make evaluates a node.
func (k *remembered) make(n *graph.Node, of []*tensor.Tensor, round rounded) ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(n.In))
	for j, v := range n.In {
		in[j] = of[v]
	}
	out, err := apply(n.Op, in...)
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
	round := b.rounds(values, q.Narrow)
	of, same := make([]*tensor.Tensor, len(b.Values)), make([]int, len(b.Values)) // the kept value that each is, or -1
	for v := range same {
		same[v] = -1
		if t := b.Values[v].Const; t != nil {
			same[v] = slices.IndexFunc(k.b.Values, func(o graph.Value) bool { return o.Const == t })
		}
	}
	for i, v := range b.Inputs {
		same[v] = k.b.Inputs[i]
	}
	err = walk(b, q.Inputs, func(v int, t *tensor.Tensor) { of[v] = t }, func(n *graph.Node) error {
		if o := k.alike(b, n, same, round); o != nil {
			for j, v := range n.Out {
				same[v], of[v] = o.Out[j], k.of[o.Out[j]]
			}
			return nil
		}
		_, err := k.make(n, of, round)
		return err
	})
	if errors.Is(err, errNotJudged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return of[b.Graph.Outputs[0]].Data, nil
}

// alike is the kept node that does the same of the same, nil if there is none.
func (k *remembered) alike(b *builder, n *graph.Node, same []int, round rounded) *graph.Node {
	i, is := k.node[b.Name(n)]
	if !is {
		return nil
	}
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

// equal reports whether two constants are the same number.
func (k *remembered) equal(b *builder, v, o int) bool {
	x, y := b.Values[v].Const, k.b.Values[o].Const
	return x != nil && y != nil && len(x.Data) == 1 && len(y.Data) == 1 && x.Data[0] == y.Data[0] &&
		slices.Equal(x.Shape, y.Shape)
}
