package lower

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// A library's LSTM, such as oneDNN's in PyTorch on a CPU, has the products of a step's input and of the state before in
// one sum, and all else of a step in one kernel. It stores the state and the cell's, which a step reads as they are
// stored. PyTorch gives oneDNN the sum of both biases, stored; others keep it.

// gates are two linear layers, by their nodes, of whose sum a step's gates are: one of the state before, and one of the
// inputs of all steps.
type gates struct{ state, input int }

// recurrences are the gates of recurrent layers, by the node that adds them. Nothing else reads what their layers make.
func recurrences(g *graph.Graph) map[int]gates {
	all, makes := map[int]gates{}, make([]int, len(g.Values))
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].Out {
			makes[v] = i + 1
		}
	}
	linear := func(v int, moved bool) int { // the node of which a value is, or a part; -1 of others
		for moved && makes[v] > 0 && carries(g.Nodes[makes[v]-1].Op) {
			v = g.Nodes[makes[v]-1].In[0]
		}
		if i := makes[v] - 1; i >= 0 && len(g.Nodes[i].In) == 3 {
			if _, is := g.Nodes[i].Op.(graph.Linear); is {
				return i
			}
		}
		return -1
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Op.Name() != "add" || len(n.In) != 2 {
			continue
		}
		for k, v := range n.In {
			of := gates{linear(v, false), linear(n.In[1-k], true)}
			if of.state >= 0 && of.input >= 0 && of.state != of.input {
				all[i] = of
				break
			}
		}
	}
	for again := true; again; {
		again = false
		for i, of := range all {
			alone := func(node int) bool {
				r := readersOf(g, node)
				return !r.output && !slices.ContainsFunc(r.nodes, func(k int) bool { _, is := all[k]; return !is })
			}
			if !alone(of.state) || !alone(of.input) {
				delete(all, i)
				again = true
			}
		}
	}
	return all
}

// recurrent are contracts of graphs with recurrent layers: all of them is in the half type, under autocast too.
func (c Claim) recurrent(k Contract) []Contract {
	k.kernels, k.steps, k.pure = true, true, !c.Pure
	k.Name = "a step of a recurrent layer is one kernel, which keeps float32"
	wide := k
	wide.wideBias, wide.Name = true, k.Name+", biases too"
	return []Contract{k, wide}
}

// addend adds the product of one of the layers, with its operands in the half type, and keeps its bias for the gates.
func (l *lowering) addend(i, at int, name string) {
	n := &l.from.Nodes[i]
	half, _ := l.claim.Narrow()
	in := make([]int, len(n.In))
	for k, v := range n.In {
		in[k] = l.round(v, half)
	}
	l.biases[i] = in[2]
	y, out := l.to.Add(n.Op, name+".product", in[:2]...), n.Out[0]
	l.of[out], l.made[out], l.late[out], l.kernel[out] = y, y, true, at
}

// gate adds the gates of a step: both products and the sum of their biases.
func (l *lowering) gate(n *graph.Node, of gates, name string, in []int) int {
	b := l.to.Add(graph.Addition, name+".bias", l.biases[of.state], l.biases[of.input])
	if !l.wideBias {
		b = l.to.Add(graph.Cast{Dtype: l.p.Type(n.Out[0]).Format.String()}, name+".bias.stored", b)
	}
	return l.to.Add(graph.Addition, name, l.to.Add(graph.Addition, name+".products", in[0], in[1]), b)
}

// inHalf are types with a half type in place of float32.
func inHalf(types []graph.Type, half fp16.Format) []graph.Type {
	types = slices.Clone(types)
	for i := range types {
		if types[i].Format == fp16.Float32 {
			types[i].Format = half
		}
	}
	return types
}
