package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// block is the number of channels that lie together.
const block = 8

// wino is a convolution with 3x3, 5x5 or 7x7 kernels of stride 1 by the kernels
// of package asm. The window of output (y, x) begins at pixel (y-K/2, x-K/2) of
// the source: what it reads outside lies in the frame.
type wino struct {
	*asm.Winograd
	k        *Kernel
	form     *asm.Form
	weights  *winogradWeights
	format   int // of asm
	src, dst *Image
	space    *Space

	th, tw    int       // tiles of a sample
	blocks    int       // of input channels
	panels    int       // groups of outputs
	units     int       // of tiles
	parts     int       // of the panels: units times parts are the pieces of work
	groups    int       // of tiles, in a unit at most
	rows      bool      // V is of one row of points
	pointwise bool      // all outputs at one point after the other
	points    int       // of V and M
	vPoint    int       // numbers of V from a point to the next
	mPoint    int       // and of M
	yColumn   int       // and of Y from a column to the next
	calls     int       // multiplications between input transforms, for each block
	exact     *anchored // nil where it has no kernels
	tasks     struct {
		unit    func(worker, i int)
		resolve func(s *worker, at, next place) float64
	}
}

// A unit of work is some groups of tiles, so many that their V fits a processor's
// second cache while weights pass through it. Then, for one group of outputs after
// the other, all points are multiplied and the tiles finished. Where V of two groups
// would be too large and the weights come from afar, V holds one row of points at a
// time: more tiles share a reading of the weights. M is transformed at once to the 4
// columns of Y [n][4][panels][groups][Tiles][Outputs], which are kept.
//
// Such a V shares a second cache of 2 MB with M of one group of outputs, and half as
// many tiles again would send both to the third cache. In one of 1 MB there would be too
// few tiles for the weights: all outputs are multiplied at one point after the other, so
// that it is V of one point that the cache holds, and M is of all outputs.
//
// A group has as many tiles as the block of registers. Where those are few, as with
// AVX2, weights are read more often for the same tiles, and V should fill most of that
// cache.
//
// All in bytes, about; measured where the second cache has 1 and 2 MB, and for few
// tiles 512 KB.
var (
	bytesV = [2]int{min(1<<19, asm.SecondCache()/4), min(1<<19, asm.SecondCache()/4*3)} // of a unit; with few tiles
	largeV = [2]int{1 << 19, min(1<<19, asm.SecondCache()/4*3)}                         // too large for two groups
	rowsV  = max(min(3<<17, asm.SecondCache()/4*3), min(3<<18, asm.SecondCache()-3<<17))
	// of a unit by rows, for the farthest weights where the second cache is small
	mostV     = 3 << 19
	farU      = max(3<<19, min(3<<20, asm.SecondCache()/2*3)) // weights from afar
	farthestU = 12 << 20

	smallCache = asm.SecondCache() < 2<<20
)

// few returns 1 for groups of few tiles, otherwise 0.
func few(w *asm.Winograd) int {
	if w.Tiles <= 8 {
		return 1
	}
	return 0
}

func newWino(k *Kernel, form *asm.Form, w *asm.Winograd, format int, dst, src *Image, space *Space) *wino {
	g := &space.wino
	tasks := g.tasks
	*g = wino{Winograd: w, k: k, form: form, weights: k.winograd(form, w), format: format, src: src,
		dst: dst, space: space, tasks: tasks, th: (dst.H + 3) / 4, tw: (dst.W + 3) / 4, blocks: src.Blocks(),
		panels: (k.oc + w.Outputs - 1) / w.Outputs}
	if tasks.unit == nil { // once: functions of methods are allocated
		g.tasks.unit, g.tasks.resolve = g.runUnit, g.resolve
	}
	if pixels := asm.PixelKernels(); pixels != nil && pixels.Outputs == w.Outputs {
		g.exact = &space.anchored
		g.exact.begin(pixels, k, src)
	}
	g.points = form.Side * form.Side
	group := 8 * g.Tiles * g.blocks * block // bytes of V at a point
	most := bytesV[few(w)]
	g.rows = w.InputRow != nil && 8*len(g.weights.panels) > farU && 2*g.points*group > largeV[few(w)]
	if g.rows {
		if f := w.Few; f != nil && filled(g.tiles(), f.Tiles) < filled(g.tiles(), g.Tiles) {
			g.Winograd = f
			group = 8 * g.Tiles * g.blocks * block
		}
		g.points, most = form.Side, rowsV
		g.pointwise = smallCache
		if g.pointwise && 8*len(g.weights.panels) > farthestU {
			most = mostV
		}
	}
	// As many units for each processor as for the others, of sizes a group apart.
	groups := g.allGroups()
	fit := max(1, (most+g.points*group/8)/(g.points*group))
	g.units = (groups + fit - 1) / fit
	workers := par.Workers()
	if few := g.units < workers && g.rows; g.units < 8*workers && !few { // few share a reading of far weights
		g.units = min(groups, (g.units+workers-1)/workers*workers)
	}
	g.groups = (groups + g.units - 1) / g.units
	g.parts = partsFor(workers, g.units, g.panels)
	g.calls = max(1, g.points*g.panels/g.blocks)
	// Points at an odd number of cache lines.
	g.vPoint = odd(g.groups * g.blocks * g.Tiles * block)
	g.mPoint = odd(g.groups * g.Tiles * g.Outputs)
	g.yColumn = odd(g.panels * g.groups * g.Tiles * g.Outputs)
	return g
}

// filled returns how many tiles groups of a size have that hold so many.
func filled(tiles, size int) int { return (tiles + size - 1) / size * size }

// partsFor returns in how many parts to divide the panels of so many units. Each part
// transforms the unit's input again, which takes about as long as one panel.
func partsFor(workers, units, panels int) int {
	best, least := 1, 0
	for parts := 1; parts <= min(panels, workers); parts++ {
		rounds := (units*parts + workers - 1) / workers
		if cost := rounds * ((panels+parts-1)/parts + 1); parts == 1 || cost < least {
			best, least = parts, cost
		}
	}
	return best
}

// odd returns the least odd multiple of a cache line's 8 numbers that holds n.
func odd(n int) int { return ((n+7)/8 | 1) * 8 }

// tiles returns the number of tiles of all samples, allGroups that of their groups.
func (g *wino) tiles() int { return g.src.N * g.th * g.tw }

func (g *wino) allGroups() int { return (g.tiles() + g.Tiles - 1) / g.Tiles }

// run convolves.
func (g *wino) run() {
	g.space.each(g.units*g.parts, g.tasks.unit)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
	g.space.anchored.end()
}

// measure takes the greatest norm ||t x|| of a pixel of each window of the tiles
// [lo,hi), NaN if one is. Windows share pixels, of which those below each other are
// taken again: they are at hand, as the transform has just read them.
func (g *wino) measure(s *worker, lo, hi int) {
	s.first = lo
	side, frame := g.form.Side, g.form.Taps/2
	for t := lo; t < hi; {
		n, y, x := g.place(t)
		tiles := min(hi-t, g.tw-x/4) // of one line
		width := 4*tiles + side - 4
		s.norms = grown(&s.norms, 2*width)
		greatest, line := s.norms[:width], s.norms[width:]
		for r := range side {
			if r == 0 {
				pixelNorms(greatest, g.src, g.k, n, y-frame, x-frame)
				continue
			}
			pixelNorms(line, g.src, g.k, n, y+r-frame, x-frame)
			for i, v := range line {
				greatest[i] = greater(greatest[i], v)
			}
		}
		for i := range tiles {
			var most float64
			for _, v := range greatest[4*i:][:side] {
				most = greater(most, v)
			}
			s.greatest[t-lo+i] = most
		}
		t += tiles
	}
}

// greater returns the greater of two numbers that are not negative, NaN if one is:
// their bits are in order, NaN last.
func greater(a, b float64) float64 {
	return math.Float64frombits(max(math.Float64bits(a), math.Float64bits(b)))
}

func (g *wino) runUnit(worker, i int) {
	s := g.space.workers[worker]
	groups, unit, part := g.allGroups(), i/g.parts, i%g.parts
	lo, hi := unit*groups/g.units, (unit+1)*groups/g.units
	s.firstPanel, s.endPanel = part*g.panels/g.parts, (part+1)*g.panels/g.parts
	g.prepare(s)
	g.unit(s, lo*g.Tiles, min(hi*g.Tiles, g.tiles()))
	s.finish(g.tasks.resolve)
}

// prepare gives a worker memory for a unit.
func (g *wino) prepare(s *worker) {
	side := g.form.Side
	s.v = aligned(&s.memory[0], g.points*g.vPoint)
	s.m = aligned(&s.memory[1], g.points*g.mPoint*g.products())
	if g.rows {
		s.y = aligned(&s.memory[4], side*4*g.yColumn)
	}
	s.t = aligned(&s.memory[2], side*side*block)
	s.k = grown(&s.memory[3], g.groups*g.Tiles)
	s.greatest = grown(&s.greatest, g.groups*g.Tiles)
	s.flags = grown(&s.flags, g.groups*g.Tiles*2*g.Outputs)
}

// unit makes the outputs of tiles [lo,hi).
func (g *wino) unit(s *worker, lo, hi int) {
	if !g.rows {
		for t := lo; t < hi; t++ {
			at := t - lo
			g.Input(&g.src.data[g.corner(g.place(t))], g.src.line*4, g.src.plane*4, &s.v[g.at(0, at)], g.vPoint*8,
				g.blocks, &s.t[0])
			s.k[at] = g.weigh(s, at, 0)
		}
		g.measure(s, lo, hi)
		g.bound(s, hi-lo)
		g.multiply(s, lo, hi, 0, g.ahead(hi))
		return
	}
	clear(s.k)
	for r := range g.points {
		for group := lo; group < hi; group += g.Tiles {
			for t, end := group, min(hi, group+g.Tiles); t < end; {
				n, y, x := g.place(t)
				tiles := min(end-t, g.tw-x/4) // of one line
				src, to := g.corner(n, y, x), g.at(0, t-lo)
				for b := range g.blocks {
					next := src
					if b+1 < g.blocks {
						next += g.src.plane
					}
					g.InputRow(&g.src.data[src], &g.src.data[next], g.src.line*4, &s.v[to], g.vPoint*8, tiles, r)
					src, to = next, to+g.Tiles*block
				}
				t += tiles
			}
		}
		if r == 1 { // all lines have been read just now
			g.measure(s, lo, hi)
		}
		for t := lo; t < hi; t++ {
			s.k[t-lo] += g.weigh(s, t-lo, r*g.points)
		}
		ahead := g.ahead(lo)
		if r+1 == g.points {
			ahead = g.ahead(hi)
			g.bound(s, hi-lo)
		}
		g.multiply(s, lo, hi, r, ahead)
	}
}

// multiply multiplies at the points of V, the r-th row of points or all, and
// transforms the products.
func (g *wino) multiply(s *worker, lo, hi, r, ahead int) {
	n := (hi - lo + g.Tiles - 1) / g.Tiles
	p, o := 0, s.firstPanel
	for call := range g.points * (s.endPanel - s.firstPanel) {
		nextP, nextO, row := g.after(s, p, o, r)
		m := p * g.mPoint
		if g.pointwise {
			m += o * g.points * g.mPoint
		}
		g.Multiply(&s.v[p*g.vPoint], g.weights.panel(o, r*g.points+p), &s.m[m], g.blocks, g.weights.chain, n,
			g.weights.panel(nextO, row*g.points+nextP), g.later(ahead, n, call))
		if p+1 == g.points { // M of these outputs is complete
			if g.rows {
				g.OutputRow(&s.m[m-p*g.mPoint], g.mPoint*8, &s.y[4*r*g.yColumn+o*g.groups*g.Tiles*g.Outputs],
					g.yColumn*8, n*g.Tiles)
			}
			if (r+1)*g.points == g.weights.points {
				g.finish(s, lo, hi, o)
			}
		}
		p, o = nextP, nextO
	}
}

// after returns which multiplication comes after that at point p of row r, group o of
// outputs.
func (g *wino) after(s *worker, p, o, r int) (nextP, nextO, row int) {
	if g.pointwise {
		if o+1 < s.endPanel {
			return p, o + 1, r
		}
		if p+1 < g.points {
			return p + 1, s.firstPanel, r
		}
	} else {
		if p+1 < g.points {
			return p + 1, o, r
		}
		if o+1 < s.endPanel {
			return 0, o + 1, r
		}
	}
	if (r+1)*g.points < g.weights.points {
		return 0, s.firstPanel, r + 1
	}
	return 0, s.firstPanel, 0 // of the next unit
}

// products returns of how many groups of outputs M is.
func (g *wino) products() int {
	if g.pointwise {
		return g.panels
	}
	return 1
}

// ahead returns where in the source the windows from tile t on begin, or the last one.
func (g *wino) ahead(t int) int {
	return g.corner(g.place(min(t, g.tiles()-1)))
}

// later returns what of the source from ahead on a multiplication of n groups of tiles
// asks for, the first, second and so on before the next input transforms: together what
// those read, as far as they get. They read it in pieces so short that the processor does
// not see the next one coming.
func (g *wino) later(ahead, n, call int) *float32 {
	at := ahead + min(call/g.calls, g.blocks-1)*g.src.plane + call%g.calls*n*g.blocks*32
	return &g.src.data[min(at, len(g.src.data)-1)]
}

// at returns the place of a block of a tile of a unit in V.
func (g *wino) at(b, at int) int {
	return ((at/g.Tiles*g.blocks+b)*g.Tiles + at%g.Tiles) * block
}

// place returns the sample and the first pixel of tile t.
func (g *wino) place(t int) (n, y, x int) {
	per := g.th * g.tw
	return t / per, t % per / g.tw * 4, t % g.tw * 4
}

// corner returns where in the source the window of output (y, x) begins.
func (g *wino) corner(n, y, x int) int {
	return g.src.at(n, 0, y-g.form.Taps/2, x-g.form.Taps/2)
}
