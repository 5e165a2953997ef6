package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
)

// compiler makes a plan of the nodes of a graph, one after the other.
type compiler struct {
	p         *Plan
	g         *graph.Graph
	values    []*value // by value of the graph; an identity's output is its input's
	readers   [][]int  // the nodes that read each value, len(g.Nodes) for an output
	slots     []*slot
	images    []*virtual
	described []*describer

	flats      []*flat
	flatMemory []func() // tells operands where they lie
}

// describer is what is known of a node while passes still move.
type describer struct {
	Node
	pass pass
}

// compile makes the passes.
func (p *Plan) compile() error {
	g := p.graph
	c := &compiler{p: p, g: g, values: make([]*value, len(g.Values)), readers: make([][]int, len(g.Values))}
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].In {
			c.readers[v] = append(c.readers[v], i) // twice if it is read twice
		}
	}
	for _, v := range g.Outputs {
		c.readers[v] = append(c.readers[v], len(g.Nodes))
	}
	for k, v := range g.Inputs {
		c.values[v] = &value{id: v, of: p.program.Type(v), input: &k}
	}
	for i := range g.Nodes {
		if err := c.node(i); err != nil {
			return fmt.Errorf("%s: %w", g.Name(&g.Nodes[i]), err)
		}
	}
	for k, v := range g.Outputs {
		if t := g.Values[v].Const; t != nil {
			c.values[v] = &value{id: v, of: p.program.Type(v), tensor: &slot{Tensor: t}}
		}
		p.passes = append(p.passes, c.output(c.values[v], k))
	}
	if err := c.place(); err != nil {
		return err
	}
	for _, v := range c.images {
		if (v.mixed || v.framed && v.padding != conv.Zeros) && v.frame >= min(v.h, v.w) {
			return errors.New("an image too small for the padding")
		}
	}
	c.bind()
	return nil
}

func (c *compiler) image(f fp16.Format, n, channels, h, w int) *virtual {
	v := &virtual{format: f, n: n, c: channels, h: h, w: w}
	c.images = append(c.images, v)
	return v
}

// node compiles one operation.
func (c *compiler) node(i int) error {
	n := &c.g.Nodes[i]
	d := &describer{Node: Node{Name: c.g.Name(n)}}
	out := n.Out[0]
	to := c.p.program.Type(out)
	if c.flatNode(i, d) {
		return nil
	}
	switch op := n.Op.(type) {
	case graph.Conv:
		if c.reads(n, 1) && c.fits(i, op) {
			return c.conv(i, op, d)
		}
	case graph.InstanceNorm:
		if c.reads(n, 1) && len(n.In) == 3 {
			d.Op = "instance norm"
			c.grouped(n, c.values[n.In[0]].of.Shape[1], op.Eps, d)
			return nil
		}
	case graph.GroupNorm:
		if c.reads(n, 1) && len(n.In) == 3 {
			if d.Op = "group norm"; op.Groups == 1 {
				d.Op = "layer norm"
			}
			c.grouped(n, op.Groups, op.Eps, d)
			return nil
		}
	case graph.BatchNorm:
		if c.reads(n, 1) && len(n.In) == 5 {
			x := c.imaged(n.In[0])
			r := c.newPass(x)
			d.Op, d.Kernel = "batch norm", kernelName("rows")
			r.norm = norm.NewBatchRows(to.Format, x.n, x.c, x.h, x.w, c.constant(n.In[3]), c.constant(n.In[4]),
				c.constant(n.In[1]), c.constant(n.In[2]), op.Eps)
			c.fasten(r.norm)
			c.normed(out, r, to, d)
			return nil
		}
	case graph.MaxPool:
		if done, err := c.max(i, op, d); done || err != nil {
			return err
		}
	case graph.Act:
		if op.Func == act.Identity && c.values[n.In[0]] != nil {
			c.values[out] = c.values[n.In[0]]
			d.Op, d.Kernel, d.pass = op.Func.String(), "none", c.latest()
			c.described = append(c.described, d)
			return nil
		}
		if c.reads(n, 1) {
			d.Op, d.Kernel = op.Func.String(), kernelName("rows")
			c.append(out, c.imaged(n.In[0]), actStage{c.activation(op.Func, to.Format)}, to, d)
			return nil
		}
	case graph.Unary:
		if c.reads(n, 1) && c.imagesOf(i) {
			d.Op, d.Kernel = op.Name(), kernelName("rows")
			x := c.imaged(n.In[0])
			c.append(out, x, functionStage{op.Rows(to.Format), x.c}, to, d)
			return nil
		}
	case graph.Binary:
		if (op == graph.Addition || op == graph.Multiplication && c.imagesOf(i)) && c.reads(n, 2) && c.pair(n, op, d) {
			return nil
		}
		if c.withConstants(i, op, d) {
			return nil
		}
	case graph.Noise:
		if !c.reads(n, 1) || op.Correlation != 0 || c.p.noise != nil {
			return errors.New("correlated noise, more than one stochastic block, or noise on what is no image")
		}
		d.Op, d.Kernel = op.Type.String()+" noise", kernelName("rows")
		block, x := op.Block, c.imaged(n.In[0])
		block.NarrowScale = c.p.mode.Autocast == graph.CPU113
		c.p.noise, c.p.site = noise.NewRows(block, to.Format, x.n, x.c, x.h, x.w), d.Name
		c.append(out, x, noiseStage{c.p.noise}, to, d)
		return nil
	}
	c.other(i, d)
	return nil
}

// pair compiles a sum or a product of two images of one size, or a product with one of one pixel.
func (c *compiler) pair(n *graph.Node, op graph.Binary, d *describer) bool {
	x, y, out := c.values[n.In[0]].of.Shape, c.values[n.In[1]].of.Shape, c.p.program.Type(n.Out[0])
	product := op == graph.Multiplication
	channels := product && slices.Equal(x[:2], y[:2])
	switch pixel := []int{1, 1}; {
	case slices.Equal(x, y):
		channels = false
	case channels && slices.Equal(y[2:], pixel) && slices.Equal(x, out.Shape):
	case channels && slices.Equal(x[2:], pixel) && slices.Equal(y, out.Shape):
		n = &graph.Node{In: []int{n.In[1], n.In[0]}, Out: n.Out} // the product is the same
	default:
		return false
	}
	d.Op, d.Kernel = op.Name(), kernelName("rows")
	a, b := c.imaged(n.In[0]), c.imaged(n.In[1])
	if !channels && !c.open(a) && c.open(b) {
		a, b = b, a // so is the sum
	}
	if c.open(a) { // the pass waits for the other operand
		k := slices.Index(c.p.passes, pass(a.pass))
		c.p.passes = append(slices.Delete(c.p.passes, k, k+1), pass(a.pass))
	}
	rounder := rows.New(out.Format)
	switch {
	case channels:
		c.append(n.Out[0], a, scaleStage{rounder, b.virtual}, out, d)
	case product:
		c.append(n.Out[0], a, pairStage{rounder.Mul, b.virtual}, out, d)
	default:
		c.append(n.Out[0], a, pairStage{rounder.Add, b.virtual}, out, d)
	}
	return true
}

// imagesOf reports whether all inputs of a node are images already, of the format that the operation
// takes and returns.
func (c *compiler) imagesOf(i int) bool {
	n := &c.g.Nodes[i]
	to := c.p.program.Type(n.Out[0]).Format
	for k, v := range n.In {
		x := c.values[v]
		if x == nil || x.virtual == nil || x.of.Format != to || c.p.program.Operand(i, k) != to {
			return false
		}
	}
	return true
}

// reads reports whether the first inputs of a node, so many, are images that nodes
// make, and all others constants.
func (c *compiler) reads(n *graph.Node, images int) bool {
	for k, v := range n.In {
		constant := c.g.Values[v].Const != nil
		if k < images && (constant || !imageable(c.values[v].of)) || k >= images && !constant {
			return false
		}
	}
	return len(n.In) >= images
}

func (c *compiler) constant(v int) []float64 { return c.g.Values[v].Const.Data }

// latest returns the last pass so far, nil if there is none.
func (c *compiler) latest() pass {
	if len(c.p.passes) == 0 {
		return nil
	}
	return c.p.passes[len(c.p.passes)-1]
}

// grouped compiles a norm of groups of channels.
func (c *compiler) grouped(n *graph.Node, groups int, eps float64, d *describer) {
	x, to := c.imaged(n.In[0]), c.p.program.Type(n.Out[0])
	r := c.newPass(x)
	d.Kernel = kernelName("rows")
	r.share(groups != x.c)
	r.norm = norm.NewRows(to.Format, x.n, x.c, x.h, x.w, groups, c.constant(n.In[1]), c.constant(n.In[2]), eps,
		r.parts, &c.p.exact)
	c.fasten(r.norm)
	c.normed(n.Out[0], r, to, d)
}

// activation returns the rows of an activation.
func (c *compiler) activation(f act.Func, to fp16.Format) *act.Rows {
	if c.p.mode.Fast {
		return act.NewFastRows(f, to)
	}
	return act.NewRows(f, to)
}

// fasten makes a norm's arithmetic fast if the mode's is.
func (c *compiler) fasten(r *norm.Rows) {
	if c.p.mode.Fast {
		r.Fast()
	}
}

// normed notes that a norm makes a value.
func (c *compiler) normed(out int, r *rowPass, to graph.Type, d *describer) {
	r.dst.format = to.Format
	c.values[out] = &value{virtual: r.dst, pass: r, id: out, of: to}
	d.pass = r
	c.described = append(c.described, d)
}

func kernelName(what string) string {
	if asm.RowKernels() == nil {
		return what + ", plain Go"
	}
	return what + " " + asm.ISA()
}

// open reports whether a value may still be worked on where it is made: it is a row
// pass's, and the node at work is all that reads it.
func (c *compiler) open(x *value) bool { return x.pass != nil && c.only(x) }

// newPass begins a pass over rows.
func (c *compiler) newPass(x *value) *rowPass {
	r := &rowPass{p: c.p, src: x.virtual, dst: c.image(x.format, x.n, x.c, x.h, x.w)}
	r.share(false)
	c.p.passes = append(c.p.passes, r)
	return r
}

// append adds a stage that makes a value of x.
func (c *compiler) append(out int, x *value, s stage, to graph.Type, d *describer) {
	r := x.pass
	if r == nil || !c.only(x) {
		r = c.newPass(x)
	}
	r.stages = append(r.stages, s)
	r.dst.format = to.Format
	c.values[out] = &value{virtual: r.dst, pass: r, id: out, of: to}
	d.pass = r
	c.described = append(c.described, d)
}

// only reports whether a value has one reader.
func (c *compiler) only(x *value) bool { return len(c.consumers(x.id)) <= 1 }

// consumers returns the nodes that read a value, also those that read it through
// activations that are none; len(g.Nodes) stands for an output.
func (c *compiler) consumers(v int) (all []int) {
	for _, k := range c.readers[v] {
		if k < len(c.g.Nodes) {
			if a, ok := c.g.Nodes[k].Op.(graph.Act); ok && a.Func == act.Identity {
				all = append(all, c.consumers(c.g.Nodes[k].Out[0])...)
				continue
			}
		}
		all = append(all, k)
	}
	return all
}

// cast returns a value as operands of a format: itself, or rounded where it is made
// if only such convolutions read it, or a copy.
func (c *compiler) cast(x *value, f fp16.Format) *virtual {
	if f == x.format || f == fp16.Float32 {
		return x.virtual
	}
	if v := x.casts[f]; v != nil {
		return v
	}
	s := newRoundStage(f, c.p.mode.TF32)
	alone := x.stage != nil || x.pass != nil
	for _, k := range c.consumers(x.id) {
		alone = alone && k < len(c.g.Nodes) && c.convolves(k)
	}
	switch {
	case alone && x.stage != nil:
		x.stage.round = &s
		x.format = f
		return x.virtual
	case alone:
		x.pass.stages = append(x.pass.stages, s)
		x.format = f
		return x.virtual
	}
	r := c.newPass(x)
	r.stages = []stage{s}
	r.dst.format = f
	if x.casts == nil {
		x.casts = map[fp16.Format]*virtual{}
	}
	x.casts[f] = r.dst
	return r.dst
}

// convolves reports whether a node is a convolution with a pass, which rounds its
// operands itself.
func (c *compiler) convolves(i int) bool {
	n := &c.g.Nodes[i]
	op, ok := n.Op.(graph.Conv)
	return ok && c.reads(n, 1) && c.fits(i, op)
}
