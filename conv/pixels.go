package conv

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/internal/par"
)

// direct is a convolution of stride 1 pixel by pixel: of kernels of one pixel on
// the image itself, of others on planes of float64 numbers.
type direct struct {
	*asm.Pixels
	k        *Kernel
	weights  *pixelWeights
	round    func(m, norms, table *float64, dst *float32, pixels int, flags *uint8)
	src, dst *Image
	space    *Space

	groups        int // of pixels, in a line
	height, width int // pixels of a sample that windows read
	panels        int
	norms         []float64 // ||t x|| of each window, [N][H][W]
	planes        []float64 // [N][C][height][width]
	taps          []int     // bytes from the first
	exact         anchored
}

// pixelWeights are weights in the order of the kernels, and what they make the
// guard's bound of.
type pixelWeights struct {
	panels []float64 // [outputs/Outputs][terms][Outputs]
	terms  int       // taps, or for kernels of one pixel blocks*8
	tables []float64 // of each 8 outputs: slope [8], bias [8], e [8]
	direct []float32 // the weights as they are, [oc][blocks][K*K][8]
}

// pixel returns the weights for kernels of that many outputs, made at their first
// use.
//
// The guard's bound is that of bound.go for n taps and the bias, and 2u more of
// |y|, which is at most ||w/t|| ||t x|| + |b|, for its own arithmetic.
func (k *Kernel) pixel(outputs int) *pixelWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.byPixel[outputs]; w != nil {
		return w
	}
	hw, blocks := k.kh*k.kw, (k.ic+block-1)/block
	w := &pixelWeights{terms: k.taps(), direct: make([]float32, k.oc*blocks*hw*block)}
	if hw == 1 {
		w.terms = blocks * block
	}
	w.panels = aligned(new([]float64), (k.oc+outputs-1)/outputs*w.terms*outputs)
	w.tables = aligned(new([]float64), (k.oc+block-1)/block*3*block)
	for o := range k.oc {
		for t := range k.taps() {
			v := k.packed[k.at(o, t)]
			w.panels[(o/outputs*w.terms+t)*outputs+o%outputs] = v
			c, i := t/hw, t%hw
			w.direct[((o*blocks+c/block)*hw+i)*block+c%block] = float32(v)
		}
		table := w.tables[o/block*3*block+o%block:]
		table[0] = 1.0002 * 0x1p-53 * float64(float64(k.taps()+2)*k.norm[o])
		table[block] = k.bias[o]
		table[2*block] = 3.001 * 0x1p-53 * math.Abs(k.bias[o])
	}
	if k.byPixel == nil {
		k.byPixel = map[int]*pixelWeights{}
	}
	k.byPixel[outputs] = w
	return w
}

func newDirect(k *Kernel, w *asm.Pixels, round func(m, norms, table *float64, dst *float32, pixels int, flags *uint8), dst, src *Image, space *Space) *direct {
	return &direct{Pixels: w, k: k, weights: k.pixel(w.Outputs), round: round, src: src, dst: dst, space: space,
		groups: (dst.W + w.Tiles - 1) / w.Tiles, panels: (k.oc + w.Outputs - 1) / w.Outputs,
		height: dst.H + k.kh - 1, width: dst.W + k.kw - 1, exact: anchored{kernels: w, k: k, src: src}}
}

func (g *direct) run() {
	g.norms = grown(&g.space.norms, g.src.N*g.height*g.width)
	pixelNorms(g.norms, g.src, g.k, g.src.Frame-g.k.kh/2, g.height, g.width)
	if g.k.kh > 1 {
		g.window()
		g.expand()
	}
	par.For(g.dst.N*g.dst.H, func(i int) {
		s := g.space.take()
		defer g.space.release(s)
		g.line(s, i/g.dst.H, i%g.dst.H)
	})
	g.space.settle(g.resolve)
}

// window makes the norms of windows of those of pixels: the sum of squares over
// the window, by lines and then by columns.
func (g *direct) window() {
	n, k, d := g.src.N, g.k.kh, g.dst
	rows := grown(&g.space.rows, n*g.height*d.W)
	par.For(n*g.height, func(i int) {
		in, out := g.norms[i*g.width:][:g.width], rows[i*d.W:][:d.W]
		for x, v := range in {
			in[x] = v * v
		}
		clear(out)
		for j := range k {
			for x, v := range in[j:][:d.W] {
				out[x] += v
			}
		}
	})
	g.norms = g.norms[:n*d.H*d.W]
	par.For(n*d.H, func(i int) {
		out := g.norms[i*d.W:][:d.W]
		clear(out)
		for j := range k {
			for x, v := range rows[(i/d.H*g.height+i%d.H+j)*d.W:][:d.W] {
				out[x] += v
			}
		}
		for x, v := range out {
			out[x] = math.Sqrt(v)
		}
	})
}

// expand makes planes of the image.
func (g *direct) expand() {
	m, c, pad := g.src, g.k.ic, g.k.kh/2
	g.width = max(g.width, g.groups*g.Tiles+g.k.kw-1) // the last group reads whole
	g.planes = grown(&g.space.planes, m.N*c*g.height*g.width)
	g.taps = g.taps[:0]
	for ch := range c {
		for i := range g.k.kh {
			for j := range g.k.kw {
				g.taps = append(g.taps, 8*((ch*g.height+i)*g.width+j))
			}
		}
	}
	used := g.dst.W + g.k.kw - 1
	par.For(m.N*g.height, func(i int) {
		n, y := i/g.height, i%g.height
		for ch := range c {
			line := m.data[m.at(n, ch/block, y-pad, -pad):]
			out := g.planes[((n*c+ch)*g.height+y)*g.width:][:g.width]
			for x := range out[:used] {
				out[x] = float64(line[x*block+ch%block])
			}
			clear(out[used:])
		}
	})
}

// line makes a line of outputs of a sample.
func (g *direct) line(s *worker, n, y int) {
	d, blocks := g.dst, g.src.Blocks()
	norms := g.norms[(n*d.H+y)*d.W:][:d.W]
	finite := true
	for _, v := range norms {
		finite = finite && v <= math.MaxFloat64
	}
	s.m = aligned(&s.memory[1], g.groups*g.Tiles*g.Outputs)
	s.flags = grown(&s.flags, max(2*kernelOutputs, g.Outputs/block*d.W))
	if g.k.kh == 1 {
		size := blocks * g.Tiles * block
		s.v = aligned(&s.memory[0], g.groups*size)
		for i := range g.groups {
			x := i * g.Tiles
			g.Widen(&g.src.data[g.src.at(n, 0, y, x)], g.src.plane*4, &s.v[i*size], blocks, min(g.Tiles, d.W-x))
		}
	}
	for o := range g.panels {
		u := &g.weights.panels[o*g.weights.terms*g.Outputs]
		if g.k.kh == 1 {
			g.Multiply(&s.v[0], u, &s.m[0], blocks, g.groups)
		} else {
			g.Taps(&g.planes[(n*g.k.ic*g.height+y)*g.width], &g.taps[0], len(g.taps), u, &s.m[0], g.groups)
		}
		g.finish(s, norms, finite, n, y, o)
	}
}

// finish makes the outputs of a line and a group of channels.
func (g *direct) finish(s *worker, norms []float64, finite bool, n, y, o int) {
	d := g.dst
	first, end := o*g.Outputs, min((o+1)*g.Outputs, d.C)
	open := 0
	for c := first; c < end; c += block {
		flags := s.flags[(c-first)/block*d.W:][:d.W]
		g.round(&s.m[c-first], &norms[0], &g.weights.tables[c/block*3*block], &d.data[d.at(n, c/block, y, 0)], d.W, &flags[0])
		for x, f := range flags {
			switch {
			case !finite && !(norms[x] <= math.MaxFloat64):
				flags[x] = 1<<block - 1
			case f == 0:
				continue
			case norms[x] == 0: // nothing but zeros
				for b := range min(block, d.C-c) {
					d.data[d.at(n, c/block, y, x)+b] = float32(d.Format.Round(g.k.bias[c+b] + 0))
				}
				flags[x] = 0
			}
			open += bits.OnesCount8(flags[x])
		}
	}
	if open == 0 {
		return
	}
	all := many(open, d.W*(end-first))
	for x := 0; x < d.W; x += 4 {
		w := min(4, d.W-x)
		if window := slices.Max(norms[x : x+w]); all && window <= math.MaxFloat64 {
			g.exact.settle(s, d, o, n, y, x, w, window)
			continue
		}
		for c := first; c < end; c += block {
			for i := range w {
				s.note(d, s.flags[(c-first)/block*d.W+x+i], n, c, y, x+i)
			}
		}
	}
}

// resolve returns an output that the guard left open.
func (g *direct) resolve(s *worker, at, _ place) float64 {
	k := g.k.kh
	w := g.weights.direct[at.o*g.src.Blocks()*k*k*block:][:g.src.Blocks()*k*k*block]
	return s.settle(g.dst.Format, g.src, w, k, g.k.bias[at.o], at)
}
