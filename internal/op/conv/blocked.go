package conv

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// kernelFormats are the indices of the formats in the arrays of package asm.
var kernelFormats = map[fp16.Format]int{
	fp16.Float32: asm.Float32, fp16.Float16: asm.Float16, fp16.BFloat16: asm.BFloat16, fp16.Float64: asm.ToFloat64,
}

// blocked is the direct convolution by the kernels of package asm: blocks of
// channels by pixels of a line. It adds the zeros of the padding like any other
// number (see tile), which weights that are not finite do not allow.
type blocked struct {
	*job
	*asm.Direct
	weights *directWeights
	apply   func(src *float64, taps *int, n int, w, table, window, out *float64, flags *uint8)
	taps    []int // bytes from the first
}

// directWeights are weights in the order of the kernels, and what they make
// the guard's bound of.
type directWeights struct {
	packed []float64 // [groups][taps][Outputs]
	tables []float64 // [groups][3][Outputs]: bias, slope, e
}

// blocked returns the kernels that can convolve the job, or nil.
func (j *job) blocked() *asm.Direct {
	if _, ok := kernelFormats[j.dst.Format]; !ok || !j.k.finite || !j.k.finiteBias {
		return nil
	}
	return asm.DirectKernels()
}

// direct returns the weights for kernels of that many outputs, made at their
// first use.
//
// The guard's bound is that of bound.go for n taps and the bias, and 2u more of
// |y|, which is at most ||w/t|| ||t x|| + |b|, for its own arithmetic.
func (k *Kernel) direct(outputs int) *directWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.inBlocks[outputs]; w != nil {
		return w
	}
	taps, groups := k.taps(), (k.oc+outputs-1)/outputs
	w := &directWeights{make([]float64, groups*taps*outputs), make([]float64, groups*3*outputs)}
	for o := range k.oc {
		g, i := o/outputs, o%outputs
		for t := range taps {
			w.packed[(g*taps+t)*outputs+i] = k.packed[k.at(o, t)]
		}
		table := w.tables[g*3*outputs+i:]
		table[0] = k.bias[o]
		if k.float32 {
			table[outputs] = 1.0002 * 0x1p-53 * float64(float64(taps+2)*k.norm[o])
			table[2*outputs] = 3.001 * 0x1p-53 * math.Abs(k.bias[o])
		}
	}
	if k.inBlocks == nil {
		k.inBlocks = map[int]*directWeights{}
	}
	k.inBlocks[outputs] = w
	return w
}

// flat returns the job as one on images of a single line, if each output reads
// one pixel, its own, and there are enough of them; otherwise nil.
func (j *job) flat(pixels int) *job {
	s, d := j.src, j.dst
	if j.k.kh*j.k.kw != 1 || j.rows.stride != 1 || j.cols.stride != 1 || !j.rows.same(s.H()) || !j.cols.same(s.W()) ||
		d.H() != s.H() || d.W() != s.W() || s.H()*s.W() < pixels {
		return nil
	}
	f := *j
	f.src = tensor.Of(s.Format, s.Data, s.N(), s.C(), 1, s.H()*s.W())
	f.dst = tensor.Of(d.Format, d.Data, d.N(), d.C(), 1, d.H()*d.W())
	f.rows, f.cols = straightAxis(1), straightAxis(s.H()*s.W())
	return &f
}

// applyBlocked convolves with kernels.
func (j *job) applyBlocked(k *asm.Direct) {
	if f := j.flat(k.Pixels); f != nil {
		// The source is the image.
		if f.dst.Format != fp16.Float64 {
			f.norms = f.pixelNorms()
		}
		f.expanded = layout{height: 1, line: f.src.W(), sample: f.src.C() * f.src.W()}
		for c := range f.src.C() {
			f.expanded.tap = append(f.expanded.tap, c*panelLine(k))
		}
		f.convolveBlocked(k, 0, f.src.Data, true)
		return
	}
	if j.dst.Format != fp16.Float64 {
		// Kernels read whole blocks of norms, past the end of a line.
		j.norms = append(j.windows(), make([]float64, k.Pixels)...)
	}
	j.expanded = newLayout(j, k.Pixels)
	j.eachGroup(func(lo int, image []float64) { j.convolveBlocked(k, lo, image, false) })
}

// convolveBlocked computes the outputs of the samples in image, which start at
// lo. With gather, what some blocks of a line read is first brought together,
// one tap after another: planes whose size is a power of two meet in the same
// few sets of a cache.
func (j *job) convolveBlocked(k *asm.Direct, lo int, image []float64, gather bool) {
	l, d := &j.expanded, j.dst
	g := &blocked{job: j, Direct: k, weights: j.k.direct(k.Outputs), apply: k.Convolve[kernelFormats[d.Format]]}
	for _, t := range l.tap {
		g.taps = append(g.taps, 8*t)
	}
	blocks := (d.W() + k.Pixels - 1) / k.Pixels // of a line
	per := d.H() * blocks
	unit := 1 + pieceSize/(j.k.taps()*k.Pixels*d.C())
	if gather {
		unit = (unit + panelBlocks - 1) / panelBlocks * panelBlocks
	}
	units := (per + unit - 1) / unit
	par.For(len(image)/l.sample*units, func(i int) {
		n := i / units
		s := blockPool.Get().(*blockSpace)
		defer s.put()
		s.out = grown(&s.out, k.Outputs*k.Pixels)
		s.flags = grown(&s.flags, k.Outputs*k.Pixels/k.Lanes())
		if gather {
			s.panel = grown(&s.panel, len(g.taps)*panelLine(k))
		}
		r := &s.row
		r.job, r.n = j, lo+n
		start := 0 // column of the panel's first pixel
		from, end := i%units*unit, min((i%units+1)*unit, per)
		for b := from; b < end; b++ {
			r.y = b / blocks
			x := b % blocks * k.Pixels
			x0 := min(x, max(0, d.W()-k.Pixels))
			if !gather {
				g.block(r, image[n*l.sample+r.y*j.rows.stride*l.line+x0:], x, x-x0, s)
				continue
			}
			at := (b - from) % panelBlocks * k.Pixels
			if at == 0 {
				start = x0
				x1 := min(x+panelBlocks*k.Pixels, d.W())
				for c := range j.src.C() {
					copy(s.panel[c*panelLine(k):], j.src.Plane(lo+n, c)[x0:x1])
				}
			}
			g.block(r, s.panel[x0-start:], x, x-x0, s)
		}
	})
}

// blockSpace is the scratch memory of one goroutine.
type blockSpace struct {
	panel, out []float64
	flags      []uint8
	row        row
}

var blockPool = sync.Pool{New: func() any { return new(blockSpace) }}

// put gives the memory back, and keeps no tensor alive.
func (s *blockSpace) put() {
	s.row = row{terms: s.row.terms}
	blockPool.Put(s)
}

// Blocks that are gathered at once, and the numbers of a line of the panel: an
// odd number of cache lines.
const panelBlocks = 8

func panelLine(k *asm.Direct) int { return panelBlocks*k.Pixels + 8 }

// block computes the outputs of all channels for the pixels of a line from x
// on. Where the line ends before a block does, the block begins earlier, if it
// can: the first skip pixels of it are not wanted.
func (g *blocked) block(r *row, line []float64, x, skip int, s *blockSpace) {
	out, flags := s.out, s.flags
	d, taps := g.dst, len(g.taps)
	width := min(g.Pixels-skip, d.W()-x)
	window, finite := &out[0], true // unread in float64
	if d.Format != fp16.Float64 {
		norms := g.norms[(r.n*d.H()+r.y)*d.W()+x-skip:]
		window = &norms[0]
		for _, v := range norms[skip : skip+width] {
			finite = finite && v-v == 0
		}
	}
	for c := 0; c < d.C(); c += g.Outputs {
		group := c / g.Outputs
		g.apply(&line[0], &g.taps[0], taps, &g.weights.packed[group*taps*g.Outputs],
			&g.weights.tables[group*3*g.Outputs], window, &out[0], &flags[0])
		for o := range min(g.Outputs, d.C()-c) {
			to := d.Plane(r.n, c+o)[r.y*d.W()+x:][:width]
			copy(to, out[o*g.Pixels+skip:])
			open := flags[o*3 : o*3+3]
			if finite && open[0]|open[1]|open[2] == 0 {
				continue
			}
			for i := range to {
				if at := i + skip; !finite || open[at/g.Lanes()]>>(at%g.Lanes())&1 != 0 {
					to[i] = r.resolve(c+o, x+i)
				}
			}
		}
	}
}

// resolve returns the output of channel o in column x that a kernel left open.
func (r *row) resolve(o, x int) float64 {
	f := r.dst.Format
	if f == fp16.Float64 {
		return fp16.NaN // all weights are finite
	}
	if r.norms[(r.n*r.dst.H()+r.y)*r.dst.W()+x] == 0 {
		return f.Round(r.k.bias[o] + 0)
	}
	r.gather(o, x)
	sum := 0.0
	for _, p := range r.terms {
		sum += p
	}
	return r.settle(o, x, sum)
}
