package conv

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// fastConv is one convolution of images. V, M and the order of work are as in wino; where
// the weights come from afar, all outputs are multiplied at one point after the other.
type fastConv struct {
	*asm.Fast // nil for plain Go
	k         *Kernel
	form      *fastForm
	weights   *fastWeights
	src, dst  *Image
	space     *Space

	th, tw         int // tiles of a sample
	blocks         int // of V
	points         int
	units, groups  int  // of tiles: pieces of work, and groups of one at most
	parts          int  // of the outputs, where there are too few tiles for all workers
	pointwise      bool // M is of all outputs
	vPoint, mPoint int  // numbers from a point to the next
	unit           func(worker, i int)
}

// fastOutputs returns the outputs of a group.
func fastOutputs(f *fastForm) int {
	if kernels := f.form.Fast(); kernels != nil {
		return kernels.Outputs
	}
	return block
}

// Bytes of V of a unit, and of the transformed weights that come from afar, about.
var (
	fastV    = min(1<<19, asm.SecondCache()/4*3)
	fastAllV = 3 << 19
	fastFar  = 3 << 19
)

func newFastConv(k *Kernel, form *fastForm, dst, src *Image, space *Space) *fastConv {
	g := &space.fast
	unit := g.unit
	*g = fastConv{Fast: form.form.Fast(), k: k, form: form, src: src, dst: dst, space: space, unit: unit,
		th: (dst.H + form.form.Tile - 1) / form.form.Tile, tw: (dst.W + form.form.Tile - 1) / form.form.Tile,
		blocks: form.blocks(k.ic), points: form.form.Side * form.form.Side}
	if unit == nil { // once: functions of methods are allocated
		g.unit = g.runUnit
	}
	g.weights = k.inSingles(form, fastOutputs(form))
	if g.parts = 1; g.Fast == nil {
		g.units = g.src.N * g.th
		return g
	}
	groups, most := g.allGroups(), fastV
	if g.pointwise = 4*len(g.weights.panels) > fastFar; g.pointwise {
		most = fastAllV
	}
	group := 4 * g.points * g.blocks * g.Tiles * block // bytes of V
	fit := max(1, (most+group/8)/group)
	g.units = (groups + fit - 1) / fit
	workers := par.Workers()
	if g.units == 1 && g.pointwise || groups < workers {
		// What takes time is to read the weights: each worker reads some of them, and
		// transforms all tiles.
		g.units, g.parts = 1, min(workers, g.weights.groups)
	} else if g.units < 8*workers {
		g.units = min(groups, (g.units+workers-1)/workers*workers)
	}
	g.groups = (groups + g.units - 1) / g.units
	g.vPoint = oddLines(g.groups * g.blocks * g.Tiles * block)
	g.mPoint = oddLines(g.products() * g.groups * g.Tiles * g.Outputs)
	return g
}

// products returns of how many groups of outputs M is.
func (g *fastConv) products() int {
	if g.pointwise {
		return g.weights.groups
	}
	return 1
}

// oddLines returns the least odd multiple of a cache line's 16 numbers that holds n.
func oddLines(n int) int { return ((n+15)/16 | 1) * 16 }

func (g *fastConv) tiles() int { return g.src.N * g.th * g.tw }

func (g *fastConv) allGroups() int { return (g.tiles() + g.Tiles - 1) / g.Tiles }

func (g *fastConv) run() {
	g.space.each(g.units*g.parts, g.unit)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
}

// place returns the sample and the first pixel of tile t.
func (g *fastConv) place(t int) (n, y, x int) {
	per, m := g.th*g.tw, g.form.form.Tile
	return t / per, t % per / g.tw * m, t % g.tw * m
}

func (g *fastConv) runUnit(worker, i int) {
	s := g.space.workers[worker]
	if g.Fast == nil {
		for t := i * g.tw; t < (i+1)*g.tw; t++ {
			g.plainTile(g.place(t))
		}
		return
	}
	part, outputs := i%g.parts, g.weights.groups
	first, end := part*outputs/g.parts, (part+1)*outputs/g.parts
	i /= g.parts
	groups, side := g.allGroups(), g.form.form.Side
	lo, hi := i*groups/g.units*g.Tiles, min((i+1)*groups/g.units*g.Tiles, g.tiles())
	s.singles.v = aligned(&s.singles.memory[0], g.points*g.vPoint)
	s.singles.m = aligned(&s.singles.memory[1], g.points*g.mPoint)
	s.singles.t = aligned(&s.singles.memory[2], 3*side*side*block) // for two tiles
	s.singles.t, s.singles.edge = s.singles.t[:2*side*side*block], s.singles.t[2*side*side*block:]
	g.input(s, lo, hi)
	n := (hi - lo + g.Tiles - 1) / g.Tiles
	ahead := g.nextWindows(hi, n, g.points*(end-first))
	if g.pointwise {
		for p := range g.points {
			for o := first; o < end; o++ {
				g.multiply(s, n, p, o, o*g.groups*g.Tiles*g.Outputs, &ahead)
			}
		}
	}
	for o := first; o < end; o++ {
		at := o * g.groups * g.Tiles * g.Outputs
		if !g.pointwise {
			at = 0
			for p := range g.points {
				g.multiply(s, n, p, o, 0, &ahead)
			}
		}
		for t := lo; t < hi; t++ {
			g.output(s, t, o, at+(t-lo)*g.Outputs)
		}
	}
}

// multiply multiplies at a point with the weights of a group of outputs, to a place of M.
func (g *fastConv) multiply(s *worker, groups, p, o, at int, ahead *nextWindows) {
	next := o
	if g.pointwise {
		next = (o + 1) % g.weights.groups
	}
	after := g.weights.panel(next, (p+1)%g.points)
	if g.pointwise && next > 0 {
		after = g.weights.panel(next, p)
	}
	g.Multiply(&s.singles.v[p*g.vPoint], &g.weights.panel(o, p)[0], &s.singles.m[p*g.mPoint+at], g.blocks, g.form.chain,
		groups, &after[0], g.later(ahead, &after[0]))
}

// output makes the outputs of group o, at a place of M, of a tile.
func (g *fastConv) output(s *worker, t, o, at int) {
	d := g.dst
	n, y, x := g.place(t)
	first := o * g.Outputs
	c, end := first, min(first+g.Outputs, d.C)
	if m := g.form.form.Tile; y+m > up4(d.H) || x+m > up4(d.W) {
		for ; c < end; c += block {
			out := s.singles.edge
			g.Output(&s.singles.m[at], g.mPoint*4, &g.weights.bias[c], &out[0], m*block*4, &s.singles.t[0])
			for i := range min(m, d.H-y) {
				copy(d.data[d.at(n, c/block, y+i, x):], out[i*m*block:][:min(m, d.W-x)*block])
			}
			at += block
		}
		return
	}
	to := d.at(n, first/block, y, x)
	for ; g.OutputPair != nil && c+block < end; c += 2 * block {
		g.OutputPair(&s.singles.m[at], g.mPoint*4, &g.weights.bias[c], &d.data[to], d.line*4, d.plane*4, &s.singles.t[0])
		at, to = at+2*block, to+2*d.plane
	}
	for ; c < end; c += block {
		g.Output(&s.singles.m[at], g.mPoint*4, &g.weights.bias[c], &d.data[to], d.line*4, &s.singles.t[0])
		at, to = at+block, to+d.plane
	}
}
