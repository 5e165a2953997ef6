package trial

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// Graph is a graph in which operations may have faults: of its nodes those that the library knows, each as the node
// of an operator.
type Graph struct {
	*graph.Graph
	machine *emulate.Machine // its nodes, and behind them those that stand for its inputs
	device  emulate.Device
}

// NewGraph is that of a graph whose values have types, in a mode. All results are exact but those of half types.
func NewGraph(g *graph.Graph, mode graph.Mode, types func(v int) graph.Type) *Graph {
	at := make([]int, len(g.Values)) // the node that makes a value
	nodes := make([]operator.Node, len(g.Nodes), len(g.Nodes)+len(g.Inputs))
	for _, v := range g.Inputs {
		at[v] = len(nodes)
		nodes = append(nodes, operator.Node{Op: operator.OpOther})
	}
	d := emulate.Device{Mode: mode, State: fp16.Float64}
	if mode.Precision.Half() {
		d.Store = slices.Repeat([]fp16.Format{fp16.Float64}, len(nodes))
	}
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].Out {
			at[v] = i
		}
		nodes[i] = nodeOf(g, i, at, types)
		if f := types(g.Nodes[i].Out[0]).Format; d.Store != nil && f.Half() {
			d.Store[i] = f
		}
	}
	return &Graph{g, &emulate.Machine{Nodes: nodes}, d}
}

// nodeOf is a node of a graph as that of an operator: an OpOther if the library knows none of its kind.
func nodeOf(g *graph.Graph, i int, at []int, types func(v int) graph.Type) operator.Node {
	of := &g.Nodes[i]
	n := operator.Node{Op: operator.OpOther, Name: g.Name(of), Other: of.Op}
	for _, v := range of.In {
		if g.Values[v].Const == nil {
			n.In = append(n.In, at[v])
		}
	}
	param := func(k int) *operator.Param {
		if k >= len(of.In) || g.Values[of.In[k]].Const == nil {
			return nil
		}
		t := g.Values[of.In[k]].Const
		return &operator.Param{Shape: t.Shape, Data: t.Data}
	}
	switch op := of.Op.(type) {
	case graph.Conv:
		w := param(1)
		if len(n.In) == 1 && w != nil && len(w.Shape) == 4 && op.Groups <= 1 && !op.Same && w.Shape[2] == w.Shape[3] &&
			w.Shape[2]%2 == 1 && op.Params == conv.Square(max(1, op.Stride[0]), w.Shape[2]/2, op.Padding) {
			n.Op, n.Geometry, n.Weight, n.Bias = operator.OpConv, op.Params, w, param(2)
		}
	case graph.InstanceNorm:
		n.Norm, n.Eps = "instance", op.Eps
	case graph.GroupNorm:
		n.Norm, n.Eps, n.Groups = "group", op.Eps, op.Groups
	case graph.BatchNorm:
		if n.Mean, n.Variance = param(3), param(4); n.Mean != nil && n.Variance != nil {
			n.Norm, n.Eps = "batch", op.Eps
		}
	case graph.Act:
		n.Op, n.Act = operator.OpAct, op.Func
	case graph.Unary:
		if f, err := act.Parse(op.Name()); err == nil {
			n.Op, n.Act = operator.OpAct, f
		}
	case graph.Binary:
		if op == graph.Addition && len(n.In) == 2 && slices.Equal(types(of.In[0]).Shape, types(of.In[1]).Shape) &&
			skips(g, of.In[0], of.In[1]) {
			n.Op = operator.OpAdd
		}
	}
	if shape := types(of.In[0]).Shape; n.Norm != "" && len(n.In) == 1 && len(shape) > 1 {
		n.Weight, n.Bias = param(1), param(2)
		asNorm(&n, shape[1])
	}
	if n.Op != operator.OpOther {
		n.Other = nil
	}
	return n
}

// asNorm makes a node a norm of so many channels, with a scale and a shift.
func asNorm(n *operator.Node, channels int) {
	n.Op = operator.OpNorm
	if n.Weight == nil {
		n.Weight = &operator.Param{Shape: []int{channels}, Data: slices.Repeat([]float64{1}, channels)}
	}
	if n.Bias == nil {
		n.Bias = &operator.Param{Shape: []int{channels}, Data: make([]float64, channels)}
	}
	switch {
	case n.Norm == "instance":
		n.Groups = channels
	case n.Groups == 1:
		n.Norm = "layer"
	}
}

// skips reports whether the sum of two values is that of a block with what it skips: both follow from one value, the
// second by no more than a product.
func skips(g *graph.Graph, block, skipped int) bool {
	from := map[int]bool{block: true} // what the block follows from
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		if slices.ContainsFunc(n.Out, func(v int) bool { return from[v] }) {
			for _, v := range n.In {
				from[v] = from[v] || g.Values[v].Const == nil
			}
		}
		if _, is := n.Op.(graph.Conv); is && slices.Contains(n.Out, skipped) {
			skipped = n.In[0]
		}
	}
	return from[skipped]
}

// Scopes are where a fault can act: on all nodes that can have it, and if alone is set on each of them alone.
func (g *Graph) Scopes(h *Fault, alone bool) (all []Scope) {
	if !h.On() {
		return nil
	}
	windows := 0
	for i := range g.Nodes {
		if n := &g.machine.Nodes[i]; reads(n) && h.At(n) {
			if all = append(all, Scope(i)); emulate.IsWindow(n) {
				windows++
			}
		}
	}
	switch {
	case alone && len(all) > 1 && !h.Whole:
		return all
	case alone || len(all) == 0:
		return nil
	case windows > 0 && windows < len(all):
		return []Scope{Everywhere, Windows}
	}
	return []Scope{Everywhere}
}

// Name says where a fault acts, "" for everywhere.
func (g *Graph) Name(s Scope) string {
	if s < 0 {
		return ""
	}
	return g.Graph.Name(&g.Nodes[s])
}

// With is the graph with a fault.
func (g *Graph) With(h *Fault, s Scope) *graph.Graph {
	to := *g.Graph
	to.Nodes, to.Kept = slices.Clone(g.Nodes), new(graph.Kept)
	for i := range to.Nodes {
		if n := &g.machine.Nodes[i]; reads(n) && s.Acts(h, i, n) {
			to.Nodes[i].Op = faulty{to.Nodes[i].Op, g, h, i}
		}
	}
	return &to
}

// reads reports whether a node has inputs that are no constants.
func reads(n *operator.Node) bool { return len(n.In) > 0 }

// faulty is an operation with a fault. It takes its inputs as they are stored, and rounds operands itself.
type faulty struct {
	graph.Op
	g    *Graph
	h    *Fault
	node int
}

// Name implements [graph.Op]: no rule is for it.
func (o faulty) Name() string { return "faulty_" + o.Op.Name() }

// Infer implements [graph.Op].
func (o faulty) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	inferred, err := o.Op.Infer(m, in)
	inferred.Operands = nil
	return inferred, err
}

// Eval implements [graph.Op]: where there is no such fault of these inputs, it does what is right.
func (o faulty) Eval(c *graph.Call) error {
	m := o.g.machine
	n, outputs := &m.Nodes[o.node], make([]*tensor.Tensor, len(m.Nodes))
	next := 0
	for k, v := range o.g.Nodes[o.node].In {
		if o.g.Values[v].Const == nil {
			outputs[n.In[next]] = images(c.In(k))
			next++
		}
	}
	device := o.g.device
	v := &View{Machine: m, Device: &device, Outputs: outputs}
	v.faulty(o.h, o.node, &device)
	if n.Op == operator.OpOther { // of which it is only known how it is stored
		err := o.Op.Eval(c)
		if device.Store != nil && err == nil {
			device.Store[o.node].RoundSlice(c.Out[0].Data, c.Out[0].Data)
		}
		return err
	}
	in := make([]*tensor.Tensor, len(n.In))
	for k := range in {
		in[k] = v.In(o.node, k)
	}
	y, err := m.Node(&device, o.node, in, nil)
	if err != nil {
		return err
	}
	if len(y.Data) != len(c.Out[0].Data) {
		return fmt.Errorf("%d numbers: want %d", len(y.Data), len(c.Out[0].Data))
	}
	copy(c.Out[0].Data, y.Data)
	return nil
}

// images is a tensor of any shape as one of images, which have samples, channels, rows and columns.
func images(x *tensor.Tensor) *tensor.Tensor {
	shape := []int{1, 1, 1, 1}
	for k, n := range x.Shape {
		shape[min(k, 3)] *= n
	}
	return tensor.Of(fp16.Float64, x.Data, shape...)
}
