package conv

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/par"
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
	bytesV    = [2]int{min(1<<19, asm.SecondCache()/4), min(1<<19, asm.SecondCache()/4*3)} // of a unit; with few tiles
	largeV    = [2]int{1 << 19, min(1<<19, asm.SecondCache()/4*3)}                         // too large for two groups
	rowsV     = max(min(3<<17, asm.SecondCache()/4*3), min(3<<18, asm.SecondCache()-3<<17))
	mostV     = 3 << 19                                       // of a unit by rows, for the farthest weights where the second cache is small
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
	*g = wino{Winograd: w, k: k, form: form, weights: k.winograd(form, w), format: format, src: src, dst: dst, space: space, tasks: tasks,
		th: (dst.H + 3) / 4, tw: (dst.W + 3) / 4, blocks: src.Blocks(), panels: (k.oc + w.Outputs - 1) / w.Outputs}
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
func (g *wino) tiles() int     { return g.src.N * g.th * g.tw }
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
			g.Input(&g.src.data[g.corner(g.place(t))], g.src.line*4, g.src.plane*4, &s.v[g.at(0, at)], g.vPoint*8, g.blocks, &s.t[0])
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
		g.Multiply(&s.v[p*g.vPoint], g.weights.panel(o, r*g.points+p), &s.m[m], g.blocks, g.weights.chain, n, g.weights.panel(nextO, row*g.points+nextP), g.later(ahead, n, call))
		if p+1 == g.points { // M of these outputs is complete
			if g.rows {
				g.OutputRow(&s.m[m-p*g.mPoint], g.mPoint*8, &s.y[4*r*g.yColumn+o*g.groups*g.Tiles*g.Outputs], g.yColumn*8, n*g.Tiles)
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

// weigh returns the weighted squares of the points of a transformed window, of
// which the first is given, where the bound is of them; otherwise 0.
func (g *wino) weigh(s *worker, at, first int) (sum float64) {
	v := g.weights.measured
	if v == nil {
		return 0
	}
	g.Weigh(&s.v[g.at(0, at)], g.vPoint*8, g.points, &v.weights[first], &v.scale[0], g.blocks, &s.sums)
	for _, x := range s.sums {
		sum += x
	}
	return sum
}

// bound turns the weighted squares of the tiles of a unit into what their bounds are
// times: the greatest norm of a pixel, or what measured makes of it and the squares.
func (g *wino) bound(s *worker, tiles int) {
	v := g.weights.measured
	if v == nil {
		copy(s.k[:tiles], s.greatest)
		return
	}
	for i, squares := range s.k[:tiles] {
		s.k[i] = max(math.Sqrt(squares), v.rho*s.greatest[i])
	}
}

// finish makes the outputs of tiles [lo,hi) and a group of channels. It looks at the
// flags when all is written: each is a byte, and to read eight of them at once the
// processor waits until they have left for the cache, and all outputs before them.
func (g *wino) finish(s *worker, lo, hi, o int) {
	d := g.dst
	first, end := o*g.Outputs, min((o+1)*g.Outputs, d.C)
	size := 2 * g.Outputs // of a tile's flags
	for t := lo; t < hi; {
		n, y, x := g.place(t)
		to := d.at(n, first/block, y, x)
		for line := min(hi, t+g.tw-x/4); t < line; t++ {
			at := t - lo
			if s.k[at] == 0 { // nothing but zeros
				g.fill(n, first, end, y, x)
			} else {
				g.output(s, at, o, first, end, to)
			}
			x, to = x+4, to+4*block
		}
	}
	final := -1 // the last tile that was settled at once
	for t := lo; t < hi; t++ {
		if k := s.k[t-lo]; k != 0 {
			flags := s.flags[(t-lo)*size:][:(end-first+block-1)/block*16]
			if finite := k <= math.MaxFloat64; !finite || someSet(flags) {
				if g.leave(s, t, first, end, flags, finite, final == t-1) {
					final = t
				}
			}
		}
	}
}

// output makes the outputs [first,end) of group o, at to of the destination, of a tile of a unit.
func (g *wino) output(s *worker, at, o, first, end, to int) {
	d, place, flags := g.dst, at*g.Outputs, at*2*g.Outputs
	if g.rows {
		place += o * g.groups * g.Tiles * g.Outputs
	}
	for table := first * 18; first < end; first += block {
		if g.rows {
			g.OutputColumns[g.format](&s.y[place], 4*g.yColumn*8, g.yColumn*8, s.k[at], &g.weights.tables[table], &d.data[to], d.line*4, &s.flags[flags])
		} else {
			g.Output[g.format](&s.m[place], g.mPoint*8, s.k[at], &g.weights.tables[table], &d.data[to], d.line*4, &s.flags[flags], &s.t[0])
		}
		place, flags, table, to = place+block, flags+2*block, table+18*block, to+d.plane
	}
}

// someSet reports whether one of some bytes, 8 or a multiple, is not zero.
func someSet(flags []uint8) bool {
	var any uint64
	for i := 0; i < len(flags); i += 8 {
		any |= binary.LittleEndian.Uint64(flags[i:])
	}
	return any != 0
}

// leave settles what of a tile's channels [first,end) the guard left open, at once or
// later; it reports whether all of it at once. left says that the tile before is settled.
func (g *wino) leave(s *worker, t, first, end int, flags []uint8, finite, left bool) bool {
	d := g.dst
	n, y, x := g.place(t)
	h, w := min(4, d.H-y), min(4, d.W-x)
	var inside [2]uint64 // bytes of pixels of the image; beyond it sums of zeros are often open
	for i := range h {
		inside[i/2] |= (1<<(8*w) - 1) << (i % 2 * 32)
	}
	open := 0
	for i := 0; i < len(flags); i += 8 {
		f := binary.LittleEndian.Uint64(flags[i:])
		if !finite {
			f = math.MaxUint64
		}
		f &= inside[i/8%2]
		binary.LittleEndian.PutUint64(flags[i:], f)
		open += bits.OnesCount64(f)
	}
	if lanes := d.C % block; !finite && lanes > 0 && end == d.C { // 0 times infinity
		for i := range h {
			clearLanes(d.data[d.at(n, end/block, y+i, x):][:w*block], lanes)
		}
	}
	if finite && g.exact != nil && many(open, h*w*(end-first)) {
		if left && x > 0 && w == 4 && g.repeats(n, y, x) {
			for c := first; c < end; c += block {
				for i := range h {
					copy(d.data[d.at(n, c/block, y+i, x):][:4*block], d.data[d.at(n, c/block, y+i, x-4):])
				}
			}
			return true
		}
		window, all := float64(g.form.Taps)*s.greatest[t-s.first], true
		for i := range h {
			if !g.exact.settle(s, d, first/g.Outputs, n, y+i, x, w, window) {
				all = false
			}
		}
		return all
	}
	for at := 0; at < len(flags); at += 8 {
		for f := binary.LittleEndian.Uint64(flags[at:]); f != 0; f &= f - 1 {
			pixel, bit := at%16+bits.TrailingZeros64(f)/8, bits.TrailingZeros64(f)%8
			if i, j, c := pixel/4, pixel%4, first+at/16*block+bit; c < d.C {
				s.note(d, n, c, y+i, x+j)
			}
		}
	}
	return false
}

// repeats reports whether the window of tile (y, x) has the numbers of that of the
// tile to its left, as in a constant field, where all is open.
func (g *wino) repeats(n, y, x int) bool {
	k, line := g.form.Taps/2, g.form.Side*block
	for b := range g.blocks {
		for r := range g.form.Side {
			at := g.src.at(n, b, y+r-k, x-k)
			here, there := g.src.data[at:][:line], g.src.data[at-4*block:][:line]
			for i, v := range here {
				if math.Float32bits(v) != math.Float32bits(there[i]) {
					return false
				}
			}
		}
	}
	return true
}

// clearLanes clears the lanes of pixels from one on.
func clearLanes(pixels []float32, from int) {
	for ; len(pixels) > 0; pixels = pixels[block:] {
		clear(pixels[from:block])
	}
}

// fill makes the outputs [first,end) of a tile of zeros.
func (g *wino) fill(n, first, end, y, x int) {
	d := g.dst
	for c := first; c < end; c += block {
		var v [block]float32
		for b := range min(block, d.C-c) {
			v[b] = float32(d.Format.Round(g.k.bias[c+b] + 0))
		}
		for i := range 4 {
			for j := range 4 {
				*(*[block]float32)(d.data[d.at(n, c/block, y+i, x+j):]) = v
			}
		}
	}
}

// resolve returns an output that the guard left open: by the direct sum, with
// its own bound, and settled if that is not enough either.
//
// Each of the 8 sums has K parts of K*blocks exact products; those are added,
// then the 8 sums, then the bias: no term takes part in more than K*blocks + K-1
// + 7 + 1 roundings (see bound.go). By Cauchy and Schwarz at each tap, their
// magnitudes add up to no more than sizes times the greatest norm of a pixel, of the
// tile's window here.
func (g *wino) resolve(s *worker, at, next place) float64 {
	out := &s.dot
	k := g.form.Taps
	greatest := s.greatest[(at.n*g.th+at.y/4)*g.tw+at.x/4-s.first]
	w := g.weights.direct[at.o*g.blocks*k*k*block:][:g.blocks*k*k*block]
	g.Dot(&g.src.data[g.corner(at.n, at.y, at.x)], &g.src.data[g.corner(next.n, next.y, next.x)], g.src.line*4, g.src.plane*4, &w[0], g.blocks, out)
	bias := g.k.bias[at.o]
	var sum float64
	for _, v := range out {
		sum += v
	}
	sum += bias
	size := float64(g.weights.sizes[at.o]*greatest) + math.Abs(bias)
	roundings := float64(k*g.blocks + k + 7)
	if v, ok := g.dst.Format.Decide(sum, 1.0001*0x1p-53*float64(roundings*size)); ok {
		return v
	}
	if sum-sum != 0 { // see settle
		return g.dst.Format.Round(sum)
	}
	return s.settle(g.dst.Format, g.src, w, k, bias, at)
}
