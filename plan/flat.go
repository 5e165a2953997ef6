package plan

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// flat is a tensor of float32 numbers, in which fast arithmetic has what is no image. It may see
// the numbers of another one: in another shape, its axes in another order, or some of them.
type flat struct {
	shape, steps []int
	place        int // of its first number in root
	root         *flat

	// of a root
	graph.Singles
	span
}

// numbers are those from the first on.
func (f *flat) numbers() []float32 { return f.root.Data[f.place:] }

func (f *flat) size() int { return tensor.Size(f.shape) }

// whole reports whether its numbers lie in order.
func (f *flat) whole() bool {
	step := 1
	for a := len(f.shape) - 1; a >= 0; a-- {
		if f.shape[a] != 1 && f.steps[a] != step {
			return false
		}
		step *= f.shape[a]
	}
	return true
}

// inOrder returns the steps of numbers in order.
func inOrder(shape []int) []int {
	steps, step := make([]int, len(shape)), 1
	for a := len(shape) - 1; a >= 0; a-- {
		steps[a] = step
		step *= shape[a]
	}
	return steps
}

// flatPass makes a flat tensor, or a tensor of one, with nodes after it that are done with
// pieces of it.
type flatPass struct {
	p    *Plan
	dst  *flat
	uses []*flat
	wide *slot // the tensor that it reads or makes, nil for none
	then []func(d []float32, at int)

	make func(r *flatPass) func() // of what runs, when memory is there
	do   func()
}

func (r *flatPass) run(*Plan) { r.do() }

// bind makes what runs.
func (r *flatPass) bind() { r.do = r.make(r) }

// piece does the nodes after the first with n numbers from one on.
func (r *flatPass) piece(at, n int) {
	d := r.dst.numbers()[at:][:n]
	r.p.lookAtSingles(d)
	for _, f := range r.then {
		f(d, at)
		r.p.lookAtSingles(d)
	}
}

// lookAtSingles is look for numbers of a flat tensor.
func (p *Plan) lookAtSingles(d []float32) {
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

// flatPiece is about how many numbers a piece of work has.
const flatPiece = 8192

// lines is a pass that works on whole lines of n numbers, in pieces.
func lines(n int, do func(r *flatPass, from, to int)) func(r *flatPass) func() {
	return func(r *flatPass) func() {
		count := r.dst.size() / n
		each := max(1, flatPiece/n)
		body := func(_, i int) {
			from, to := i*each, min((i+1)*each, count)
			do(r, from*n, to*n)
			r.piece(from*n, (to-from)*n)
		}
		return func() { r.p.each((count+each-1)/each, body) }
	}
}

// flatPass adds the pass of a node, which makes dst, or a flat tensor of the node's shape if that
// is nil.
func (c *compiler) flatPass(
	i int, d *describer, kernel string, dst *flat, uses []*flat, make func(r *flatPass) func(),
) *flatPass {
	n := &c.g.Nodes[i]
	to := c.p.program.Type(n.Out[0])
	if dst == nil {
		dst = c.newFlat(to.Shape)
	}
	r := &flatPass{p: c.p, dst: dst, uses: uses, make: make}
	c.p.passes = append(c.p.passes, r)
	c.values[n.Out[0]] = &value{id: n.Out[0], of: to, from: r, lines: r, flat: r.dst}
	for _, u := range uses {
		d.Bytes += 4 * int64(u.size())
	}
	d.Bytes += 4 * int64(r.dst.size())
	d.Op, d.Kernel, d.pass = n.Op.Name(), kernelName(kernel), r
	c.described = append(c.described, d)
	return r
}

func (c *compiler) newFlat(shape []int) *flat {
	f := &flat{shape: shape, steps: inOrder(shape)}
	f.root = f
	c.flats = append(c.flats, f)
	return f
}

// flattened returns a value as a flat tensor, which its numbers, float32 ones, fit.
func (c *compiler) flattened(x *value) *flat {
	if x.flat != nil {
		return x.flat
	}
	var from func() []float64
	var wide *slot
	if x.input != nil {
		input := *x.input
		from = func() []float64 { return c.p.given[input].Data }
	} else {
		wide = c.tensored(x)
		from = func() []float64 { return wide.Data }
	}
	x.flat = c.newFlat(x.of.Shape)
	r := &flatPass{p: c.p, dst: x.flat, wide: wide, make: lines(1, func(r *flatPass, lo, hi int) {
		narrow(r.dst.numbers()[lo:hi], from()[lo:hi])
	})}
	x.from = r
	c.p.passes = append(c.p.passes, r)
	return x.flat
}

func narrow(dst []float32, src []float64) {
	whole := 0
	if k := asm.LineKernels(); k != nil && len(src) >= 8 {
		whole = len(src) &^ 7
		k.Narrow(&dst[0], 32, &src[0], whole)
	}
	for i := whole; i < len(src); i++ {
		dst[i] = float32(src[i])
	}
}

func widen(dst []float64, src []float32) {
	whole := 0
	if k := asm.LineKernels(); k != nil && len(src) >= 8 {
		whole = len(src) &^ 7
		k.Widen(&dst[0], &src[0], whole)
	}
	for i := whole; i < len(src); i++ {
		dst[i] = float64(src[i])
	}
}

// inOrder returns a value as a flat tensor whose numbers lie in order.
func (c *compiler) inOrder(x *value) *flat {
	f := c.flattened(x)
	if f.whole() {
		return f
	}
	x.flat, x.lines = c.ordered(f), nil
	x.from = c.latest()
	return x.flat
}

// ordered adds the pass that makes a flat tensor with the numbers of one in order.
func (c *compiler) ordered(f *flat) *flat {
	dst := c.newFlat(f.shape)
	last := len(f.shape) - 1
	n, step := f.shape[last], f.steps[last]
	c.p.passes = append(c.p.passes,
		&flatPass{p: c.p, dst: dst, uses: []*flat{f}, make: lines(n, func(r *flatPass, lo, hi int) {
			dst, src := r.dst.numbers(), f.numbers()
			at, line := 0, lo/n
			var few [8]int
			places := few[:] // of the line, along each axis
			if last > len(few) {
				places = make([]int, last)
			}
			for a := last - 1; a >= 0; a-- {
				places[a] = line % f.shape[a]
				at += places[a] * f.steps[a]
				line /= f.shape[a]
			}
			for ; lo < hi; lo += n {
				to := dst[lo:][:n]
				if step == 1 && n > 8 {
					copy(to, src[at:])
				} else {
					for k := range to {
						to[k] = src[at+k*step]
					}
				}
				for a := last - 1; a >= 0; a-- {
					at += f.steps[a]
					if places[a]++; places[a] < f.shape[a] {
						break
					}
					at -= places[a] * f.steps[a]
					places[a] = 0
				}
			}
		})})
	return dst
}

// widened adds the pass that makes a tensor of a flat one.
func (c *compiler) widened(x *value) {
	f := c.inOrder(x)
	x.tensor = c.slot(x.of)
	to := x.tensor
	r := &flatPass{p: c.p, dst: f, wide: to, make: lines(1, func(r *flatPass, lo, hi int) {
		widen(to.Data[lo:hi], f.numbers()[lo:hi])
	})}
	x.from = r
	c.p.passes = append(c.p.passes, r)
}

// placeFlats finds memory for flat tensors.
func (c *compiler) placeFlats() (most int) {
	var spans []*span
	for _, f := range c.flats {
		f.span = span{first: len(c.p.passes), size: (f.size() + 15) / 16 * 16}
		spans = append(spans, &f.span)
	}
	for i, x := range c.p.passes {
		if r, ok := x.(*flatPass); ok {
			r.dst.root.use(i)
			for _, f := range r.uses {
				f.root.use(i)
			}
		}
	}
	return arrange(spans)
}

func (c *compiler) takeFlats(most int) {
	all := asm.Paged[float32](most)
	for _, f := range c.flats {
		f.Data = all[f.at:][:f.size()]
	}
	c.p.images += 4 * int64(most)
	for _, f := range c.flatMemory {
		f()
	}
}
