package conv

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// The inner loop computes a tile of 2 output channels by 3 output pixels of a
// row: 6 sums, 3 pixels and the 6 products of one tap fill the 15 registers
// that the compiler has on amd64, and every load serves two or three products.
// Larger tiles spill sums to memory and are slower.
const tileW = 3

// The source is expanded, padding and dilation included, into scratch memory
// of at most this many numbers at a time (or one sample).
const scratch = 1 << 20

// A piece of work for one goroutine has about this many products.
const pieceSize = 1 << 16

// job is one convolution.
type job struct {
	dst, src   *tensor.Tensor
	k          *Kernel
	rows, cols axis
	memory     *images
	norms      []float64 // of the windows; nil if dst is Float64
	expanded   layout
}

// apply convolves src, seen through the axes, with k.
func apply(dst, src *tensor.Tensor, k *Kernel, rows, cols axis) {
	if k.groups != nil {
		applyGroups(dst, src, k, rows, cols)
		return
	}
	switch {
	case src.N() != dst.N() || src.C() != k.ic || dst.C() != k.oc:
		panic("conv: source, kernel and destination differ in samples or channels")
	case dst.H() < 1 || dst.W() < 1:
		panic("conv: the kernel does not fit into the image")
	case dst.Format != fp16.Float64 && !k.float32:
		panic("conv: a kernel beyond float32 needs a float64 destination")
	}
	checkFormats(dst, src)
	j := &job{dst: dst, src: src, k: k, rows: rows, cols: cols}
	j.memory = imagePool.Get().(*images)
	defer imagePool.Put(j.memory)
	if j.blocks() || j.wholes() {
		return
	}
	if kernels := j.blocked(); kernels != nil {
		asm.Ran("direct convolution " + asm.ISA())
		j.applyBlocked(kernels)
		return
	}
	asm.Ran("direct convolution, plain Go")
	if dst.Format != fp16.Float64 {
		j.norms = j.windows()
	}
	j.expanded = newLayout(j, tileW)
	j.eachGroup(j.convolve)
}

// eachGroup expands the source, some samples at a time, and calls convolve for
// them: the first sample's number, and the image.
func (j *job) eachGroup(convolve func(lo int, image []float64)) {
	sample := j.expanded.sample
	group := min(j.src.N(), max(1, scratch/sample))
	image := grown(&j.memory.expanded, group*sample)
	for lo := 0; lo < j.src.N(); lo += group {
		n := min(group, j.src.N()-lo)
		j.expand(lo, image[:n*sample])
		convolve(lo, image[:n*sample])
	}
}

// layout says where the expanded image holds what. Its lines have the
// coordinates of the axes, zeros where there is nothing to read. Coordinate x
// of a line is at (x mod stride)*phase + x/stride, so that what neighbouring
// outputs read is adjacent for every stride of columns.
type layout struct {
	height, line int   // of one channel: lines, numbers in a line
	sample       int   // numbers in one sample, [ic][height][line]
	source       []int // source column of each position of a line, or -1
	tap          []int // position of each tap, relative to the first's
}

// newLayout returns the layout for lines that are computed pixels at a time.
func newLayout(j *job, pixels int) layout {
	k, s := j.k, j.cols.stride
	tiles := (j.dst.W() + pixels - 1) / pixels
	width := j.cols.reach(tiles*pixels, k.kw)
	phase := (width + s - 1) / s
	l := layout{height: j.rows.reach(j.dst.H(), k.kh), line: phase * s}
	l.sample = k.ic * l.height * l.line
	l.source = make([]int, l.line)
	for x := range l.source {
		at := x%s*phase + x/s
		l.source[at] = -1
		if x < len(j.cols.at) {
			l.source[at] = j.cols.at[x]
		}
	}
	for c := range k.ic {
		for y := range k.kh {
			for x := range k.kw {
				row, col := y*j.rows.dilation, x*j.cols.dilation
				l.tap = append(l.tap, (c*l.height+row)*l.line+col%s*phase+col/s)
			}
		}
	}
	return l
}

// expand writes the samples from lo on into image.
func (j *job) expand(lo int, image []float64) {
	l, src := &j.expanded, j.src
	plane := l.height * l.line
	par.For(len(image)/plane, func(i int) {
		in := src.Plane(lo+i/src.C(), i%src.C())
		for y, iy := range j.rows.at[:l.height] {
			out := image[i*plane+y*l.line:][:l.line]
			if iy < 0 {
				clear(out)
				continue
			}
			row := in[iy*src.W():][:src.W()]
			for x, ix := range l.source {
				v := 0.0
				if ix >= 0 {
					v = row[ix]
				}
				out[x] = v
			}
		}
	})
}

// row is one output row, or a part of its channels, of sample n.
type row struct {
	*job
	n, y  int
	terms []float64 // scratch of settle
}

// convolve computes the outputs of the samples in image, which start at lo.
// One piece of work is one output row of a sample and some pairs of channels.
func (j *job) convolve(lo int, image []float64) {
	l, dst := &j.expanded, j.dst
	taps := j.k.taps()
	pairs := (dst.C() + 1) / 2
	group := min(pairs, 1+pieceSize/(2*taps*dst.W()))
	groups := (pairs + group - 1) / group
	par.For(len(image)/l.sample*dst.H()*groups, func(i int) {
		n, y, g := i/groups/dst.H(), i/groups%dst.H(), i%groups
		r := &row{job: j, n: lo + n, y: y}
		line := image[n*l.sample+y*j.rows.stride*l.line:]
		for pair := g * group; pair < min((g+1)*group, pairs); pair++ {
			w := j.k.packed[pair*2*taps:][:2*taps]
			for x := 0; x < dst.W(); x += tileW {
				sums := tile(line[x:], w, l.tap)
				for o := 2 * pair; o < min(2*pair+2, dst.C()); o++ {
					r.finish(o, x, sums[o-2*pair][:min(tileW, dst.W()-x)])
				}
			}
		}
	})
}

// tile returns the sums over the taps for 2 channels and 3 pixels, each in the
// order of the taps. It adds the zeros of the padding like any other number,
// which changes no bit: a sum starts at +0 and is never -0 (only -0 + -0 is),
// and adding a zero of either sign to such a number returns it. Weights that
// are not finite are the exception; finish looks after them.
func tile(image, w []float64, taps []int) (sums [2][tileW]float64) {
	var a0, a1, a2, b0, b1, b2 float64
	for _, t := range taps {
		x := image[t:][:tileW]
		if len(w) < 2 {
			break // never; it tells the compiler that the weights suffice
		}
		wa, wb := w[0], w[1]
		x0, x1, x2 := x[0], x[1], x[2]
		a0 += float64(x0 * wa)
		a1 += float64(x1 * wa)
		a2 += float64(x2 * wa)
		b0 += float64(x0 * wb)
		b1 += float64(x1 * wb)
		b2 += float64(x2 * wb)
		w = w[2:]
	}
	return [2][tileW]float64{{a0, a1, a2}, {b0, b1, b2}}
}

// finish makes the outputs of channel o from column x on of their sums: bias,
// guard, settle.
func (r *row) finish(o, x int, sums []float64) {
	f, w := r.dst.Format, r.dst.W()
	out := r.dst.Plane(r.n, o)[r.y*w+x:][:len(sums)]
	for i, sum := range sums {
		v := sum + r.k.bias[o]
		if f == fp16.Float64 {
			if v != v {
				v = r.settle64(o, x+i, v)
			}
			out[i] = v
			continue
		}
		window := r.norms[(r.n*r.dst.H()+r.y)*w+x+i]
		rounded, ok := f.Decide(v, r.k.bound(o, window))
		if !ok {
			rounded = r.settle(o, x+i, v)
		}
		out[i] = rounded
	}
}
