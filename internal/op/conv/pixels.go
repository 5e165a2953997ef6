package conv

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
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

	p             Params
	stride        int // of a window that is padded by its half
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

func newDirect(k *Kernel, w *asm.Pixels, round func(m, norms, table *float64, dst *float32, pixels int, flags *uint8),
	dst, src *Image, p Params, space *Space) *direct {
	g := &space.direct
	tasks, taps := g.tasks, g.taps[:0]
	*g = direct{Pixels: w, k: k, weights: k.pixel(w.Outputs), round: round, src: src,
		dst: dst, space: space, tasks: tasks, taps: taps, p: p, groups: (dst.W + w.Tiles - 1) / w.Tiles,
		panels: (k.oc + w.Outputs - 1) / w.Outputs}
	sy, dy := p.steps(0)
	sx, dx := p.steps(1)
	g.stride, g.height, g.width = sy, (dst.H-1)*sy+(k.kh-1)*dy+1, (dst.W-1)*sx+(k.kw-1)*dx+1
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
	if g.own = k == 1 && g.k.usual(g.p) && g.stride == 1 && g.shares == 1; !g.own {
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

// multiply makes M of a group of outputs, of so many groups of pixels from line y on.
func (g *direct) multiply(s *worker, n, y, o, groups int) {
	size := g.weights.terms * g.Outputs
	u := &g.weights.panels[o*size]
	if !g.gathers {
		g.Taps(&g.planes[n*g.k.ic*g.channel()+y*g.phaseWidth], &g.taps[0], len(g.taps), u, &s.m[0], groups)
		return
	}
	blocks := g.weights.terms / block
	g.Multiply(&s.v[0], u, &s.m[0], blocks, gatherChain, groups, &g.weights.panels[(o+1)%g.panels*size],
		&g.dst.data[g.dst.at(n, o*g.Outputs/block, y, 0)])
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
	g.Multiply(&s.v[first*groups*blocks*g.Tiles*block], &g.weights.panels[o*size+at], &to[0], (end-first)*blocks,
		gatherChain, groups, next, &g.dst.data[0])
	if i > 0 {
		for k, v := range more[:len(m)] {
			m[k] += v
		}
	}
}
