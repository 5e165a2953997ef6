package conv

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/internal/par"
)

// direct is a convolution pixel by pixel: of kernels of one pixel and stride 1 on the
// image itself, of others on planes of float64 numbers. With a stride, a line of a plane
// holds the columns that the first taps of pixels read, then those of the second ones,
// and so on, so that what pixels side by side read of a tap lies side by side.
type direct struct {
	*asm.Pixels
	k        *Kernel
	weights  *pixelWeights
	round    func(m, norms, table *float64, dst *float32, pixels int, flags *uint8)
	src, dst *Image
	space    *Space

	stride        int
	onImage       bool
	groups        int // of pixels, in a line
	height, width int // pixels of a sample that windows read, or pass over
	panels        int
	norms         []float64 // ||t x|| of each window, [N][H][W]
	rows          []float64 // sums on the way to norms
	planes        []float64 // [N][C][height][stride][phaseWidth]
	phaseWidth    int
	planeWidth    int   // of all phases
	taps          []int // bytes from the first
	tasks         struct {
		norms, rows, window, expand func(i int)
		line                        func(worker, i int)
		resolve                     func(s *worker, at, next place) float64
	}
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
	w.panels = asm.Aligned[float64]((k.oc + outputs - 1) / outputs * w.terms * outputs)
	w.tables = asm.Aligned[float64]((k.oc + block - 1) / block * 3 * block)
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

func newDirect(k *Kernel, w *asm.Pixels, round func(m, norms, table *float64, dst *float32, pixels int, flags *uint8), dst, src *Image, stride int, space *Space) *direct {
	g := &space.direct
	tasks, taps := g.tasks, g.taps[:0]
	*g = direct{Pixels: w, k: k, weights: k.pixel(w.Outputs), round: round, src: src, dst: dst, space: space, tasks: tasks, taps: taps,
		stride: stride, onImage: k.kh == 1 && stride == 1,
		groups: (dst.W + w.Tiles - 1) / w.Tiles, panels: (k.oc + w.Outputs - 1) / w.Outputs,
		height: (dst.H-1)*stride + k.kh, width: (dst.W-1)*stride + k.kw}
	space.anchored.begin(w, k, src)
	if tasks.line == nil { // once: functions of methods are allocated
		g.tasks.norms, g.tasks.rows, g.tasks.window = g.measure, g.sumRow, g.sumColumn
		g.tasks.expand, g.tasks.line, g.tasks.resolve = g.expand, g.runLine, g.resolve
	}
	return g
}

func (g *direct) run() {
	n, d, k := g.src.N, g.dst, g.k.kh
	g.norms = grown(&g.space.norms, n*g.height*g.width)
	if !g.onImage { // else each line takes its own
		par.For(n*g.height, g.tasks.norms)
		g.rows = grown(&g.space.rows, n*g.height*d.W)
		par.For(n*g.height, g.tasks.rows)
		par.For(n*d.H, g.tasks.window)
		g.phaseWidth = max((g.width+g.stride-1)/g.stride, g.groups*g.Tiles+(k-1)/g.stride) // the last group reads whole
		g.planeWidth = g.stride * g.phaseWidth
		g.planes = grown(&g.space.planes, n*g.k.ic*g.height*g.planeWidth)
		for c := range g.k.ic {
			for i := range k {
				for j := range k {
					g.taps = append(g.taps, 8*((c*g.height+i)*g.planeWidth+j%g.stride*g.phaseWidth+j/g.stride))
				}
			}
		}
		par.For(n*g.height, g.tasks.expand)
	}
	g.space.each(n*d.H, g.tasks.line)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
	g.space.anchored.end()
}

// measure takes the norms of a line of pixels.
func (g *direct) measure(i int) {
	pixelNorms(g.norms[i*g.width:][:g.width], g.src, g.k, i/g.height, i%g.height-g.k.kh/2, -(g.k.kw / 2))
}

// sumRow sums the squares of a line of norms over the lines of windows.
func (g *direct) sumRow(i int) {
	w := g.dst.W
	in, out := g.norms[i*g.width:][:g.width], g.rows[i*w:][:w]
	for x, v := range in {
		in[x] = v * v
	}
	clear(out)
	for j := range g.k.kw {
		if g.stride > 1 {
			for x := range out {
				out[x] += in[j+x*g.stride]
			}
			continue
		}
		for x, v := range in[j:][:w] {
			out[x] += v
		}
	}
}

// sumColumn makes the norms of a line of windows of those sums.
func (g *direct) sumColumn(i int) {
	w, h := g.dst.W, g.dst.H
	out := g.norms[i*w:][:w]
	clear(out)
	for j := range g.k.kh {
		for x, v := range g.rows[(i/h*g.height+i%h*g.stride+j)*w:][:w] {
			out[x] += v
		}
	}
	for x, v := range out {
		out[x] = math.Sqrt(v)
	}
}

// expand makes a line of the planes.
func (g *direct) expand(i int) {
	m, c, pad := g.src, g.k.ic, g.k.kh/2
	n, y := i/g.height, i%g.height
	for ch := range c {
		line := m.data[m.at(n, ch/block, y-pad, -pad):]
		out := g.planes[((n*c+ch)*g.height+y)*g.planeWidth:][:g.planeWidth]
		for phase := range g.stride {
			out := out[phase*g.phaseWidth:][:g.phaseWidth]
			some := max(0, (g.width-phase+g.stride-1)/g.stride)
			line := line[min(phase*block+ch%block, len(line)):]
			for x := range out[:some] {
				out[x] = float64(line[x*g.stride*block])
			}
			clear(out[some:])
		}
	}
}

func (g *direct) runLine(worker, i int) {
	s := g.space.workers[worker]
	g.line(s, i/g.dst.H, i%g.dst.H)
	s.finish(g.tasks.resolve)
}

// line makes a line of outputs of a sample.
func (g *direct) line(s *worker, n, y int) {
	d, blocks := g.dst, g.src.Blocks()
	if g.onImage {
		g.measure(n*d.H + y)
	}
	norms := g.norms[(n*d.H+y)*d.W:][:d.W]
	finite := true
	for _, v := range norms {
		finite = finite && v <= math.MaxFloat64
	}
	s.m = aligned(&s.memory[1], g.groups*g.Tiles*g.Outputs)
	s.flags = grown(&s.flags, g.Outputs/block*d.W)
	if g.onImage {
		size := blocks * g.Tiles * block
		s.v = aligned(&s.memory[0], g.groups*size)
		for i := range g.groups {
			x := i * g.Tiles
			g.Widen(&g.src.data[g.src.at(n, 0, y, x)], g.src.plane*4, &s.v[i*size], blocks, min(g.Tiles, d.W-x))
		}
	}
	size := g.weights.terms * g.Outputs
	for o := range g.panels {
		u := &g.weights.panels[o*size]
		if g.onImage {
			g.Multiply(&s.v[0], u, &s.m[0], blocks, blocks, g.groups, &g.weights.panels[(o+1)%g.panels*size], &d.data[d.at(n, o*g.Outputs/block, y, 0)])
		} else {
			g.Taps(&g.planes[(n*g.k.ic*g.height+y*g.stride)*g.planeWidth], &g.taps[0], len(g.taps), u, &s.m[0], g.groups)
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
	if lanes := d.C % block; !finite && lanes > 0 && end == d.C { // 0 times infinity
		clearLanes(d.data[d.at(n, end/block, y, 0):][:d.W*block], lanes)
	}
	if open == 0 {
		return
	}
	all := g.stride == 1 && many(open, d.W*(end-first))
	for x := 0; x < d.W; x += 4 {
		w := min(4, d.W-x)
		if window := slices.Max(norms[x : x+w]); all && window <= math.MaxFloat64 {
			g.space.anchored.settle(s, d, o, n, y, x, w, window)
			continue
		}
		for c := first; c < end; c += block {
			for i, f := range s.flags[(c-first)/block*d.W+x:][:w] {
				for ; f != 0; f &= f - 1 {
					if o := c + bits.TrailingZeros8(f); o < d.C {
						s.note(d, n, o, y, x+i)
					}
				}
			}
		}
	}
}

// resolve returns an output that the guard left open.
func (g *direct) resolve(s *worker, at, _ place) float64 {
	k := g.k.kh
	w := g.weights.direct[at.o*g.src.Blocks()*k*k*block:][:g.src.Blocks()*k*k*block]
	at.y, at.x = at.y*g.stride, at.x*g.stride // in the source
	return s.settle(g.dst.Format, g.src, w, k, g.k.bias[at.o], at)
}
