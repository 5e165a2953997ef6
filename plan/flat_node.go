package plan

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/internal/op/reduce"
	"github.com/refrun/refrun/tensor"
)

// flatNode compiles a node whose numbers stay float32 numbers, or reports that it is none.
func (c *compiler) flatNode(i int, d *describer) bool {
	n, program := &c.g.Nodes[i], c.p.program
	made := func(v int) bool { return c.values[v] != nil }
	if a, is := n.Op.(graph.Act); !c.p.mode.Fast || is && a.Func == act.Identity || !slices.ContainsFunc(n.In, made) {
		return false
	}
	if k, a := program.FastKernel(i); k != nil {
		x := c.inOrder(c.values[n.In[a]])
		inner, _ := k.Shape()
		rows := x.size() / inner
		c.flatPass(i, d, "fast product", nil, []*flat{x}, func(r *flatPass) func() {
			piece := r.piece
			return func() { k.ForwardSingles(r.dst.numbers(), x.numbers(), rows, piece) }
		})
		return true
	}
	if k, g, kh, kw := program.FastPatches(i); k != nil && made(n.In[0]) {
		return c.flatPatches(i, d, k, g, kh, kw)
	}
	switch constant := func(v int) bool { return c.g.Values[v].Const != nil }; {
	case program.FastProduct(i) && !slices.ContainsFunc(n.In, constant):
		c.flatProduct(i, d)
		return true
	case program.FastSoftmax(i):
		x := c.inOrder(c.values[n.In[0]])
		length := max(1, x.shape[len(x.shape)-1])
		c.flatPass(i, d, "fast softmax", nil, []*flat{x}, lines(length, func(r *flatPass, from, to int) {
			reduce.FastSoftmax(r.dst.numbers()[from:to], x.numbers()[from:to], length)
		}))
		return true
	}
	if l := program.FastLayer(i); l != nil && made(n.In[0]) {
		x := c.inOrder(c.values[n.In[0]])
		c.flatPass(i, d, "fast layer norm", nil, []*flat{x}, lines(l.Length(), func(r *flatPass, from, to int) {
			l.Apply(r.dst.numbers()[from:to], x.numbers()[from:to])
		}))
		return true
	}
	return c.flatSeen(i, d) || c.flatPieces(i, d)
}

// mostWindows is how many numbers the windows of a convolution have at most that are laid out at once.
const mostWindows = 1 << 24

// flatPatches compiles a convolution that is a product of windows with its weights, if these are not too many.
func (c *compiler) flatPatches(i int, d *describer, k *matmul.Kernel, g conv.Params, kh, kw int) bool {
	n := &c.g.Nodes[i]
	to := c.p.program.Type(n.Out[0]).Shape
	inner, outputs := k.Shape()
	rows := tensor.Size(to) / outputs
	if rows > mostWindows/inner {
		return false
	}
	x, s := c.inOrder(c.values[n.In[0]]), asImage(c.values[n.In[0]].of.Shape)
	if g.Pad != [4]int{} { // of lines
		x = c.beside(x, s[3], g.Pad[1], g.Pad[3])
		s[3] += g.Pad[1] + g.Pad[3]
	}
	height, width, of := s[2], s[3], asImage(to)
	down, along := max(g.Stride[0], 1)*width, max(g.Stride[1], 1)
	seen := &flat{shape: []int{of[0], of[2], of[3], s[1], kh, kw}, root: x.root, place: x.place,
		steps: []int{s[1] * height * width, down, along, height * width, width, max(g.Dilation[1], 1)}}
	windows := c.ordered(seen)
	dst := c.newFlat([]int{of[0], of[2], of[3], of[1]})
	c.flatPass(i, d, "fast product", dst, []*flat{windows}, func(r *flatPass) func() {
		piece := r.piece
		return func() { k.ForwardSingles(r.dst.numbers(), windows.numbers(), rows, piece) }
	})
	// What it makes has the channels last: the value sees them before lines and columns.
	y, last := c.values[n.Out[0]], dst.steps[1:3]
	if len(to) == 3 {
		last = last[1:]
	}
	y.lines = nil
	y.flat = &flat{shape: to, root: dst, steps: append([]int{dst.steps[0], dst.steps[3]}, last...)}
	return true
}

// asImage returns the shape of lines as that of images of one line.
func asImage(shape []int) []int {
	if len(shape) == 3 {
		return []int{shape[0], shape[1], 1, shape[2]}
	}
	return slices.Clone(shape)
}

// beside adds the pass that makes lines of n numbers longer, by zeros on both sides.
func (c *compiler) beside(x *flat, n, before, after int) *flat {
	long := before + n + after
	dst := c.newFlat([]int{x.size() / n, long})
	c.p.passes = append(c.p.passes,
		&flatPass{p: c.p, dst: dst, uses: []*flat{x}, make: lines(long, func(r *flatPass, lo, hi int) {
			for ; lo < hi; lo += long {
				to := r.dst.numbers()[lo:][:long]
				clear(to[:before])
				copy(to[before:], x.numbers()[lo/long*n:][:n])
				clear(to[before+n:])
			}
		})})
	return dst
}

// flatProduct compiles a product of two matrices, or of many.
func (c *compiler) flatProduct(i int, d *describer) {
	n := &c.g.Nodes[i]
	a, b := c.flattened(c.values[n.In[0]]), c.flattened(c.values[n.In[1]])
	shape := c.p.program.Type(n.Out[0]).Shape
	batch, rank := shape[:len(shape)-2], len(shape)
	matrices := func(x *flat) matmul.Matrices {
		k := len(x.shape) - 2
		return matmul.Matrices{At: matmul.Places(batch, x.shape[:k], x.steps[:k]), Row: x.steps[k], Col: x.steps[k+1]}
	}
	x, y := matrices(a), matrices(b)
	rows, columns, inner := shape[rank-2], shape[rank-1], a.shape[len(a.shape)-1]
	c.flatPass(i, d, "fast product", nil, []*flat{a, b}, func(r *flatPass) func() {
		piece := r.piece
		return func() {
			x.Data, y.Data = a.numbers(), b.numbers()
			matmul.FastSingles(r.dst.numbers(), x, y, len(x.At), rows, inner, columns, piece)
		}
	})
}

// flatSeen compiles a node that moves no number of a flat tensor.
func (c *compiler) flatSeen(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	x := c.values[n.In[0]]
	to := c.p.program.Type(n.Out[0])
	if x == nil || x.flat == nil || tensor.Size(to.Shape) == 0 {
		return false
	}
	from, y := x.flat, &value{id: n.Out[0], of: to}
	if _, is := n.Op.(graph.View); is {
		steps := reshaped(from, to.Shape)
		if steps == nil {
			from = c.inOrder(x)
			steps = inOrder(to.Shape)
		}
		y.flat = &flat{shape: to.Shape, steps: steps, place: from.place, root: from.root}
		if c.only(x) {
			y.lines = x.lines
		}
	} else if first, steps, ok := c.p.program.Seen(i, from.steps); ok {
		y.flat = &flat{shape: to.Shape, steps: steps, place: from.place + first, root: from.root}
	} else {
		return false
	}
	y.from = x.from
	c.values[n.Out[0]] = y
	d.Op, d.Kernel, d.pass = n.Op.Name(), "none", c.latest()
	c.described = append(c.described, d)
	return true
}

// reshaped returns the steps of a flat tensor in another shape, nil where there are none: runs of
// axes that lie in order are divided anew.
func reshaped(f *flat, shape []int) []int {
	steps := make([]int, len(shape))
	a, b := 0, 0
	for a < len(f.shape) || b < len(shape) {
		n, m := 1, 1
		first := a
		if a < len(f.shape) {
			n = f.shape[a]
			a++
		}
		begin := b
		if b < len(shape) {
			m = shape[b]
			b++
		}
		for n != m {
			if n < m {
				n *= f.shape[a]
				a++
			} else {
				m *= shape[b]
				b++
			}
		}
		step := 1
		for k := a - 1; k >= first; k-- { // they must lie in order
			switch {
			case k == a-1 || f.shape[k+1] == 0:
				step = f.steps[k]
			case f.steps[k] != f.steps[k+1]*f.shape[k+1]:
				return nil
			}
		}
		if a > first {
			step = f.steps[a-1]
		}
		for k := b - 1; k >= begin; k-- {
			steps[k] = step
			step *= shape[k]
		}
	}
	return steps
}

// flatPieces compiles a node that is done number by number with a flat tensor: with pieces of it
// where they are made, if nobody else reads it and all else is there before, or apart.
func (c *compiler) flatPieces(i int, d *describer) bool {
	n := &c.g.Nodes[i]
	for _, apart := range []bool{false, true} {
		for k, v := range n.In {
			x := c.values[v]
			if x == nil || x.flat == nil || slices.Contains(slices.Delete(slices.Clone(n.In), k, k+1), v) {
				continue
			}
			if !apart && (x.lines == nil || !c.only(x)) {
				continue
			}
			in, there := make([]*graph.Singles, len(n.In)), true
			for j, w := range n.In {
				if y := c.values[w]; j != k && y != nil {
					in[j] = new(graph.Singles)
					there = there && (apart || y.flat != nil && y.flat.whole() && c.made(y) < c.made(x))
				}
			}
			if !there {
				continue
			}
			f := c.p.program.SinglePieces(i, k, in)
			if f == nil {
				continue
			}
			var uses []*flat
			for j, w := range n.In {
				if in[j] != nil {
					other, at := c.inOrder(c.values[w]), in[j]
					uses = append(uses, other)
					c.flatMemory = append(c.flatMemory, func() { at.Data = other.numbers() })
				}
			}
			to := c.p.program.Type(n.Out[0])
			if apart {
				from := c.inOrder(x)
				c.flatPass(i, d, "lines", nil, append(uses, from), lines(1, func(r *flatPass, lo, hi int) {
					copy(r.dst.numbers()[lo:hi], from.numbers()[lo:hi])
				})).then = []func(d []float32, at int){f}
				return true
			}
			r := x.lines
			r.then, r.uses = append(r.then, f), append(r.uses, uses...)
			c.values[n.Out[0]] = &value{id: n.Out[0], of: to, from: x.from, lines: r, flat: x.flat}
			d.Op, d.Kernel, d.pass = n.Op.Name(), "lines", r
			c.described = append(c.described, d)
			return true
		}
	}
	return false
}

// made returns the number of the pass that makes a value, -1 for an input.
func (c *compiler) made(x *value) int { return slices.Index(c.p.passes, x.from) }
