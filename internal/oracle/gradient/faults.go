package gradient

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// Faults of gradients are made of the graph itself. A path that is detached is a term that is not added, and what is
// forgotten of the chain rule is a factor that is left out. Where a backward kernel belongs to another function, its
// graph is that of the other function.

// wrong are graphs of gradients with a fault each, for one output: of a graph those with a fault in one node, and the
// gradients of forward graphs with a fault.
func (q *Question) wrong(names []string) func(of *graph.Graph, output int) []judge.Wrong {
	return func(of *graph.Graph, output int) (all []judge.Wrong) {
		p, err := of.Infer(graph.Mode{Precision: fp16.Float64}, typesOf(q.given())...)
		if err != nil {
			return nil
		}
		read := map[int]bool{of.Outputs[output]: true}
		for i := len(of.Nodes) - 1; i >= 0; i-- {
			n := &of.Nodes[i]
			if !slices.ContainsFunc(n.Out, func(v int) bool { return read[v] }) {
				continue
			}
			for _, v := range n.In {
				read[v] = true
			}
			for _, f := range faultsOf(n, p.Type) {
				all = append(all, judge.Wrong{ID: f.id, At: of.Name(n), Graph: with(of, i, f)})
			}
		}
		for k, v := range of.Outputs {
			if k != output && slices.Equal(p.Type(v).Shape, p.Type(of.Outputs[output]).Shape) {
				g := *of
				g.Outputs = slices.Clone(of.Outputs)
				g.Outputs[output] = v
				all = append(all, judge.Wrong{ID: "kernel.other-output", At: of.Values[v].Name, Graph: &g})
			}
		}
		for _, f := range q.forwards() {
			w := *q
			w.Graph = f.graph
			graphs, err := w.graphs(names)
			if err != nil {
				continue
			}
			for _, g := range graphs {
				all = append(all, judge.Wrong{ID: f.id, Graph: g})
			}
		}
		return all
	}
}

// adder adds a node of one output to a graph, before the one that is changed.
type adder func(op graph.Op, in ...int) int

// fault is what a node becomes: an operation and its inputs, some of which it may add.
type fault struct {
	id   string
	node func(add adder) (graph.Op, []int)
}

// with is a graph whose node i has a fault.
func with(g *graph.Graph, i int, f fault) *graph.Graph {
	w := *g
	w.Values = slices.Clone(g.Values)
	var before []graph.Node
	op, in := f.node(func(op graph.Op, in ...int) int {
		w.Values = append(w.Values, graph.Value{Name: g.Name(&g.Nodes[i]) + ".fault"})
		v := len(w.Values) - 1
		before = append(before, graph.Node{Op: op, In: in, Out: []int{v}})
		return v
	})
	w.Nodes = slices.Concat(g.Nodes[:i:i], before, []graph.Node{{Op: op, In: in, Out: g.Nodes[i].Out}}, g.Nodes[i+1:])
	return &w
}

// found are the faults of a node.
type found struct {
	all []fault
	n   *graph.Node
	of  func(v int) graph.Type
}

// as adds the fault that the node is another operation.
func (f *found) as(id string, op graph.Op, in ...int) {
	f.all = append(f.all, fault{id, func(adder) (graph.Op, []int) { return op, in }})
}

// only adds the fault that the node hands one input on, if that has the shape of its result.
func (f *found) only(id string, k int) {
	if v := f.n.In[k]; slices.Equal(f.of(v).Shape, f.of(f.n.Out[0]).Shape) && f.of(v).Format == f.of(f.n.Out[0]).Format {
		f.as(id, graph.Act{Func: act.Identity}, v)
	}
}

// faultsOf are the faults that a node can have.
func faultsOf(n *graph.Node, of func(v int) graph.Type) []fault {
	f := &found{n: n, of: of}
	switch op := n.Op.(type) {
	case graph.Binary:
		f.binary(op)
	case graph.Unary:
		switch op.Name() {
		case "neg":
			f.only("kernel.sign-other", 0)
		case "square", "exp", "sigmoid", "erf":
			f.only("kernel.factor-missing", 0)
		}
	case graph.Where: // between what is shown and a number
		for k := 1; k < 3; k++ {
			if len(of(n.In[3-k]).Shape) == 0 {
				f.only("kernel.mask-missing", k)
			}
		}
	case graph.Cast: // a mask as numbers
		if of(n.In[0]).Format == fp16.Int64 {
			f.all = append(f.all, fault{"kernel.mask-missing", func(add adder) (graph.Op, []int) {
				return op, []int{add(with1(pointwise.Add, 1), add(with1(pointwise.Mul, 0), n.In[0]))}
			}})
		}
	case graph.Reduction:
		f.reduction(op)
	case graph.ConvTranspose:
		f.all = append(f.all, fault{"kernel.weight-flipped", func(add adder) (graph.Op, []int) {
			return op, []int{n.In[0], add(graph.Flip{Axes: graph.Ints{2, 3}}, n.In[1])}
		}})
	case graph.IndexAdd:
		if op.Axis == 0 {
			f.all = append(f.all, fault{"kernel.last-one-stays", func(add adder) (graph.Op, []int) {
				rows := add(graph.Unsqueeze{Axes: graph.Ints{1}}, n.In[1])
				return graph.ScatterND{Reduce: "none"}, []int{n.In[0], rows, n.In[2]}
			}})
		}
	}
	return f.all
}

// usualEps are those of libraries, and mostEps is as large as one is: a number that is added to a variance.
var usualEps = []float64{1e-12, 1e-8, 1e-7, 1e-6, 0x1p-23, 1e-5, 1e-4, 1e-3, 1e-2}

const mostEps = 0.1

// with1 is an operation with a number.
func with1(of pointwise.Op, number float64) graph.Op { return graph.Binary{Of: of, Other: &number} }

// binary are the faults of sums and products.
func (f *found) binary(op graph.Binary) {
	two := len(f.n.In) == 2
	switch {
	case op.Alpha != nil:
	case op.Of == pointwise.Add || op.Of == pointwise.Sub:
		if op.Self == nil {
			f.only("kernel.term-missing", 0)
		}
		if two && op.Of == pointwise.Add {
			f.only("kernel.term-missing", 1)
		}
		last := len(f.n.In) - 1
		f.all = append(f.all, fault{"kernel.term-missing", func(add adder) (graph.Op, []int) { // the first one
			if op.Of == pointwise.Add || op.Other != nil {
				return graph.Binary{Of: pointwise.Mul, Other: new(float64)}, f.n.In[:1]
			}
			return with1(pointwise.Mul, -1), f.n.In[last:]
		}})
		if op.Of == pointwise.Add && op.Other != nil && *op.Other > 0 && *op.Other <= mostEps {
			for _, eps := range usualEps {
				if eps != *op.Other {
					f.as("kernel.eps-other", with1(pointwise.Add, eps), f.n.In[0])
				}
			}
		}
		other := op
		other.Of = pointwise.Add + pointwise.Sub - op.Of
		f.as("kernel.sign-other", other, f.n.In...)
	case op.Of == pointwise.Mul || op.Of == pointwise.Div && op.Self == nil:
		f.only("kernel.factor-missing", 0)
		if two && op.Of == pointwise.Mul {
			f.only("kernel.factor-missing", 1)
			for k := range 2 {
				f.all = append(f.all, fault{"kernel.factor-twice", func(add adder) (graph.Op, []int) {
					return op, []int{add(op, f.n.In...), f.n.In[k]}
				}})
			}
		}
		if op.Other != nil {
			f.as("kernel.factor-twice", with1(op.Of, *op.Other**op.Other), f.n.In[0])
		}
	}
}

// reduction are the faults of sums: a mean for a sum, and of several axes one of which the first alone is taken.
func (f *found) reduction(op graph.Reduction) {
	other := op
	switch op.Of {
	case "sum":
		other.Of = "mean"
		f.as("kernel.mean-for-sum", other, f.n.In...)
	case "mean":
		other.Of = "sum"
		f.as("kernel.sum-for-mean", other, f.n.In...)
	default:
		return
	}
	shape := f.of(f.n.In[0]).Shape
	if len(op.Axes) < 2 {
		return
	}
	for _, a := range op.Axes {
		a = (a + len(shape)) % len(shape)
		if shape[a] > 1 {
			f.all = append(f.all, fault{"kernel.axis-not-summed", func(add adder) (graph.Op, []int) {
				return op, []int{add(graph.Slice{Axes: graph.Ints{a}, Start: graph.Ints{0}, End: graph.Ints{1}}, f.n.In[0])}
			}})
		}
	}
}

// wrongForward is a forward graph with a fault.
type wrongForward struct {
	id    string
	graph *graph.Graph
}

// forwards are the forward graphs with a fault that a backward kernel may belong to.
func (q *Question) forwards() (all []wrongForward) {
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		as := func(id string, op graph.Op, in ...int) *graph.Graph {
			w := *q.Graph
			w.Values, w.Nodes = slices.Clone(w.Values), slices.Clone(w.Nodes)
			w.Nodes[i] = graph.Node{Op: op, In: in, Out: n.Out}
			all = append(all, wrongForward{id, &w})
			return &w
		}
		switch op := n.Op.(type) {
		case graph.Act:
			if op.Func == act.GELU {
				as("kernel.tanh-gelu", graph.Act{Func: act.GELUTanh}, n.In...)
			} else if op.Func == act.GELUTanh {
				as("kernel.erf-gelu", graph.Act{Func: act.GELU}, n.In...)
			}
		case graph.Attention:
			q.attentions(op, n, as)
		}
	}
	return all
}

// attentions are attentions with another scale, and with another mask or none.
func (q *Question) attentions(
	op graph.Attention, n *graph.Node, as func(id string, op graph.Op, in ...int) *graph.Graph,
) {
	p, err := q.Graph.Infer(graph.Mode{Precision: fp16.Float64}, typesOf(q.Inputs)...)
	if err != nil {
		return
	}
	query, key := p.Type(n.In[0]).Shape, p.Type(n.In[1]).Shape
	scale := 1 / math.Sqrt(float64(query[len(query)-1]))
	if op.Scale != nil {
		scale = *op.Scale
	}
	for id, s := range map[string]float64{"kernel.scale-missing": 1, "kernel.scale-twice": float64(scale * scale)} {
		scaled := op
		scaled.Scale = &s
		as(id, scaled, n.In...)
	}
	bare := op
	bare.Causal = false
	if len(n.In) > 3 {
		as("kernel.mask-missing", bare, n.In[:3]...)
	}
	if !op.Causal {
		return
	}
	as("kernel.mask-missing", bare, n.In...)
	w := as("kernel.mask-off-by-one", bare)
	queries, keys := query[len(query)-2], key[len(key)-2]
	mask := tensor.New(fp16.Int64, queries, keys)
	for i := range queries {
		for j := range min(i+2, keys) {
			mask.Data[i*keys+j] = 1
		}
	}
	w.Nodes[slices.IndexFunc(w.Nodes, func(o graph.Node) bool { return o.Out[0] == n.Out[0] })].In = append(
		slices.Clone(n.In), w.Constant("mask", mask),
	)
}
