package plan

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// convPass is a convolution.
type convPass struct {
	plan     *conv.Prepared
	src, dst *virtual
	padding  conv.Padding
}

func (c *convPass) run(p *Plan) {
	if c.src.mixed && c.plan.Frame() > 0 {
		c.src.img.FillFrame(c.padding)
	}
	c.plan.Run(c.dst.img, c.src.img, &p.space)
}

// fits reports whether a convolution of an image with constant weights has a pass: an
// odd window that is padded by its half, as far as the image has the pixels for it, or any other with a kernel. One in
// groups needs a kernel for them; one in a single group may also go tap by tap.
func (c *compiler) fits(i int, op graph.Conv) bool {
	n := &c.g.Nodes[i]
	x, s := c.p.program.Type(n.In[0]).Shape, c.g.Values[n.In[1]].Const.Shape
	g, err := op.Geometry(s[2], s[3])
	if k, _, _, _ := c.p.program.FastPatches(i); k != nil {
		return false
	}
	if err != nil || min(x[2], x[3]) <= slices.Max(g.Pad[:]) && !c.zerosOnly(&g, s[2], s[3]) {
		return false
	}
	usual := s[2] == s[3] && s[2]%2 == 1 && g == conv.Square(g.Stride[0], s[2]/2, op.Padding)
	if usual && op.Groups <= 1 && g.Stride[0] <= 1 {
		return true
	}
	k, to := c.kernel(i, op)
	return k.Prepare(to, x[0], x[2], x[3], g).OnImages()
}

// zerosOnly reports whether a frame of padding may be as wide as an image: it is no wider than the window, and all
// frames of the graph are of zeros.
func (c *compiler) zerosOnly(p *conv.Params, kh, kw int) bool {
	return slices.Max(p.Pad[:]) < max(kh, kw) && !slices.ContainsFunc(c.g.Nodes, func(n graph.Node) bool {
		op, is := n.Op.(graph.Conv)
		return is && op.Padding != conv.Zeros
	})
}

// kernel returns the kernel of a convolution with constant weights, and the format of its
// results.
func (c *compiler) kernel(i int, op graph.Conv) (*graph.Kernel, fp16.Format) {
	n, p := &c.g.Nodes[i], c.p
	var bias *tensor.Tensor
	if len(n.In) == 3 {
		bias = c.g.Values[n.In[2]].Const
	}
	return c.g.Kept.Kernel(p.mode, p.program.Operand(i, 1), c.g.Values[n.In[1]].Const, bias, max(op.Groups, 1)),
		p.program.Type(n.Out[0]).Format
}

// conv compiles a convolution, the rounding of its operands before and a bias that
// is added apart after it.
func (c *compiler) conv(i int, op graph.Conv, d *describer) error {
	n, p := &c.g.Nodes[i], c.p
	x := c.imaged(n.In[0])
	s, to := c.g.Values[n.In[1]].Const.Shape, p.program.Type(n.Out[0])
	geometry, err := op.Geometry(s[2], s[3])
	if err != nil {
		return err
	}
	k, _ := c.kernel(i, op)
	plan := k.Prepare(to.Format, x.n, x.h, x.w, geometry)
	src := c.cast(x, p.program.Operand(i, 1))
	if src == x.virtual && x.input == nil && x.pass == nil && !x.packed {
		// A convolution's own result has neither a frame nor clean lanes.
		src = c.newPass(x).dst
	}
	src.frames(plan.Frame(), op.Padding)
	dst := c.image(to.Format, x.n, s[0], to.Shape[2], to.Shape[3])
	pass := &convPass{plan: plan, src: src, dst: dst, padding: op.Padding}
	p.passes = append(p.passes, pass)
	v := &value{virtual: dst, id: n.Out[0], of: to}
	d.Op = fmt.Sprintf("conv %dx%d, %d to %d", s[2], s[3], x.c, s[0])
	if stride := geometry.Stride[0]; stride > 1 {
		d.Op += fmt.Sprintf(", stride %d", stride)
	}
	if op.Groups > 1 {
		d.Op += fmt.Sprintf(", %d groups", op.Groups)
	}
	d.Kernel = plan.Name()
	d.FLOPs = 2 * int64(x.n) * int64(dst.h) * int64(dst.w) * int64(s[0]) * int64(s[1]) * int64(s[2]) * int64(s[3])
	d.pass = pass
	c.described = append(c.described, d)
	if k.Bias != nil {
		r := c.newPass(v)
		r.stages = append(r.stages, constantStage{rows.New(to.Format).Shift, byChannel(k.Bias), s[0]})
		v = &value{virtual: r.dst, pass: r, id: n.Out[0], of: to}
	}
	c.values[n.Out[0]] = v
	return nil
}
