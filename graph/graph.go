package graph

import (
	"fmt"

	"github.com/refrun/refrun/tensor"
)

// Graph is a network: every tensor in it, and the nodes that make them, in an
// order in which each reads what is there before it. It is safe for concurrent
// use once it is built.
type Graph struct {
	Values  []Value
	Nodes   []Node
	Inputs  []int // values that are given
	Outputs []int // values that are wanted

	// Kept is what operations have made of constants, such as packed weights.
	Kept *Kept
}

// Value is one tensor of a graph: an input, a constant, or an output of a node.
type Value struct {
	// Name is PyTorch's name of the module or of the parameter whose tensor it is;
	// "" for one without a name.
	Name string
	// Also are the names of modules that hand the tensor on: a dropout in
	// evaluation, and blocks that end with it.
	Also []string
	// Const is the tensor of a constant. Its numbers are of the format that it
	// says in every mode but float64, where all numbers are.
	Const *tensor.Tensor
}

// Node applies an operation to values.
type Node struct {
	Op      Op
	In, Out []int
}

// New returns an empty graph that keeps what operations make of constants in kept, which
// graphs of the same constants may share; nil is one of its own.
func New(kept *Kept) *Graph {
	if kept == nil {
		kept = new(Kept)
	}
	return &Graph{Kept: kept}
}

// Name returns what messages call a node: the name of its first output.
func (g *Graph) Name(n *Node) string { return g.Values[n.Out[0]].Name }

// Input adds an input of that name and returns its value.
func (g *Graph) Input(name string) int {
	g.Values = append(g.Values, Value{Name: name})
	g.Inputs = append(g.Inputs, len(g.Values)-1)
	return len(g.Values) - 1
}

// Constant adds a constant, which is shared and must not be changed, and returns
// its value.
func (g *Graph) Constant(name string, t *tensor.Tensor) int {
	g.Values = append(g.Values, Value{Name: name, Const: t})
	return len(g.Values) - 1
}

// Add adds a node with one output of that name and returns the output's value.
//
//go:noinline
func (g *Graph) Add(op Op, name string, in ...int) int {
	// It is called in many places, none of which is hot: a copy in each is code for nothing.
	g.Values = append(g.Values, Value{Name: name})
	out := len(g.Values) - 1
	g.Nodes = append(g.Nodes, Node{Op: op, In: in, Out: []int{out}})
	return out
}

// AddNode adds a node with that many outputs, the first of that name and the others of
// name:1, name:2 and so on, and returns their values.
func (g *Graph) AddNode(op Op, name string, outputs int, in ...int) []int {
	n := Node{Op: op, In: in}
	for k := range outputs {
		v := Value{Name: name}
		if k > 0 {
			v.Name = fmt.Sprintf("%s:%d", name, k)
		}
		g.Values = append(g.Values, v)
		n.Out = append(n.Out, len(g.Values)-1)
	}
	g.Nodes = append(g.Nodes, n)
	return n.Out
}

// Pass notes a module that hands a value on, and returns the value.
func (g *Graph) Pass(name string, value int) int {
	v := &g.Values[value]
	v.Also = append(v.Also, name)
	return value
}
