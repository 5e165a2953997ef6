package conv

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/par"
)

// direct is a convolution pixel by pixel. For a small window of many channels, what each
// pixel of some lines reads is gathered, tap by tap and pixel after pixel, and multiplied as
// Winograd's windows are. Others are made of planes of float64 numbers. With a stride S there are S x S
// planes of a channel, or as many as the window has pixels: plane (i, j) holds the lines and
// columns i and j after multiples of S, so that what pixels side by side read of a tap lies
// side by side, and from line to line at one distance. So a kernel may go on from one line
// of pixels to the next, over what lies between them, of which nothing is taken.
type direct struct {
	*asm.Pixels
	k        *Kernel
	weights  *pixelWeights
	round    func(m, norms, table *float64, dst *float32, pixels int, flags *uint8)
	src, dst *Image
	space    *Space

	stride        int
	gathers       bool
	own           bool // units take the norms of their pixels, which are their windows
	groups        int  // of pixels, in a line
	chunks        int  // of the lines of a sample
	shares        int  // of the panels
	cuts          int  // of the taps, where they are gathered: all pixels with some taps after those with others
	height, width int  // pixels of a sample that windows read, or pass over
	panels        int
	norms         []float64 // ||t x|| of each window, [N][H][W]
	rows          []float64 // sums on the way to norms
	planes        []float64 // [N][C][phases][phases][phaseHeight][phaseWidth]
	phases        int
	phaseHeight   int
	phaseWidth    int
	taps          []int // bytes from the first
	tasks         struct {
		norms, rows, window, expand func(i int)
		unit                        func(worker, i int)
		resolve                     func(s *worker, at, next place) float64
	}
}

// pixelWeights are weights in the order of the kernels, and what they make the
// guard's bound of.
type pixelWeights struct {
	panels []float64 // [outputs/Outputs][terms][Outputs]
	terms  int       // taps, or where they are gathered those of whole blocks of channels
	tables []float64 // of each 8 outputs: slope [8], bias [8], e [8]
	direct []float32 // the weights as they are, [oc][blocks][K*K][8]
}

// gathered reports whether what a pixel reads is gathered.
func (k *Kernel) gathered() bool { return k.kh <= 3 && k.ic >= block || k.kh == 1 }

// term returns the channel and the place in the window of a term: they follow each other in
// the window, channel by channel, and where they are gathered in the channels, tap by tap.
func (k *Kernel) term(t int) (c, i int) {
	if k.gathered() {
		c := (k.ic + block - 1) / block * block
		return t % c, t / c
	}
	return t / (k.kh * k.kw), t % (k.kh * k.kw)
}

// gatherChain is how many blocks of 8 terms that are gathered are added one after another;
// such sums are added in order.
const gatherChain = 32

// roundings returns in how many roundings of the sum a term takes part at most: in those of
// its chain, of which the first addition, to 0, is exact, and in one for each chain.
func (k *Kernel) roundings(terms int) int {
	const chain = gatherChain * block
	if !k.gathered() || terms <= chain {
		return terms
	}
	return chain + (terms+chain-1)/chain
}

// pixel returns the weights for kernels of that many outputs, made at their first
// use.
//
// The guard's bound is that of bound.go for n taps and the bias, with roundings in the place
// of n, and 2u more of |y|, which is at most ||w/t|| ||t x|| + |b|, for its own arithmetic.
func (k *Kernel) pixel(outputs int) *pixelWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.byPixel[outputs]; w != nil {
		return w
	}
	hw, blocks := k.kh*k.kw, (k.ic+block-1)/block
	w := &pixelWeights{terms: k.taps(), direct: make([]float32, k.oc*blocks*hw*block)}
	if k.gathered() {
		w.terms = hw * blocks * block
	}
	w.panels = asm.Aligned[float64]((k.oc + outputs - 1) / outputs * w.terms * outputs)
	w.tables = asm.Aligned[float64]((k.oc + block - 1) / block * 3 * block)
	for o := range k.oc {
		for t := range w.terms {
			c, i := k.term(t)
			if c >= k.ic {
				continue
			}
			v := k.packed[k.at(o, c*hw+i)]
			w.panels[(o/outputs*w.terms+t)*outputs+o%outputs] = v
			w.direct[((o*blocks+c/block)*hw+i)*block+c%block] = float32(v)
		}
		table := w.tables[o/block*3*block+o%block:]
		table[0] = 1.0002 * 0x1p-53 * float64(float64(k.roundings(w.terms)+2)*k.norm[o])
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
		stride: stride,
		groups: (dst.W + w.Tiles - 1) / w.Tiles, panels: (k.oc + w.Outputs - 1) / w.Outputs,
		height: (dst.H-1)*stride + k.kh, width: (dst.W-1)*stride + k.kw}
	space.anchored.begin(w, k, src)
	if tasks.unit == nil { // once: functions of methods are allocated
		g.tasks.norms, g.tasks.rows, g.tasks.window = g.measure, g.sumRow, g.sumColumn
		g.tasks.expand, g.tasks.unit, g.tasks.resolve = g.expand, g.runUnit, g.resolve
	}
	return g
}

func (g *direct) run() {
	n, d, k := g.src.N, g.dst, g.k.kh
	g.gathers = g.k.gathered()
	g.norms = grown(&g.space.norms, n*g.height*g.width)
	g.phases = min(g.stride, k)
	g.phaseHeight, g.phaseWidth = (g.height+g.stride-1)/g.stride, (g.width+g.stride-1)/g.stride
	g.share()
	if g.own = k == 1 && g.stride == 1 && g.shares == 1; !g.own {
		par.For(n*g.height, g.tasks.norms)
		g.rows = grown(&g.space.rows, n*g.height*d.W)
		par.For(n*g.height, g.tasks.rows)
		par.For(n*d.H, g.tasks.window)
	}
	if !g.gathers {
		g.planes = grown(&g.space.planes, n*g.k.ic*g.channel()+g.Tiles) // the last group reads whole
		for c := range g.k.ic {
			for i := range k {
				for j := range k {
					g.taps = append(g.taps, 8*(c*g.channel()+g.at(i, j%g.stride)+j/g.stride))
				}
			}
		}
		par.For(n*g.height, g.tasks.expand)
	}
	for _, s := range g.space.workers {
		s.holds = 0
	}
	g.space.each(n*g.chunks*g.shares, g.tasks.unit)
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
	if y%g.stride >= g.phases {
		return // no window reads it
	}
	for ch := range c {
		line := m.data[m.at(n, ch/block, y-pad, -pad):]
		for phase := range g.phases {
			out := g.planes[(n*c+ch)*g.channel()+g.at(y, phase):][:g.phaseWidth]
			some := max(0, (g.width-phase+g.stride-1)/g.stride)
			line := line[min(phase*block+ch%block, len(line)):]
			for x := range out[:some] {
				out[x] = float64(line[x*g.stride*block])
			}
			clear(out[some:])
		}
	}
}

// channel returns how many numbers the planes of a channel have, and at where in them line y
// of those with the columns from phase on begins.
func (g *direct) channel() int { return g.phases * g.phases * g.phaseHeight * g.phaseWidth }
func (g *direct) at(y, phase int) int {
	return ((y%g.stride*g.phases+phase)*g.phaseHeight + y/g.stride) * g.phaseWidth
}

// share cuts the work to units: some lines of a sample with some groups of outputs. In a
// unit each group's weights pass by once for all lines, and what the lines read, of which
// there are as many as half a second cache holds, stays at hand. What is gathered may be
// more than that, an eighth of the weights: else those pass by more often, which come from
// farther away. But no kernel may run for long.
func (g *direct) share() {
	d := g.dst
	g.chunks, g.shares = d.H, 1
	if d.H == 0 {
		return
	}
	line, most := 8*(g.k.ic*g.phases*g.phases+g.Outputs)*g.phaseWidth, asm.SecondCache()/2 // with its products
	if g.gathers {
		line, most = 8*(g.weights.terms+g.Outputs)*d.W, max(most, min(len(g.weights.panels), 3<<20))
	}
	fit := max(1, most/line)
	g.chunks = (d.H + fit - 1) / fit
	units := 4 * par.Workers()
	if 8*len(g.weights.panels) <= asm.SecondCache()/2 { // at hand in any case
		g.chunks = max(g.chunks, min(d.H, units/g.src.N))
	} else if g.src.N*g.chunks < units {
		g.shares = min(g.panels, (units+g.src.N*g.chunks-1)/(g.src.N*g.chunks))
	}
	// What is gathered passes by each group's weights. Where it is more than a third of a second cache,
	// some of the taps do first, and then others, whose sums are added: with that no term takes
	// part in more roundings than in one sum of all chains.
	if g.cuts = 1; g.gathers {
		lines := (d.H + g.chunks - 1) / g.chunks
		g.cuts = min(g.k.kh*g.k.kw, 1+8*g.weights.terms*lines*d.W/bytesCut)
	}
}

// bytesCut is how much of what is gathered passes by the weights at a time, about.
var bytesCut = asm.SecondCache() / 3

// cut returns the taps of a cut.
func (g *direct) cut(i int) (from, to int) {
	taps := g.k.kh * g.k.kw
	return i * taps / g.cuts, (i + 1) * taps / g.cuts
}

func (g *direct) runUnit(worker, i int) {
	s, d := g.space.workers[worker], g.dst
	share, part, n := i%g.shares, i/g.shares, i/g.shares/g.chunks
	chunk := part % g.chunks
	lo, hi := chunk*d.H/g.chunks, (chunk+1)*d.H/g.chunks
	if g.gathers && s.holds != part+1 {
		g.gather(s, n, lo, hi)
		s.holds = part + 1
	}
	// The lines are one line to the kernel, if so it makes fewer groups of pixels.
	width, step, all := g.phaseWidth, hi-lo, ((hi-lo-1)*g.phaseWidth+d.W+g.Tiles-1)/g.Tiles
	if g.gathers {
		width, all = d.W, ((hi-lo)*d.W+g.Tiles-1)/g.Tiles
	} else if all >= (hi-lo)*g.groups {
		step, all = 1, g.groups
	}
	finite := g.finite(n, lo, hi)
	s.flags = grown(&s.flags, g.Outputs/block*d.W)
	first, end, size := share*g.panels/g.shares, (share+1)*g.panels/g.shares, all*g.Tiles*g.Outputs
	if g.cuts > 1 {
		s.m = aligned(&s.memory[1], (end-first+1)*size)
		for i := range g.cuts {
			for o := first; o < end; o++ {
				g.multiplyCut(s, i, o, all, s.m[(o-first)*size:][:size], s.m[(end-first)*size:])
			}
		}
		for o := first; o < end; o++ {
			for y := lo; y < hi; y++ {
				g.finish(s, (o-first)*size+(y-lo)*width*g.Outputs, finite || g.finite(n, y, y+1), n, y, o)
			}
		}
		s.finish(g.tasks.resolve)
		return
	}
	s.m = aligned(&s.memory[1], size)
	for o := first; o < end; o++ {
		for y := lo; y < hi; y += step {
			g.multiply(s, n, y, o, all)
			for i := range step {
				g.finish(s, i*width*g.Outputs, finite || g.finite(n, y+i, y+i+1), n, y+i, o)
			}
		}
	}
	s.finish(g.tasks.resolve)
}

// gather makes V of the pixels of some lines, cut after cut, and in that group after group: of
// each tap the channels.
func (g *direct) gather(s *worker, n, lo, hi int) {
	d, k, blocks := g.dst, g.k.kh, g.src.Blocks()
	groups := ((hi-lo)*d.W + g.Tiles - 1) / g.Tiles
	s.v = aligned(&s.memory[0], groups*g.weights.terms*g.Tiles)
	for y, at := lo, 0; y < hi; y++ {
		if g.own {
			g.measure(n*d.H + y)
		}
		for x, pixels := 0, 0; x < d.W; x, at = x+pixels, at+pixels {
			pixels = min(g.Tiles-at%g.Tiles, d.W-x)
			for i := range g.cuts {
				first, end := g.cut(i)
				to := (first*groups+at/g.Tiles*(end-first))*blocks*g.Tiles*block + at%g.Tiles*block
				for t := first; t < end; t++ {
					from := g.src.at(n, 0, y*g.stride+t/k-k/2, x*g.stride+t%k-k/2)
					g.Widen(&g.src.data[from], g.src.plane*4, g.stride*block*4, &s.v[to], blocks, pixels)
					to += blocks * g.Tiles * block
				}
			}
		}
	}
}

// multiply makes M of a group of outputs, of so many groups of pixels from line y on.
func (g *direct) multiply(s *worker, n, y, o, groups int) {
	size := g.weights.terms * g.Outputs
	u := &g.weights.panels[o*size]
	if !g.gathers {
		g.Taps(&g.planes[n*g.k.ic*g.channel()+y*g.phaseWidth], &g.taps[0], len(g.taps), u, &s.m[0], groups)
		return
	}
	blocks := g.weights.terms / block
	g.Multiply(&s.v[0], u, &s.m[0], blocks, gatherChain, groups, &g.weights.panels[(o+1)%g.panels*size], &g.dst.data[g.dst.at(n, o*g.Outputs/block, y, 0)])
}

// multiplyCut makes M of a group of outputs of a cut of the taps, and adds it to those of the cuts
// before; more is memory for it.
func (g *direct) multiplyCut(s *worker, i, o, groups int, m, more []float64) {
	first, end := g.cut(i)
	blocks := g.src.Blocks()
	size, at := g.weights.terms*g.Outputs, first*blocks*block*g.Outputs
	to := m
	if i > 0 {
		to = more
	}
	next := &g.weights.panels[(o+1)%g.panels*size+at]
	g.Multiply(&s.v[first*groups*blocks*g.Tiles*block], &g.weights.panels[o*size+at], &to[0], (end-first)*blocks, gatherChain, groups, next, &g.dst.data[0])
	if i > 0 {
		for k, v := range more[:len(m)] {
			m[k] += v
		}
	}
}

// finite reports whether all norms of lines [lo,hi) are.
func (g *direct) finite(n, lo, hi int) bool {
	w := g.dst.W
	for _, v := range g.norms[(n*g.dst.H+lo)*w : (n*g.dst.H+hi)*w] {
		if !(v <= math.MaxFloat64) {
			return false
		}
	}
	return true
}

// finish makes the outputs of a line and a group of channels, of which M begins at m.
func (g *direct) finish(s *worker, m int, finite bool, n, y, o int) {
	d := g.dst
	norms := g.norms[(n*d.H+y)*d.W:][:d.W]
	first, end := o*g.Outputs, min((o+1)*g.Outputs, d.C)
	open := 0
	for c := first; c < end; c += block {
		flags := s.flags[(c-first)/block*d.W:][:d.W]
		g.round(&s.m[m+c-first], &norms[0], &g.weights.tables[c/block*3*block], &d.data[d.at(n, c/block, y, 0)], d.W, &flags[0])
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
