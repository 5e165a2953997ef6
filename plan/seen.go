package plan

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// seen is a value that is in no tensor of its own: the numbers of another, its axes in another order,
// or one place of an axis. Only products read such values, which lay them out anyway.
type seen struct {
	of    *slot
	first int
	steps []int
}

// seenApart compiles a node that moves no number of a tensor, if only products read what it makes.
func (c *compiler) seenApart(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	x := c.values[n.In[0]]
	if x == nil || c.p.mode.Fast || x.input != nil || x.virtual != nil || x.tensor == nil && x.seen == nil ||
		!c.multiplied(n.Out[0]) {
		return false
	}
	from := x.seen
	if from == nil {
		from = &seen{of: x.tensor, steps: inOrder(x.of.Shape)}
	}
	first, steps, ok := c.p.program.Seen(i, from.steps)
	if !ok {
		return false
	}
	c.values[n.Out[0]] = &value{
		id: n.Out[0], of: c.p.program.Type(n.Out[0]), from: x.from, seen: &seen{from.of, from.first + first, steps},
	}
	d.Op, d.Kernel, d.pass = n.Op.Name(), "none", c.latest()
	c.described = append(c.described, d)
	return true
}

// multiplied reports whether all that read a value are products of matrices, or see it in another order
// for products alone.
func (c *compiler) multiplied(v int) bool {
	t := c.p.program.Type(v)
	if t.Format != fp16.Float32 || tensor.Size(t.Shape) == 0 || len(c.readers[v]) == 0 {
		return false
	}
	for _, k := range c.readers[v] {
		if k == len(c.g.Nodes) {
			return false
		}
		n := &c.g.Nodes[k]
		if c.p.program.PlainProduct(k) && c.p.program.Type(n.Out[0]).Format == fp16.Float32 {
			continue
		}
		if _, _, ok := c.p.program.Seen(k, inOrder(t.Shape)); !ok || n.In[0] != v || !c.multiplied(n.Out[0]) {
			return false
		}
	}
	return true
}

// seenProduct compiles a product of matrices of which one is seen so.
func (c *compiler) seenProduct(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	if !slices.ContainsFunc(n.In, func(v int) bool { return c.values[v] != nil && c.values[v].seen != nil }) {
		return false
	}
	to := c.p.program.Type(n.Out[0])
	rank := len(to.Shape)
	pass := &otherPass{node: i}
	var of [2]*seen
	var matrices [2]matmul.Seen
	for k, v := range n.In {
		x := c.values[v]
		if of[k] = x.seen; x.seen == nil {
			of[k] = &seen{of: c.given(x), steps: inOrder(x.of.Shape)}
		}
		pass.slots = append(pass.slots, of[k].of)
		shape, steps, last := x.of.Shape, of[k].steps, len(x.of.Shape)-2
		m := matmul.Seen{Batch: make([]int, rank-2), Row: steps[last], Col: steps[last+1]}
		for a := range last {
			if shape[a] > 1 {
				m.Batch[rank-2-last+a] = steps[a]
			}
		}
		matrices[k] = m
		d.Bytes += 8 * int64(tensor.Size(shape))
	}
	inner := c.values[n.In[0]].of.Shape
	x := &value{id: n.Out[0], of: to, from: pass, open: pass, tensor: c.slot(to)}
	c.values[n.Out[0]] = x
	pass.out, pass.slots = []*tensor.Tensor{x.tensor.Tensor}, append(pass.slots, x.tensor)
	space := matmul.NewSpace()
	pass.do = func(then func(at, n int)) {
		for k := range of {
			matrices[k].Data = of[k].of.Data[of[k].first:]
		}
		space.ForwardSeen(x.tensor.Tensor, matrices[0], matrices[1], inner[len(inner)-1], then)
	}
	c.p.passes = append(c.p.passes, pass)
	d.Bytes += 8 * int64(tensor.Size(to.Shape))
	d.Op, d.Kernel, d.pass = n.Op.Name(), "definition", pass
	c.described = append(c.described, d)
	return true
}

// given returns the tensor of a value, also of an input: a copy of that.
func (c *compiler) given(x *value) *slot {
	if x.input == nil {
		return c.tensored(x)
	}
	s := c.slot(x.of)
	pass := &otherPass{out: []*tensor.Tensor{s.Tensor}, slots: []*slot{s}}
	pass.do = func(func(at, n int)) { copy(s.Data, c.p.given[*x.input].Data) }
	c.p.passes = append(c.p.passes, pass)
	return s
}
