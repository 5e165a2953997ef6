package grad

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// Unsupported is the error of Of that lists every node without a rule: its name, its operation
// and the reason.
type Unsupported []string

// Error returns all of them in one line.
func (u Unsupported) Error() string {
	const most = 8
	list := u
	if len(u) > most {
		list = append(slices.Clone(u[:most]), fmt.Sprintf("and %d more", len(u)-most))
	}
	return "grad: " + strings.Join(list, "; ")
}

// none is the gradient of a value to which nothing has come.
const none = -1

// Of returns the graph with further outputs: the gradients by some of its inputs, in that order,
// of a value, or of the sum of its numbers if it has several. Their names are grad(NAME). Values
// and nodes of the given graph keep their numbers. The result is for inputs of those types in that
// mode, whose sizes are in its nodes, and shares the constants.
//
// A graph that cannot be inferred is an error, and so is a value of whole numbers. What has no rule
// is of type [Unsupported].
func Of(g *graph.Graph, m graph.Mode, of int, by []int, in ...graph.Type) (*graph.Graph, error) {
	p, err := g.Infer(m, in...)
	if err != nil {
		return nil, err
	}
	for _, v := range append([]int{of}, by...) {
		if p.Type(v).Format == fp16.Int64 {
			return nil, fmt.Errorf("grad: %q: whole numbers: want floating-point ones", g.Values[v].Name)
		}
	}
	t := begin(g, m, p, by)
	if t.active[of] {
		t.node = g.Values[of].Name
		t.grads[of] = t.full(1, t.types[of])
	}
	if err := t.walk(g, by); err != nil {
		return nil, err
	}
	return t.graph, nil
}

// begin is the tape of a graph, with no gradient so far.
func begin(g *graph.Graph, m graph.Mode, p *graph.Program, by []int) *tape {
	t := &tape{
		mode: m, names: map[string]int{}, constants: map[string]int{}, grads: slices.Repeat([]int{none}, len(g.Values)),
	}
	t.graph = &graph.Graph{Values: slices.Clone(g.Values), Nodes: slices.Clone(g.Nodes), Inputs: slices.Clone(g.Inputs),
		Outputs: slices.Clone(g.Outputs), Kept: g.Kept}
	for v := range g.Values {
		t.types = append(t.types, p.Type(v))
	}
	t.active = active(p, g, by)
	return t
}

// walk adds the gradients of all nodes, from the last to the first, and those by some inputs as outputs.
func (t *tape) walk(g *graph.Graph, by []int) error {
	for i := len(g.Nodes) - 1; i >= 0 && t.err == nil; i-- {
		t.back(&g.Nodes[i])
	}
	if len(t.refused) > 0 {
		slices.Reverse(t.refused) // in the order of the graph
		return Unsupported(t.refused)
	}
	for _, v := range by {
		d := t.grads[v]
		if d == none {
			t.node = g.Values[v].Name
			d = t.full(0, t.types[v])
		}
		t.graph.Outputs = append(t.graph.Outputs, t.graph.Add(graph.Act{Func: act.Identity}, "grad("+g.Values[v].Name+")", d))
	}
	return t.err
}

// active returns which values depend on one of those inputs by floating-point numbers.
func active(p *graph.Program, g *graph.Graph, by []int) []bool {
	is := make([]bool, len(g.Values))
	for _, v := range by {
		is[v] = true
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if flat[n.Op.Name()] || !slices.ContainsFunc(n.In, func(v int) bool { return is[v] }) {
			continue
		}
		for _, v := range n.Out {
			is[v] = p.Type(v).Format != fp16.Int64
		}
	}
	return is
}

// tape is the graph that grows, and the gradients so far.
type tape struct {
	graph   *graph.Graph
	mode    graph.Mode
	types   []graph.Type // by value
	active  []bool       // values of the given graph that have gradients
	grads   []int        // of them, or none
	refused []string
	err     error // of an operation that a rule applies
	form    Form
	saved   map[string]*saved

	node      string         // the name of the node at work
	names     map[string]int // how many nodes its gradient has so far
	constants map[string]int // by what they are
}

// step is one node whose gradients are wanted.
type step struct {
	*tape
	op      graph.Op
	in, out []int
	g       []int // the gradients by the outputs, or none
	x, y, d int   // the first input and the first output and its gradient
}

// back adds the gradients of one node.
func (t *tape) back(n *graph.Node) {
	s := &step{tape: t, op: n.Op, in: n.In, out: n.Out, x: none, y: n.Out[0]}
	for _, v := range n.Out {
		s.g = append(s.g, t.grads[v])
	}
	if s.d = s.g[0]; !slices.ContainsFunc(s.g, func(d int) bool { return d != none }) ||
		!slices.ContainsFunc(n.In, func(v int) bool { return t.active[v] }) {
		return
	}
	if len(n.In) > 0 {
		s.x = n.In[0]
	}
	t.node = t.graph.Name(n)
	r, ok := t.form.rule(n.Op.Name())
	if !ok {
		s.refuse("no rule")
		return
	}
	if s.d == none && !severalOutputs[n.Op.Name()] {
		return // of a place only, which has no gradient
	}
	r(s)
}

// refuse notes that there is no rule for the node.
func (s *step) refuse(why string) {
	s.refused = append(s.refused, fmt.Sprintf("%s: %s: %s", s.node, s.op.Name(), why))
}

// wants reports whether input k is there and has a gradient.
func (s *step) wants(k int) bool { return k < len(s.in) && s.active[s.in[k]] }

// give adds a gradient by input k, spread or summed to the input's shape and in its format.
func (s *step) give(k, d int) {
	if !s.wants(k) || s.err != nil {
		return
	}
	v := s.in[k]
	want := s.types[v]
	d = s.fit(d, want.Shape)
	if s.err != nil {
		return
	}
	if f := s.types[d].Format; f != want.Format {
		d = s.apply(graph.Cast{Dtype: want.Format.String()}, d)
	}
	if s.grads[v] == none {
		s.grads[v] = d
	} else {
		s.grads[v] = s.add(s.grads[v], d)
	}
}

// apply adds a node of one output and returns the output's value; after an error it does nothing.
//
// It is called in many places, none of which is hot: a copy in each is code for nothing.
//
//go:noinline
func (t *tape) apply(op graph.Op, in ...int) int { return t.applyAll(op, 1, in...)[0] }

func (t *tape) applyAll(op graph.Op, outputs int, in ...int) []int {
	if t.err != nil {
		return slices.Repeat([]int{0}, outputs)
	}
	of := make([]graph.Type, len(in))
	for k, v := range in {
		of[k] = t.types[v]
	}
	inferred, err := op.Infer(t.mode, of)
	if err != nil {
		t.err = fmt.Errorf("grad: %s: %s: %w", t.node, op.Name(), err)
		return slices.Repeat([]int{0}, outputs)
	}
	t.names[t.node]++
	name := fmt.Sprintf("%s.backward%d", t.node, t.names[t.node])
	out := t.graph.AddNode(op, name, outputs, in...)
	t.types = append(t.types, inferred.Out...)
	return out
}

// full returns a constant of that type whose numbers are all the same.
func (t *tape) full(value float64, of graph.Type) int {
	key := fmt.Sprint(value, of)
	if v, ok := t.constants[key]; ok {
		return v
	}
	c := tensor.New(of.Format, of.Shape...)
	for i := range c.Data {
		c.Data[i] = value
	}
	return t.constant(key, c)
}

// constant returns a constant, added under a key that says all of it.
func (t *tape) constant(key string, c *tensor.Tensor) int {
	if v, ok := t.constants[key]; ok {
		return v
	}
	v := t.graph.Constant("constant "+key, c)
	t.types = append(t.types, graph.Type{Shape: c.Shape, Format: c.Format})
	t.constants[key] = v
	return v
}

// index returns a constant line of whole numbers.
func (t *tape) index(of []int) int {
	c := tensor.New(fp16.Int64, len(of))
	for i, v := range of {
		c.Data[i] = float64(v)
	}
	return t.constant(fmt.Sprint("index ", of), c)
}

// zeros returns a constant of zeros like a value.
func (t *tape) zeros(v int) int { return t.full(0, t.types[v]) }

// shape returns the shape of a value.
func (t *tape) shape(v int) []int { return t.types[v].Shape }
