// Package part cuts graphs at the values of which a device's numbers are known.
package part

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
)

// Part is what makes a value of a graph of others.
type Part struct {
	*graph.Graph
	From []int // the values of the whole graph that are its inputs
}

// To returns the part of a graph that makes a value of known ones. What is known and made of nothing, an input of the
// graph or a constant, is handed on by a node of the value's name.
func To(g *graph.Graph, end int, known func(v int) bool) (*Part, error) {
	made := slices.ContainsFunc(g.Nodes, func(n graph.Node) bool { return slices.Contains(n.Out, end) })
	needed := map[int]bool{end: true}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		if slices.ContainsFunc(n.Out, func(v int) bool { return needed[v] && (!known(v) || v == end) }) {
			for _, v := range n.In {
				needed[v] = true
			}
		}
	}
	p, of := &Part{Graph: graph.New(new(graph.Kept))}, map[int]int{}
	for i := range g.Values {
		switch c := g.Values[i].Const; {
		case !needed[i] || i == end && made:
		case c != nil:
			of[i] = p.Constant(g.Values[i].Name, c)
		case known(i):
			of[i] = p.Input(g.Values[i].Name)
			p.From = append(p.From, i)
		}
	}
	for i := range g.Nodes {
		if err := p.add(g, i, needed, of); err != nil {
			return nil, err
		}
	}
	if !made {
		same, err := graph.Bind("identity", nil)
		if err != nil {
			return nil, err
		}
		of[end] = p.Add(same, g.Values[end].Name, of[end])
	}
	p.Outputs = []int{of[end]}
	return p, nil
}

// add adds node i of a graph, if what it makes is needed.
func (p *Part) add(g *graph.Graph, i int, needed map[int]bool, of map[int]int) error {
	n := &g.Nodes[i]
	if !slices.ContainsFunc(n.Out, func(v int) bool { _, have := of[v]; return needed[v] && !have }) {
		return nil
	}
	var in []int
	for _, v := range n.In {
		w, ok := of[v]
		if !ok {
			return fmt.Errorf("made of %q, which nothing makes", g.Values[v].Name)
		}
		in = append(in, w)
	}
	out := p.AddNode(n.Op, g.Name(n), len(n.Out), in...)
	for k, v := range n.Out {
		if _, have := of[v]; !have {
			of[v] = out[k]
		}
	}
	return nil
}
