package operator

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// slot is the tensor of a value that a definition makes or reads.
type slot struct{ *tensor.Tensor }

// otherPass evaluates the definition of an operation that has no pass of its own.
type otherPass struct {
	node    int
	in, out []*tensor.Tensor // nil for a constant
	input   []bool           // which of them is the plan's input
}

func (o *otherPass) run(p *Plan) {
	for k, is := range o.input {
		if is {
			o.in[k] = p.in.tensor
		}
	}
	p.err = p.program.Eval(&p.run, o.node, o.out, o.in)
	for _, t := range o.out {
		p.lookAt(t)
	}
}

// lookAt is look for a tensor.
func (p *Plan) lookAt(t *tensor.Tensor) {
	if !p.Watch {
		return
	}
	for _, v := range t.Data {
		if v-v != 0 {
			p.nonfinite.Store(true)
			return
		}
	}
}

// packPass makes an image of a tensor, unpackPass the other way round.
type packPass struct {
	src *slot
	dst *virtual
}

func (c *packPass) run(*Plan) {
	c.dst.img.From(c.src.Tensor)
	if c.dst.img.Frame > 0 {
		c.dst.img.FillFrame(c.dst.padding)
	}
}

type unpackPass struct {
	src *virtual
	dst *slot
}

func (c *unpackPass) run(*Plan) { c.src.img.To(c.dst.Tensor) }

// imageable reports whether values of that type fit an image of the plan's.
func (c *compiler) imageable(t graph.Type) bool {
	return len(t.Shape) == 4 && t.Shape[0] == c.p.n && min(t.Shape[1], t.Shape[2], t.Shape[3]) > 0 &&
		t.Format != fp16.Float64 && t.Format != fp16.Int64
}

// imaged sees to it that a value is an image, or says why it cannot be one.
func (c *compiler) imaged(x *value, who string) (why string) {
	if x.virtual != nil {
		return ""
	}
	if !c.imageable(x.of) {
		return fmt.Sprintf("%s: shape %v of %v numbers is no image", who, x.of.Shape, x.of.Format)
	}
	s := x.of.Shape
	x.packed = true
	x.virtual = c.image(x.of.Format, s[1], s[2], s[3])
	c.p.passes = append(c.p.passes, &packPass{x.tensor, x.virtual})
	return ""
}

// other evaluates node i by its definition.
func (c *compiler) other(i int) (why string) {
	n := &c.graph.Nodes[i]
	pass := &otherPass{node: i, in: make([]*tensor.Tensor, len(n.In)), input: make([]bool, len(n.In))}
	for k, v := range n.In {
		if c.graph.Values[v].Const != nil {
			continue
		}
		x := c.all[v]
		if x == c.input {
			pass.input[k] = true
			continue
		}
		if x.tensor == nil {
			x.tensor = c.slot(x.of)
			c.p.passes = append(c.p.passes, &unpackPass{x.virtual, x.tensor})
		}
		pass.in[k] = x.tensor.Tensor
	}
	for k, v := range n.Out {
		t := c.p.program.Type(v)
		x := &value{of: t, tensor: c.slot(t)}
		if c.all[v] = x; k == 0 {
			c.values[i] = x
		}
		pass.out = append(pass.out, x.tensor.Tensor)
	}
	c.p.passes = append(c.p.passes, pass)
	c.described = append(c.described, &describer{PlanNode{Name: c.nodes[i].Name, Op: n.Op.Name(), Kernel: "definition"}, pass})
	return ""
}

func (c *compiler) slot(t graph.Type) *slot {
	s := &slot{tensor.New(t.Format, t.Shape...)}
	c.slots = append(c.slots, s)
	return s
}
