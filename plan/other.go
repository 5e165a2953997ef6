package plan

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// otherPass evaluates the definition of an operation that has no pass of its own.
type otherPass struct {
	node    int
	in, out []*tensor.Tensor // nil for a constant
	input   []*int           // which input of the plan it is, nil for none
	slots   []*slot          // that it reads or makes

	do    func(then func(at, n int))  // in place of the definition; nil for that
	short bool                        // do is the node's alone, see shorten
	then  []func(d []float64, at int) // nodes after it, which are done with pieces of its output
	piece func(at, n int)
}

func (o *otherPass) run(p *Plan) {
	if o.evaluate(p); p.err == nil {
		p.err = p.fault.take()
	}
}

func (o *otherPass) evaluate(p *Plan) {
	for k, of := range o.input {
		if of != nil {
			o.in[k] = p.given[*of]
		}
	}
	switch {
	case o.do != nil && len(o.then) > 0:
		o.do(o.piece)
		return
	case o.do != nil:
		o.do(nil)
		p.lookAt(o.out[0].Data)
		return
	case len(o.then) > 0:
		p.err = p.program.EvalThen(&p.run, o.node, o.out, o.in, o.piece)
		return
	}
	p.err = p.program.Eval(&p.run, o.node, o.out, o.in)
	for _, t := range o.out {
		p.lookAt(t.Data)
	}
}

// fault is the error of the first element that has one, of the first node: of those that are done with pieces.
type fault struct {
	sync.Mutex
	is       atomic.Bool
	node, at int
	err      error
}

func (f *fault) note(node, at int, err error) {
	f.Lock()
	defer f.Unlock()
	if f.err == nil || node < f.node || node == f.node && at < f.at {
		f.node, f.at, f.err = node, at, err
	}
	f.is.Store(true)
}

// take returns the error, and forgets it.
func (f *fault) take() error {
	if !f.is.Load() {
		return nil
	}
	f.Lock()
	defer f.Unlock()
	err := f.err
	f.err = nil
	f.is.Store(false)
	return err
}

// bind makes the function that workers run.
func (o *otherPass) bind(p *Plan) {
	o.piece = func(at, n int) {
		d := o.out[0].Data[at:][:n]
		p.lookAt(d)
		for _, f := range o.then {
			f(d, at)
			p.lookAt(d)
		}
	}
}

// lookAt is look for numbers of a tensor.
func (p *Plan) lookAt(d []float64) {
	if !p.Watch {
		return
	}
	for _, v := range d {
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
	return len(t.Shape) == 4 && min(t.Shape[0], t.Shape[1], t.Shape[2], t.Shape[3]) > 0 && t.Format != fp16.Float64 &&
		t.Format != fp16.Int64
}

// imaged returns a value as an image, which it must fit.
func (c *compiler) imaged(v int) *value {
	x := c.values[v]
	if x.virtual != nil {
		return x
	}
	var from *slot
	if x.input == nil {
		from = c.tensored(x)
	}
	s := x.of.Shape
	x.virtual = c.image(x.of.Format, s[0], s[1], s[2], s[3])
	if x.input != nil {
		x.stage = &inPass{p: c.p, input: *x.input, dst: x.virtual}
		c.p.passes = append(c.p.passes, x.stage)
	} else {
		x.packed = true
		c.p.passes = append(c.p.passes, &packPass{from, x.virtual})
	}
	return x
}

// tensored returns the tensor of a value.
func (c *compiler) tensored(x *value) *slot {
	switch {
	case x.tensor != nil:
	case x.flat != nil:
		c.widened(x)
	default:
		x.tensor = c.slot(x.of)
		x.from = &unpackPass{x.virtual, x.tensor}
		c.p.passes = append(c.p.passes, x.from)
	}
	return x.tensor
}

// output returns the pass that makes output k.
func (c *compiler) output(x *value, k int) pass {
	if x.flat != nil && x.tensor == nil && x.input == nil && x.virtual == nil {
		c.tensored(x)
	}
	if x.virtual != nil && x.tensor == nil && x.input == nil {
		return &outPass{p: c.p, src: x.virtual, output: k}
	}
	return &copyPass{src: x.tensor, input: x.input, output: k}
}

// other evaluates node i by its definition.
func (c *compiler) other(i int, d *describer) {
	if c.seen(i, d) || c.seenApart(i, d) || c.seenProduct(i, d) || c.joined(i, d) || c.cut(i, d) {
		return
	}
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
			s := c.tensored(x)
			pass.in[k], pass.slots = s.Tensor, append(pass.slots, s)
		}
	}
	for _, v := range n.Out {
		x := &value{id: v, of: c.p.program.Type(v), from: pass}
		if len(n.Out) == 1 {
			x.open = pass
		}
		x.tensor = c.slot(x.of)
		c.values[v] = x
		d.Bytes += 8 * int64(tensor.Size(x.of.Shape))
		pass.out, pass.slots = append(pass.out, x.tensor.Tensor), append(pass.slots, x.tensor)
	}
	c.p.passes = append(c.p.passes, pass)
	c.shorten(pass)
	d.Op, d.Kernel, d.pass = n.Op.Name(), "definition", pass
	c.described = append(c.described, d)
}

// mostShort is how many numbers an operation has at most that is done in one piece.
const mostShort = 4096

// shorten lets a pass of few numbers do without the definition, which takes longer to begin than such a pass: what is
// done number by number with one of its inputs, and what joins inputs.
func (c *compiler) shorten(o *otherPass) {
	n := &c.g.Nodes[o.node]
	if len(n.Out) != 1 || tensor.Size(o.out[0].Shape) > mostShort {
		return
	}
	out := o.out[0]
	whole := func(then func(at, n int)) {
		if then != nil {
			then(0, len(out.Data))
		}
	}
	if c.p.program.Joins(o.node) {
		o.short, o.do = true, func(then func(at, n int)) {
			at := 0
			for k, v := range n.In {
				from := o.in[k]
				if from == nil {
					from = c.g.Values[v].Const
				}
				at += copy(out.Data[at:], from.Data)
			}
			whole(then)
		}
		return
	}
	if slices.ContainsFunc(o.input, func(of *int) bool { return of != nil }) { // another tensor at each run
		return
	}
	for k := range n.In {
		if o.in[k] == nil {
			continue
		}
		if f := c.p.program.Pieces(o.node, k, o.in, c.p.fault.note); f != nil {
			from := o.in[k]
			o.short, o.do = true, func(then func(at, n int)) {
				copy(out.Data, from.Data)
				f(out.Data, 0)
				whole(then)
			}
			return
		}
	}
}

// seen compiles a node whose output is its input in another shape, or the same numbers of another format, if that is a
// tensor.
func (c *compiler) seen(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	_, is := n.Op.(graph.View)
	if !is && !c.p.program.Alike(i) || c.g.Values[n.In[0]].Const != nil || c.values[n.In[0]].input != nil {
		return false
	}
	x, to := c.values[n.In[0]], c.p.program.Type(n.Out[0])
	from := c.tensored(x)
	y := &value{id: n.Out[0], of: to, from: x.from,
		tensor: part(from, 0, to)}
	c.slots = append(c.slots, y.tensor)
	if c.only(x) {
		y.open = x.open
	}
	c.values[n.Out[0]] = y
	d.Op, d.Kernel, d.pass = n.Op.Name(), "none", c.latest()
	c.described = append(c.described, d)
	return true
}

// part returns a slot of the numbers of another one from the first on, as many as the type has.
func part(of *slot, first int, t graph.Type) *slot {
	return &slot{
		Tensor: &tensor.Tensor{Shape: slices.Clone(t.Shape), Format: t.Format}, root: of.root, first: of.first + first,
	}
}

// cut compiles a node whose outputs are its input's numbers, one after the other.
func (c *compiler) cut(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	if !c.p.program.Cuts(i) || c.g.Values[n.In[0]].Const != nil {
		return false
	}
	x := c.values[n.In[0]]
	from, first := c.given(x), 0
	for _, v := range n.Out {
		to := c.p.program.Type(v)
		y := &value{id: v, of: to, from: x.from, tensor: part(from, first, to)}
		if x.input != nil {
			y.from = c.latest()
		}
		c.slots = append(c.slots, y.tensor)
		c.values[v] = y
		first += tensor.Size(to.Shape)
	}
	d.Op, d.Kernel, d.pass = n.Op.Name(), "none", c.latest()
	c.described = append(c.described, d)
	return true
}

// joined compiles a node that is done with pieces of what an earlier pass makes, in their place,
// where nobody else reads that and all else that it needs is there before.
func (c *compiler) joined(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	for k, v := range n.In {
		x := c.values[v]
		if x == nil || x.open == nil || !c.only(x) {
			continue
		}
		in, there := make([]*tensor.Tensor, len(n.In)), true
		for j, w := range n.In {
			y := c.values[w]
			switch {
			case j == k || c.g.Values[w].Const != nil:
			case y.tensor == nil || y.from == nil || !c.before(y, x.open):
				there = false
			default:
				in[j] = y.tensor.Tensor
				d.Bytes += 8 * int64(tensor.Size(y.of.Shape))
			}
		}
		if !there {
			continue
		}
		f := c.p.program.Pieces(i, k, in, c.p.fault.note)
		if f == nil {
			continue
		}
		x.open.then = append(x.open.then, f)
		for j, w := range n.In {
			if in[j] != nil {
				x.open.slots = append(x.open.slots, c.values[w].tensor)
			}
		}
		to, made := c.p.program.Type(n.Out[0]), x.tensor
		if made.Format != to.Format {
			made = part(made, 0, to)
			c.slots = append(c.slots, made)
		}
		c.values[n.Out[0]] = &value{id: n.Out[0], of: to, from: x.from, open: x.open, tensor: made}
		d.Op, d.Kernel, d.pass = n.Op.Name(), "definition", x.open
		c.described = append(c.described, d)
		return true
	}
	return false
}

// before reports whether a value is made before a pass. The pass that makes it goes before that one, if all that it
// reads is there then: it may be the product of two scales that comes later in the graph.
func (c *compiler) before(y *value, of *otherPass) bool {
	from, to := slices.Index(c.p.passes, y.from), slices.Index(c.p.passes, pass(of))
	if from < to {
		return true
	}
	o, is := y.from.(*otherPass)
	if !is || from == to || o.do != nil && !o.short || len(o.then) > 0 {
		return false
	}
	for _, v := range c.g.Nodes[o.node].In {
		x := c.values[v]
		if c.g.Values[v].Const != nil || x.input != nil {
			continue
		}
		if made := slices.Index(c.p.passes, x.from); x.from == nil || made < 0 || made >= to {
			return false
		}
	}
	c.p.passes = slices.Insert(slices.Delete(c.p.passes, from, from+1), to, y.from)
	return true
}

func (c *compiler) slot(t graph.Type) *slot {
	s := &slot{Tensor: &tensor.Tensor{Shape: slices.Clone(t.Shape), Format: t.Format}}
	s.root = s
	c.slots = append(c.slots, s)
	return s
}
