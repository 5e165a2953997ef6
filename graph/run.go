package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Run is one evaluation of a program.
type Run struct {
	// Draws supplies the noise; nil for none.
	Draws noise.Draws
	// Time is what schedules of noise see; the zero value is Spinlock's step=None.
	Time noise.Time
	// Known are tensors of values, by value, that are taken as they are; nodes that
	// only make known values, or what nobody needs, are not evaluated. So a part
	// is evaluated again: what does not change is known.
	Known []*tensor.Tensor
	// Seen, if not nil, is called with every value that a node has made. The tensor
	// must not be changed, and not read after the call returns unless it is copied.
	Seen func(value int, t *tensor.Tensor)
	// Make, if not nil, may make the output of a node of one output, for inputs as they
	// are stored, in place of the operation: as a device does, or with a fault. It may be
	// of another format than the inferred one, and may be an input. nil leaves it to the
	// operation.
	Make func(node int, in []*tensor.Tensor) (*tensor.Tensor, error)
	// Gone, if not nil, is called with every value that a node has made when no other node
	// will read it.
	Gone func(value int, t *tensor.Tensor)

	call Call            // Eval's memory
	then func(at, n int) // EvalThen's
}

// Run evaluates the program for those inputs, whose types must be the inferred
// ones, and returns the outputs. A tensor is let go when nobody needs it any more.
func (p *Program) Run(r *Run, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := p.Within(p.peak); err != nil {
		return nil, err
	}
	g := p.graph
	of := make([]*tensor.Tensor, len(g.Values))
	copy(of, r.Known)
	for k, v := range g.Inputs {
		if t := p.types[v]; in[k].Format != t.Format || !slices.Equal(in[k].Shape, t.Shape) {
			panic("graph: input of another type than the program's")
		}
		of[v] = in[k]
	}
	for i := range g.Values {
		if c := g.Values[i].Const; c != nil {
			of[i] = p.constant(c)
		}
	}
	last, made := p.last(of), make([]bool, len(g.Values))
	memory, until := p.memory(of, last)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v int) bool { return of[v] == nil && last[v] >= 0 }) {
			continue
		}
		var over *tensor.Tensor // its first input, where nobody else has its memory
		if v := n.In; len(v) > 0 && made[memory[v[0]]] && until[memory[v[0]]] == i && r.Seen == nil && r.Make == nil &&
			!slices.ContainsFunc(v[1:], func(w int) bool { return memory[w] == memory[v[0]] }) {
			over = of[v[0]]
		}
		for _, v := range n.Out {
			made[v] = of[v] == nil
		}
		mine, err := r.make(n, i, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name(n), err)
		}
		if v := n.Out[0]; mine != nil {
			of[v] = mine
		} else if memory[v] != v {
			of[v] = &tensor.Tensor{Shape: slices.Clone(p.types[v].Shape), Format: p.types[v].Format, Data: of[n.In[0]].Data}
		} else if err := p.eval(r, i, of, over); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name(n), err)
		}
		leave := func(v int) {
			if last[v] > i {
				return
			}
			if r.Gone != nil && made[v] && of[v] != nil {
				r.Gone(v, of[v])
			}
			of[v] = nil
		}
		for _, v := range n.In {
			leave(v)
		}
		for _, v := range n.Out {
			if r.Seen != nil {
				r.Seen(v, of[v])
			}
			leave(v)
		}
	}
	var out []*tensor.Tensor
	for _, v := range g.Outputs {
		out = append(out, of[v])
	}
	return out, nil
}

// make is Make of node i, or nil.
func (r *Run) make(n *Node, i int, of []*tensor.Tensor) (*tensor.Tensor, error) {
	if r.Make == nil || len(n.Out) != 1 {
		return nil, nil
	}
	in := make([]*tensor.Tensor, len(n.In))
	for k, v := range n.In {
		in[k] = of[v]
	}
	return r.Make(i, in)
}

// Eval evaluates node i alone: it sets out, of the inferred types, for inputs as they
// are stored, of which those that are constants of the graph may be nil. A run serves one
// call at a time, and one after the other takes no memory.
func (p *Program) Eval(r *Run, i int, out, in []*tensor.Tensor) error {
	n, c := &p.graph.Nodes[i], &r.call
	*c = Call{
		Mode: p.mode, Out: out, Draws: r.Draws, Time: r.Time, program: p, node: i, in: append(c.in[:0], in...), run: r,
	}
	defer func() { clear(c.in); *c = Call{in: c.in[:0]} }()
	for k, v := range n.In {
		if c.in[k] == nil {
			c.in[k] = p.constant(p.graph.Values[v].Const)
		}
	}
	if err := n.Op.Eval(c); err != nil {
		return fmt.Errorf("%s: %w", p.graph.Name(n), err)
	}
	return nil
}

// eval evaluates node i and adds its outputs to the tensors that are there. The output
// may take the place of over, if there is such a tensor and the operation can.
func (p *Program) eval(r *Run, i int, of []*tensor.Tensor, over *tensor.Tensor) error {
	n := &p.graph.Nodes[i]
	c := &Call{Mode: p.mode, Draws: r.Draws, Time: r.Time, program: p, node: i}
	for _, v := range n.In {
		c.in = append(c.in, of[v])
	}
	for _, v := range n.Out {
		t := p.types[v]
		if _, can := n.Op.(inPlacer); can && over != nil && over.Format == t.Format && slices.Equal(over.Shape, t.Shape) {
			c.Out = append(c.Out, over)
		} else {
			c.Out = append(c.Out, tensor.New(t.Format, t.Shape...))
		}
	}
	if err := n.Op.Eval(c); err != nil {
		return err
	}
	for k, v := range n.Out {
		if of[v] == nil { // not known already
			of[v] = c.Out[k]
		}
	}
	return nil
}

// last returns the last node that reads each value, len(Nodes) for outputs and -1
// for what nobody needs, where some values are there already.
func (p *Program) last(there []*tensor.Tensor) []int {
	g := p.graph
	last := make([]int, len(g.Values))
	for v := range last {
		last[v] = -1
	}
	for _, v := range g.Outputs {
		last[v] = len(g.Nodes)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v int) bool { return there[v] == nil && last[v] >= 0 }) {
			continue
		}
		for _, v := range n.In {
			last[v] = max(last[v], i)
		}
	}
	return last
}

// memory returns whose memory each value has, its own or that of the value of which it is
// a view, and the last node that reads each memory. An output has its own: what is
// returned is nobody else's.
func (p *Program) memory(there []*tensor.Tensor, last []int) (of, until []int) {
	g := p.graph
	of, until = make([]int, len(last)), slices.Clone(last)
	for v := range of {
		of[v] = v
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		v := n.Out[0]
		if _, is := n.Op.(View); is && there[v] == nil && last[v] < len(g.Nodes) {
			of[v] = of[n.In[0]]
			until[of[v]] = max(until[of[v]], last[v])
		}
	}
	return of, until
}

// constant returns a constant as a tensor of the mode.
func (p *Program) constant(c *tensor.Tensor) *tensor.Tensor {
	if p.mode.Precision != fp16.Float64 || c.Format == fp16.Int64 {
		return c
	}
	return &tensor.Tensor{Shape: c.Shape, Format: fp16.Float64, Data: c.Data}
}
