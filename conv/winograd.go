package conv

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/refrun/refrun/asm"
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
	round    roundTile
	src, dst *Image
	space    *Space

	th, tw        int // tiles of a sample
	height, width int // pixels of a sample that windows read
	blocks        int // of input channels
	panels        int // groups of outputs
	groups        int // of tiles, in a unit of work
	multiply      func(v, u, m *float64, blocks, groups int)
	rows          bool      // V is of one row of points
	points        int       // of V
	vPoint        int       // numbers of V from a point to the next
	mPoint        int       // and of M
	norms         []float64 // ||t x|| of each pixel, [N][height][width]
	exact         anchored
}

// roundTile is a function of asm.Winograd.Output.
type roundTile = func(m *float64, point int, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64)

// A unit of work is some groups of tiles, so many that their V fits a processor's
// second cache while weights pass through it. Then, for one group of outputs after
// the other, all points are multiplied and the tiles finished. Where even few tiles
// fill the cache and the weights come from afar, V holds one row of points at a
// time: more tiles share a reading of the weights, and M of all outputs is kept.
var (
	bytesV = 1 << 19 // of a unit, about
	farU   = 3 << 19 // from so many bytes of weights on, they come from afar
	rowsV  = 3 << 18 // of a unit by rows, about
	rowsC  = 192     // input channels from which units are by rows
)

func newWino(k *Kernel, form *asm.Form, w *asm.Winograd, round roundTile, dst, src *Image, space *Space) *wino {
	g := &wino{Winograd: w, k: k, form: form, weights: k.winograd(form, w), round: round, src: src, dst: dst, space: space,
		th: (dst.H + 3) / 4, tw: (dst.W + 3) / 4, blocks: src.Blocks(), panels: (k.oc + w.Outputs - 1) / w.Outputs, multiply: w.Multiply}
	if pixels := asm.PixelKernels(); pixels != nil && pixels.Outputs == w.Outputs {
		g.exact.kernels, g.exact.k, g.exact.src = pixels, k, src
	}
	g.height, g.width = 4*g.th+form.Taps-1, 4*g.tw+form.Taps-1
	if 8*len(g.weights.panels) > farU {
		g.multiply = w.MultiplyFar
		g.rows = w.InputRow != nil && k.ic >= rowsC
	}
	g.points = form.Side * form.Side
	most, panels := bytesV, 1
	if g.rows {
		g.points, most, panels = form.Side, rowsV, g.panels
	}
	// Units of the same size for all processors.
	groups := (dst.N*g.th*g.tw + g.Tiles - 1) / g.Tiles
	units := (groups + max(1, most/(g.points*8*g.Tiles*g.blocks*block)) - 1) / max(1, most/(g.points*8*g.Tiles*g.blocks*block))
	if workers := par.Workers(); units < 8*workers {
		units = (units + workers - 1) / workers * workers
	}
	g.groups = (groups + units - 1) / units
	// Points at an odd number of cache lines.
	g.vPoint = odd(g.groups * g.blocks * g.Tiles * block)
	g.mPoint = odd(panels * g.groups * g.Tiles * g.Outputs)
	return g
}

// odd returns the least odd multiple of a cache line's 8 numbers that holds n.
func odd(n int) int { return ((n+7)/8 | 1) * 8 }

// run convolves.
func (g *wino) run() {
	g.measureNorms()
	tiles := g.src.N * g.th * g.tw
	unit := g.groups * g.Tiles
	par.For((tiles+unit-1)/unit, func(i int) {
		s := g.space.take()
		defer g.space.release(s)
		g.prepare(s)
		g.unit(s, i*unit, min((i+1)*unit, tiles))
	})
	g.space.settle(g.resolve)
}

func (g *wino) measureNorms() {
	g.norms = grown(&g.space.norms, g.src.N*g.height*g.width)
	pixelNorms(g.norms, g.src, g.k, g.src.Frame-g.form.Taps/2, g.height, g.width)
}

// prepare gives a worker memory for a unit.
func (g *wino) prepare(s *worker) {
	side := g.form.Side
	s.v = aligned(&s.memory[0], g.points*g.vPoint)
	s.m = aligned(&s.memory[1], side*side*g.mPoint)
	s.t = aligned(&s.memory[2], side*side*block)
	s.k = grown(&s.memory[3], g.groups*g.Tiles)
}

// unit makes the outputs of tiles [lo,hi).
func (g *wino) unit(s *worker, lo, hi int) {
	n := (hi - lo + g.Tiles - 1) / g.Tiles
	if !g.rows {
		for t := lo; t < hi; t++ {
			at := t - lo
			g.Input(g.window(t), g.src.line*4, g.src.plane*4, g.at(s, at), g.vPoint*8, g.blocks, &s.t[0])
			s.k[at] = g.weigh(s, at, 0)
		}
		for t := lo; t < hi; t++ {
			s.k[t-lo] = g.norm(t, s.k[t-lo])
		}
		for o := range g.panels {
			for p := range g.points {
				g.multiply(&s.v[p*g.vPoint], g.weights.panel(o, p), &s.m[p*g.mPoint], g.blocks, n)
			}
			for t := lo; t < hi; t++ {
				g.finish(s, s.m, t, t-lo, o)
			}
		}
		return
	}
	panel := g.groups * g.Tiles * g.Outputs
	clear(s.k)
	for r := range g.points {
		for t := lo; t < hi; t++ {
			at := t - lo
			g.InputRow(g.window(t), g.src.line*4, g.src.plane*4, g.at(s, at), g.vPoint*8, g.blocks, r)
			s.k[at] += g.weigh(s, at, r*g.points)
		}
		for o := range g.panels {
			for p := range g.points {
				q := r*g.points + p
				g.multiply(&s.v[p*g.vPoint], g.weights.panel(o, q), &s.m[q*g.mPoint+o*panel], g.blocks, n)
			}
		}
	}
	for t := lo; t < hi; t++ {
		s.k[t-lo] = g.norm(t, s.k[t-lo])
	}
	for o := range g.panels {
		for t := lo; t < hi; t++ {
			g.finish(s, s.m[o*panel:], t, t-lo, o)
		}
	}
}

// at returns the place of a tile of a unit in V.
func (g *wino) at(s *worker, at int) *float64 {
	return &s.v[(at/g.Tiles*g.blocks*g.Tiles+at%g.Tiles)*block]
}

// place returns the sample and the first pixel of tile t.
func (g *wino) place(t int) (n, y, x int) {
	per := g.th * g.tw
	return t / per, t % per / g.tw * 4, t % g.tw * 4
}

// corner returns the first pixel of the window of output (y, x).
func (g *wino) corner(n, y, x int) *float32 {
	return &g.src.data[g.src.at(n, 0, y-g.form.Taps/2, x-g.form.Taps/2)]
}

// window returns the first pixel of the window of tile t.
func (g *wino) window(t int) *float32 { return g.corner(g.place(t)) }

// weigh returns the weighted squares of the points of a transformed window, of
// which the first is given, where the bound is of them; otherwise 0.
func (g *wino) weigh(s *worker, at, first int) (sum float64) {
	v := g.weights.measured
	if v == nil {
		return 0
	}
	var sums [block]float64
	g.Weigh(g.at(s, at), g.vPoint*8, g.points, &v.weights[first], &v.scale[0], g.blocks, &sums)
	for _, x := range sums {
		sum += x
	}
	return sum
}

// norm returns the norm of tile t: the greatest of its pixels', or what measured makes of it and the weighted squares.
func (g *wino) norm(t int, squares float64) float64 {
	k := g.greatest(t)
	if v := g.weights.measured; v != nil {
		k = max(math.Sqrt(squares), v.rho*k)
	}
	return k
}

// greatest returns the greatest norm of the pixels of the window of tile t, NaN if
// one is.
func (g *wino) greatest(t int) float64 {
	n, y, x := g.place(t)
	var greatest uint64 // the bits of numbers that are not negative are in order, NaN last
	for r := range g.form.Side {
		for _, v := range g.norms[(n*g.height+y+r)*g.width+x:][:g.form.Side] {
			greatest = max(greatest, math.Float64bits(v))
		}
	}
	return math.Float64frombits(greatest)
}

// finish makes the outputs of tile t and a group of channels.
func (g *wino) finish(s *worker, m []float64, t, at, o int) {
	n, y, x := g.place(t)
	d, k := g.dst, s.k[at]
	first, end := o*g.Outputs, min((o+1)*g.Outputs, d.C)
	if k == 0 { // nothing but zeros
		for c := first; c < end; c += block {
			g.fill(n, c, y, x)
		}
		return
	}
	var any uint64
	for c := first; c < end; c += block {
		flags := s.flags[(c-first)*2:][:16]
		g.round(&m[at*g.Outputs+c-first], g.mPoint*8, k,
			&g.weights.tables[c/block*18*block], &d.data[d.at(n, c/block, y, x)], d.line*4, &flags[0], &s.t[0])
		any |= binary.NativeEndian.Uint64(flags[:8]) | binary.NativeEndian.Uint64(flags[8:])
	}
	finite := k <= math.MaxFloat64
	if any == 0 && finite {
		return
	}
	flags := s.flags[:(end-first+block-1)/block*16]
	open := 0
	for i, f := range flags {
		if !finite {
			flags[i] = 1<<block - 1
		}
		open += bits.OnesCount8(f)
	}
	h, w := min(4, d.H-y), min(4, d.W-x)
	if finite && g.exact.kernels != nil && many(open, 16*(end-first)) {
		window := float64(g.form.Taps) * g.greatest(t)
		for i := range h {
			g.exact.settle(s, d, o, n, y+i, x, w, window)
		}
		return
	}
	for c := first; c < end; c += block {
		for i := range h {
			for j := range w {
				s.note(d, flags[(c-first)*2+4*i+j], n, c, y+i, x+j)
			}
		}
	}
}

// fill makes the outputs of a tile of zeros.
func (g *wino) fill(n, c, y, x int) {
	d := g.dst
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

// resolve returns an output that the guard left open: by the direct sum, with
// its own bound, and settled if that is not enough either.
//
// Each of the 8 sums has K parts of K*blocks exact products; those are added,
// then the 8 sums, then the bias: no term takes part in more than K*blocks + K-1
// + 7 + 1 roundings (see bound.go).
func (g *wino) resolve(s *worker, at, next place) float64 {
	var out [2 * block]float64
	k := g.form.Taps
	w := g.weights.direct[at.o*g.blocks*k*k*block:][:g.blocks*k*k*block]
	g.Dot(g.corner(at.n, at.y, at.x), g.corner(next.n, next.y, next.x), g.src.line*4, g.src.plane*4, &w[0], g.blocks, &out)
	bias := g.k.bias[at.o]
	var sum, size float64
	for c := range block {
		sum += out[c]
		size += out[block+c]
	}
	sum += bias
	size += math.Abs(bias)
	roundings := float64(k*g.blocks + k + 7)
	if v, ok := g.dst.Format.Decide(sum, 1.0001*0x1p-53*float64(roundings*size)); ok {
		return v
	}
	if sum-sum != 0 { // see settle
		return g.dst.Format.Round(sum)
	}
	return s.settle(g.dst.Format, g.src, w, k, bias, at)
}
