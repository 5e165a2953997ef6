package operator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/rows"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/tensor"
)

// virtual is an image of a plan, in memory that it shares with others which are
// not in use while it is.
type virtual struct {
	format      fp16.Format
	c, h, w     int
	frame       int
	first, last int      // passes that write it and read it last
	at, size    int      // in the plan's memory
	in          *virtual // whose place it takes, nil if it has its own
	img         *conv.Image

	padding conv.Padding // that the frame holds
	framed  bool         // a convolution reads the frame
	mixed   bool         // several do, and want other paddings: each fills the frame itself
}

// frames notes that a convolution reads the frame of an image.
func (v *virtual) frames(width int, p conv.Padding) {
	if width == 0 {
		return
	}
	v.mixed = v.mixed || v.framed && v.padding != p
	v.frame, v.padding, v.framed = max(v.frame, width), p, true
}

// root returns the image whose place it has.
func (v *virtual) root() *virtual {
	for v.in != nil {
		v = v.in
	}
	return v
}

// value is the output of a node: an image, or a tensor, or both.
type value struct {
	*virtual
	pass  *rowPass // that ends with it, nil for others
	casts map[fp16.Format]*virtual

	of     graph.Type
	tensor *slot
	packed bool // the image was made of the tensor
}

// compiler makes a plan of the nodes of an operator, one after the other.
type compiler struct {
	p         *Plan
	nodes     []Node
	graph     *builder
	values    []*value       // by node: its first output
	all       map[int]*value // by value of the graph
	input     *value
	slots     []*slot
	images    []*virtual
	described []*describer
}

// describer is what is known of a node while passes still move.
type describer struct {
	PlanNode
	pass pass
}

// compile makes the passes; it returns why it cannot.
func (p *Plan) compile() (why string) {
	if p.mode.Precision == fp16.Float64 {
		return "float64 mode"
	}
	if err := p.mode.Check(); err != nil {
		return err.Error()
	}
	b, program, err := p.op.inferred(p.mode, graph.Type{Shape: []int{p.n, p.op.Config.InputChannels, p.h, p.w}, Format: p.input})
	if err != nil {
		return err.Error()
	}
	p.program = program
	c := &compiler{p: p, nodes: p.op.Nodes(), graph: b, all: map[int]*value{}}
	c.values = make([]*value, len(c.nodes))
	c.input = &value{virtual: c.image(p.input, p.op.Config.InputChannels, p.h, p.w), of: program.Type(b.Inputs[0])}
	c.all[b.Inputs[0]] = c.input
	p.direct = slices.ContainsFunc(c.nodes, func(n Node) bool { return n.Op != OpConv && slices.Contains(n.In, Input) })
	p.in = &inPass{p: p, dst: c.input.virtual}
	p.passes = []pass{p.in}
	for i := range c.nodes {
		if why := c.node(i); why != "" {
			return why
		}
		for k, v := range b.Nodes[i].Out {
			if k == 0 {
				c.all[v] = c.values[i]
			}
			c.all[v].of = program.Type(v)
		}
	}
	last := c.values[len(c.nodes)-1]
	if why := c.imaged(last, "output"); why != "" {
		return why
	}
	p.out = &outPass{p: p, src: last.virtual}
	p.passes = append(p.passes, p.out)
	if f := p.out.src.format; f != p.output {
		return fmt.Sprintf("output of %v numbers", f)
	}
	c.place()
	for _, v := range c.images {
		if (v.mixed || v.framed && v.padding != conv.Zeros) && v.frame >= min(v.h, v.w) {
			return "an image too small for the padding"
		}
	}
	c.bind()
	return ""
}

func (c *compiler) image(f fp16.Format, channels, h, w int) *virtual {
	v := &virtual{format: f, c: channels, h: h, w: w}
	c.images = append(c.images, v)
	return v
}

// operand returns what node i reads as its k-th input that is no parameter.
func (c *compiler) operand(i, k int) *value {
	for _, v := range c.graph.Nodes[i].In {
		if c.graph.Values[v].Const != nil {
			continue
		}
		if k == 0 {
			return c.all[v]
		}
		k--
	}
	panic("operator: no such input")
}

// node compiles one operation.
func (c *compiler) node(i int) (why string) {
	n := &c.nodes[i]
	if n.Op == OpOther {
		return c.other(i)
	}
	var in []fp16.Format
	for k := range n.In {
		x := c.operand(i, k)
		if !c.imageable(x.of) && n.Op != OpNoise { // which says why
			return c.other(i)
		}
		if why := c.imaged(x, n.Name); why != "" {
			return why
		}
		in = append(in, x.format)
	}
	operands, out, err := n.Formats(c.p.mode, in...)
	if err != nil {
		return err.Error()
	}
	d := &describer{PlanNode: PlanNode{Name: n.Name}}
	c.described = append(c.described, d)
	x := c.operand(i, 0)
	switch n.Op {
	case OpConv:
		return c.conv(i, operands, out, d)
	case OpNorm:
		r := c.newPass(x)
		d.Op, d.Kernel = n.Norm+" norm", kernelName("rows")
		gamma, beta := n.Weight.Data, n.Bias.Data
		if n.Norm == "batch" {
			r.norm = norm.NewBatchRows(out, c.p.n, x.c, x.h, x.w, n.Mean.Data, n.Variance.Data, gamma, beta, n.Eps)
		} else {
			r.share(n.Groups != x.c)
			r.norm = norm.NewRows(out, c.p.n, x.c, x.h, x.w, n.Groups, gamma, beta, n.Eps, r.parts, &c.p.exact)
		}
		r.dst.format = out
		c.values[i] = &value{virtual: r.dst, pass: r}
		d.pass = r
	case OpAct:
		d.Op, d.Kernel = n.Act.String(), "none"
		if n.Act == act.Identity {
			c.values[i] = x
			d.pass = c.p.passes[len(c.p.passes)-1]
			return ""
		}
		d.Kernel = kernelName("rows")
		c.append(i, x, actStage{act.NewRows(n.Act, out)}, out, d)
	case OpAdd:
		d.Op, d.Kernel = "add", kernelName("rows")
		a, b := x, c.operand(i, 1)
		if !c.open(n.In[0]) && c.open(n.In[1]) {
			a, b = b, a // the sum is the same
		}
		from := n.In[0]
		if a != x {
			from = n.In[1]
		}
		if c.open(from) { // the pass waits for the other operand
			k := slices.Index(c.p.passes, pass(a.pass))
			c.p.passes = append(slices.Delete(c.p.passes, k, k+1), pass(a.pass))
		}
		c.append(i, a, addStage{rows.New(out), b.virtual}, out, d)
	case OpNoise:
		d.Op, d.Kernel = n.Noise.Type.String()+" noise", kernelName("rows")
		block := n.Noise
		if block.Correlation != 0 || c.p.noise != nil {
			return "correlated noise, or more than one stochastic block"
		}
		block.NarrowScale = c.p.mode.Autocast == graph.CPU113
		c.p.noise = noise.NewRows(block, out, c.p.n, x.c, x.h, x.w)
		c.append(i, x, noiseStage{c.p.noise}, out, d)
	}
	return ""
}

func kernelName(what string) string {
	if asm.RowKernels() == nil {
		return what + ", plain Go"
	}
	return what + " " + asm.ISA()
}

// open reports whether a node's output may still be worked on where it is made:
// it is a row pass's, and the node at work is all that reads it.
func (c *compiler) open(i int) bool {
	return i != Input && c.values[i].pass != nil && c.only(c.values[i])
}

// newPass begins a pass over rows.
func (c *compiler) newPass(x *value) *rowPass {
	r := &rowPass{p: c.p, src: x.virtual, dst: c.image(x.format, x.c, x.h, x.w)}
	r.share(false)
	c.p.passes = append(c.p.passes, r)
	return r
}

// append adds a stage that makes node i's output of x.
func (c *compiler) append(i int, x *value, s stage, out fp16.Format, d *describer) {
	r := x.pass
	if r == nil || !c.only(x) {
		r = c.newPass(x)
	}
	r.stages = append(r.stages, s)
	r.dst.format = out
	c.values[i] = &value{virtual: r.dst, pass: r}
	d.pass = r
}

// only reports whether a value has one reader.
func (c *compiler) only(x *value) bool { return len(c.consumers(c.source(x))) <= 1 }

// source returns the node that made a value, Input for the input.
func (c *compiler) source(x *value) int {
	for i := range c.graph.Nodes {
		for _, v := range c.graph.Nodes[i].Out {
			if c.all[v] == x {
				return i
			}
		}
	}
	return Input
}

// consumers returns the nodes that read a node's output, also those that read it
// through activations that are none; len(c.nodes) stands for the operator's output.
func (c *compiler) consumers(i int) (all []int) {
	if i == len(c.nodes)-1 {
		all = append(all, len(c.nodes))
	}
	for k := range c.nodes {
		for _, j := range c.nodes[k].In {
			switch {
			case j != i:
			case c.nodes[k].Op == OpAct && c.nodes[k].Act == act.Identity:
				all = append(all, c.consumers(k)...)
			default:
				all = append(all, k)
			}
		}
	}
	return all
}

// conv compiles a convolution, the rounding of its operands before and a bias that
// is added apart after it.
func (c *compiler) conv(i int, operands, out fp16.Format, d *describer) (why string) {
	n, p := &c.nodes[i], c.p
	x := c.operand(i, 0)
	g := n.Geometry
	side := n.Weight.Shape[2]
	if g != conv.Square(g.Stride[0], side/2, g.Padding) || g.Stride[0] > 1 || side%2 == 0 {
		panic("operator: a convolution that changes the size of the image")
	}
	least := 1
	switch g.Padding {
	case conv.Circular:
		least = side / 2
	case conv.Reflect:
		least = side/2 + 1
	}
	if x.h < least || x.w < least {
		return n.Name + ": an image too small for the padding"
	}
	var bias *tensor.Tensor
	if n.Bias != nil {
		bias = n.Bias.tensor()
	}
	k := p.op.kept.Kernel(p.mode, operands, n.Weight.tensor(), bias)
	plan := k.Plan(out, x.h, x.w, g)
	src := c.cast(x, operands)
	if src == x.virtual && x != c.input && x.pass == nil && !x.packed {
		// A convolution's own result has neither a frame nor clean lanes.
		src = c.newPass(x).dst
	}
	src.frames(plan.Frame(), g.Padding)
	dst := c.image(out, n.Weight.Shape[0], x.h, x.w)
	pass := &convPass{plan: plan, src: src, dst: dst, padding: g.Padding}
	p.passes = append(p.passes, pass)
	v := &value{virtual: dst}
	s := n.Weight.Shape
	d.Op = fmt.Sprintf("conv %dx%d, %d to %d", s[2], s[3], s[1], s[0])
	d.Kernel = "plain Go"
	if named, ok := any(plan).(interface{ Name() string }); ok {
		d.Kernel = named.Name()
	}
	d.FLOPs = 2 * int64(p.n) * int64(x.h) * int64(x.w) * int64(s[0]) * int64(s[1]) * int64(s[2]) * int64(s[3])
	d.pass = pass
	if k.Bias != nil {
		r := c.newPass(v)
		r.stages = append(r.stages, shiftStage{rows.New(out), shifts(k.Bias)})
		v = &value{virtual: r.dst, pass: r}
	}
	c.values[i] = v
	return ""
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
	source := c.source(x)
	alone := source == Input || x.pass != nil
	for _, k := range c.consumers(source) {
		alone = alone && k < len(c.nodes) && c.nodes[k].Op == OpConv
	}
	switch {
	case alone && source == Input:
		c.p.in.round = &s
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

// place finds memory for the images: the lowest that is free as long as the image
// is in use, for one after the other. A sum that nobody reads an operand of any more
// takes the operand's place.
func (c *compiler) place() {
	p := c.p
	for _, v := range c.images {
		v.first, v.last = len(p.passes), 0
	}
	use := func(i int, images ...*virtual) {
		for _, v := range images {
			v.first, v.last = min(v.first, i), max(v.last, i)
		}
	}
	for i, x := range p.passes {
		switch x := x.(type) {
		case *inPass:
			use(i, x.dst)
		case *outPass:
			use(i, x.src)
		case *convPass:
			use(i, x.src, x.dst)
		case *packPass:
			use(i, x.dst)
		case *unpackPass:
			use(i, x.src)
		case *rowPass:
			use(i, x.src, x.dst)
			for _, s := range x.stages {
				if a, ok := s.(addStage); ok {
					use(i, a.other)
				}
			}
		}
	}
	for i, x := range p.passes {
		if r, ok := x.(*rowPass); ok {
			for _, s := range r.stages {
				if a, ok := s.(addStage); ok && a.other.last == i && r.dst.in == nil && (r.norm == nil || a.other != r.src) { // a norm may read its source again
					r.dst.in = a.other
				}
			}
		}
	}
	for _, v := range c.images {
		root := v.root()
		root.frame, root.last = max(root.frame, v.frame), max(root.last, v.last)
	}
	most := 0
	var placed []*virtual
	slices.SortStableFunc(c.images, func(a, b *virtual) int { return cmp.Compare(a.first, b.first) })
	for _, v := range c.images {
		v.frame = v.root().frame
		v.size = (conv.ImageSize(p.n, v.c, v.h, v.w, v.frame) + 15) / 16 * 16
		if v.in != nil {
			continue
		}
		slices.SortFunc(placed, func(a, b *virtual) int { return cmp.Compare(a.at, b.at) })
		for _, o := range placed {
			if o.first <= v.last && v.first <= o.last && o.at < v.at+v.size && v.at < o.at+o.size {
				v.at = o.at + o.size
			}
		}
		placed = append(placed, v)
		most = max(most, v.at+v.size)
	}
	all := asm.Aligned[float32](most)
	for _, v := range c.images {
		v.at = v.root().at
		v.img = conv.NewImage(v.format, p.n, v.c, v.h, v.w, v.frame, all[v.at:v.at+v.size])
	}
	p.images = 4 * int64(most)
	for _, s := range c.slots {
		p.images += 8 * int64(len(s.Data))
	}
	for _, v := range c.images {
		p.widest = max(p.widest, v.w)
	}
	for i := range p.workers {
		p.workers[i] = newWorker(p.widest)
	}
}

// bind makes what the passes run, and the description.
func (c *compiler) bind() {
	for _, x := range c.p.passes {
		switch x := x.(type) {
		case *inPass:
			x.bind()
		case *outPass:
			x.bind()
		case *rowPass:
			x.bind()
		}
	}
	for k, x := range c.p.passes {
		var of []*describer
		for _, d := range c.described {
			if d.pass == x {
				d.Pass = k
				of = append(of, d)
			}
		}
		if len(of) == 0 {
			continue
		}
		switch x := x.(type) {
		case *convPass:
			of[0].Bytes = 4 * int64(x.src.size+x.dst.size)
		case *rowPass:
			of[0].Bytes += 4 * int64(x.src.size)
			for _, s := range x.stages {
				if a, ok := s.(addStage); ok {
					of[len(of)-1].Bytes += 4 * int64(a.other.size)
				}
			}
			of[len(of)-1].Bytes += 4 * int64(x.dst.size)
		}
	}
	for _, d := range c.described {
		c.p.nodes = append(c.p.nodes, d.PlanNode)
	}
}
