package plan

import (
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
	input   []*int           // which input of the plan it is, nil for none
}

func (o *otherPass) run(p *Plan) {
	for k, of := range o.input {
		if of != nil {
			o.in[k] = p.given[*of]
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

// copyPass makes an output of a tensor, or of an input.
type copyPass struct {
	src    *slot
	input  *int
	output int
}

func (c *copyPass) run(p *Plan) {
	src := (*tensor.Tensor)(nil)
	if c.input != nil {
		src = p.given[*c.input]
	} else {
		src = c.src.Tensor
	}
	copy(p.wanted[c.output].Data, src.Data)
}

// imageable reports whether values of that type fit an image.
func imageable(t graph.Type) bool {
	return len(t.Shape) == 4 && min(t.Shape[0], t.Shape[1], t.Shape[2], t.Shape[3]) > 0 && t.Format != fp16.Float64 && t.Format != fp16.Int64
}

// imaged returns a value as an image, which it must fit.
func (c *compiler) imaged(v int) *value {
	x := c.values[v]
	if x.virtual != nil {
		return x
	}
	s := x.of.Shape
	x.virtual = c.image(x.of.Format, s[0], s[1], s[2], s[3])
	if x.input != nil {
		x.stage = &inPass{p: c.p, input: *x.input, dst: x.virtual}
		c.p.passes = append(c.p.passes, x.stage)
	} else {
		x.packed = true
		c.p.passes = append(c.p.passes, &packPass{x.tensor, x.virtual})
	}
	return x
}

// tensored returns the tensor of a value.
func (c *compiler) tensored(x *value) *slot {
	if x.tensor == nil {
		x.tensor = c.slot(x.of)
		c.p.passes = append(c.p.passes, &unpackPass{x.virtual, x.tensor})
	}
	return x.tensor
}

// output returns the pass that makes output k.
func (c *compiler) output(x *value, k int) pass {
	if x.virtual != nil && x.tensor == nil && x.input == nil {
		return &outPass{p: c.p, src: x.virtual, output: k}
	}
	return &copyPass{src: x.tensor, input: x.input, output: k}
}

// other evaluates node i by its definition.
func (c *compiler) other(i int, d *describer) {
	n := &c.g.Nodes[i]
	pass := &otherPass{node: i, in: make([]*tensor.Tensor, len(n.In)), input: make([]*int, len(n.In))}
	for k, v := range n.In {
		if c.g.Values[v].Const != nil {
			continue
		}
		x := c.values[v]
		d.Bytes += 8 * int64(tensor.Size(x.of.Shape))
		if x.input != nil {
			pass.input[k] = x.input
		} else {
			pass.in[k] = c.tensored(x).Tensor
		}
	}
	for _, v := range n.Out {
		x := &value{id: v, of: c.p.program.Type(v)}
		x.tensor = c.slot(x.of)
		c.values[v] = x
		d.Bytes += 8 * int64(tensor.Size(x.of.Shape))
		pass.out = append(pass.out, x.tensor.Tensor)
	}
	c.p.passes = append(c.p.passes, pass)
	d.Op, d.Kernel, d.pass = n.Op.Name(), "definition", pass
	c.described = append(c.described, d)
}

func (c *compiler) slot(t graph.Type) *slot {
	s := &slot{tensor.New(t.Format, t.Shape...)}
	c.slots = append(c.slots, s)
	return s
}
