package conv

import (
	"math"
	"sync"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
)

// winogradLeast is the fewest channels, in and out, for which the transforms
// pay.
var winogradLeast = 8

// block is the number of channels that lie together.
const block = 8

// wino is a convolution with 3x3 kernels of stride 1 by the kernels of package
// asm.
type wino struct {
	*job
	*asm.Winograd
	weights *winogradWeights
	round   roundTile

	th, tw        int       // tiles of a sample
	height, width int       // of the padded image
	blocks        int       // of input channels
	image         []float32 // [N][blocks][height][width][8]
	norms         []float64 // ||t x|| of each pixel, [N][height][width]
}

// winograd convolves if the kernels of this CPU can, and reports whether it
// did.
func (j *job) winograd() bool {
	w := asm.WinogradKernels()
	k, d := j.k, j.dst
	format := map[fp16.Format]int{fp16.Float32: asm.Float32, fp16.Float16: asm.Float16, fp16.BFloat16: asm.BFloat16}
	f, ok := format[d.Format]
	switch {
	case w == nil || !ok || !k.finite || !k.finiteBias || j.stride != 1 || k.kh != 3 || k.kw != 3,
		k.ic < winogradLeast || k.oc < winogradLeast || d.N == 0:
		return false
	}
	asm.Ran("winograd 4x4,3x3 " + asm.ISA())
	g := j.newWinograd(w, w.Output[f])
	g.pack()
	g.run()
	return true
}

func (j *job) newWinograd(w *asm.Winograd, round roundTile) *wino {
	g := &wino{job: j, Winograd: w, weights: j.k.winograd(w), round: round,
		th: (j.dst.H + 3) / 4, tw: (j.dst.W + 3) / 4, blocks: (j.k.ic + block - 1) / block}
	g.height, g.width = 4*g.th+2, 4*g.tw+2
	return g
}

// roundTile is a function of asm.Winograd.Output.
type roundTile = func(m *float64, plane int, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64)

// pack lays the source out in blocks of channels, padding included, and takes
// the norms of its pixels.
func (g *wino) pack() {
	s := g.src
	g.image = make([]float32, s.N*g.blocks*g.height*g.width*block)
	g.norms = make([]float64, s.N*g.height*g.width)
	par.For(s.N*g.height, func(i int) {
		n, y := i/g.height, i%g.height
		norms := g.norms[i*g.width:][:g.width]
		if y >= len(g.rows) || g.rows[y] < 0 {
			return
		}
		for c := range s.C {
			t := g.k.scale[c]
			row := s.Plane(n, c)[g.rows[y]*s.W:][:s.W]
			out := g.image[((n*g.blocks+c/block)*g.height+y)*g.width*block+c%block:]
			for x, ix := range g.cols[:min(len(g.cols), g.width)] {
				if ix >= 0 {
					v := row[ix]
					out[x*block] = float32(v)
					v *= t
					norms[x] += float64(v * v)
				}
			}
		}
		for x, v := range norms {
			norms[x] = math.Sqrt(v)
		}
	})
}

// space is the scratch memory of one goroutine.
type space struct {
	v, m, scratch []float64
	k             []float64
	out           []float32
	flags         []uint8
	row           row
}

func newSpace(unit, vplane, mplane int) *space {
	return &space{
		v: aligned(36 * vplane), m: aligned(36 * mplane), scratch: aligned(36 * block),
		k: make([]float64, unit), out: make([]float32, 16*block), flags: make([]uint8, 16),
	}
}

// oddLines returns a stride of at least n numbers that is an odd number of
// cache lines, so that the 36 planes do not meet in the same sets of the caches.
func oddLines(n int) int { return (n+7)/8*8 + 8*(1-(n+7)/8%2) }

// most is about how many bytes of transformed windows a goroutine keeps at
// once, so that they stay in its caches.
const most = 1 << 20

func (g *wino) run() {
	tiles := g.src.N * g.th * g.tw
	groups := max(1, most/(36*8*g.Tiles*g.blocks*block))
	groups = min(groups, 1+(tiles-1)/g.Tiles)
	unit := groups * g.Tiles
	outputs := (g.k.oc + g.Outputs - 1) / g.Outputs
	vplane, mplane := oddLines(unit*g.blocks*block), oddLines(unit*g.Outputs)
	pool := sync.Pool{New: func() any { return newSpace(unit, vplane, mplane) }}
	par.For((tiles+unit-1)/unit, func(i int) {
		s := pool.Get().(*space)
		defer pool.Put(s)
		lo, hi := i*unit, min((i+1)*unit, tiles)
		for t := lo; t < hi; t++ {
			g.window(s, t, t-lo, vplane)
		}
		n := (hi - lo + g.Tiles - 1) / g.Tiles
		for o := range outputs {
			for p := range 36 {
				g.Multiply(&s.v[p*vplane], g.weights.panel(o, p), &s.m[p*mplane], g.blocks, n)
			}
			for t := lo; t < hi; t++ {
				g.finish(s, t, t-lo, o, mplane)
			}
		}
	})
}

// aligned returns n numbers that begin with a cache line.
func aligned(n int) []float64 {
	b := make([]float64, n+8)
	return b[asm.Align(&b[0]):][:n]
}

// place returns the sample and the first pixel of tile t.
func (g *wino) place(t int) (n, y, x int) {
	per := g.th * g.tw
	return t / per, t % per / g.tw * 4, t % g.tw * 4
}

// window transforms the window of tile t into place at of a unit, and takes
// its norm: the greatest of its pixels', NaN if one is.
func (g *wino) window(s *space, t, at, vplane int) {
	n, y, x := g.place(t)
	group := g.Tiles * block
	to := at/g.Tiles*g.blocks*group + at%g.Tiles*block
	g.Input(&g.image[((n*g.blocks*g.height+y)*g.width+x)*block], g.width*block*4, g.height*g.width*block*4,
		&s.v[to], vplane*8, group*8, g.blocks, &s.scratch[0])
	var greatest uint64 // the bits of numbers that are not negative are in order, NaN last
	for r := range 6 {
		for _, v := range g.norms[(n*g.height+y+r)*g.width+x:][:6] {
			greatest = max(greatest, math.Float64bits(v))
		}
	}
	s.k[at] = math.Float64frombits(greatest)
}

// finish makes the outputs of tile t and a group of channels.
func (g *wino) finish(s *space, t, at, o, mplane int) {
	n, y, x := g.place(t)
	d, k := g.dst, s.k[at]
	h, w := min(4, d.H-y), min(4, d.W-x)
	for c := o * g.Outputs; c < min((o+1)*g.Outputs, d.C); c += block {
		channels := min(block, d.C-c)
		if k == 0 { // nothing but zeros
			for b := range channels {
				v := d.Format.Round(g.k.bias[c+b] + 0)
				for i := range h {
					fill(d.Plane(n, c+b)[(y+i)*d.W+x:][:w], v)
				}
			}
			continue
		}
		m := at/g.Tiles*g.Tiles*g.Outputs + at%g.Tiles*g.Outputs + c%g.Outputs
		g.round(&s.m[m], mplane*8, k, &g.weights.tables[c/block*18*block], &s.out[0], 4*block*4, &s.flags[0], &s.scratch[0])
		for b := range channels {
			plane := d.Plane(n, c+b)
			for i := range h {
				out := plane[(y+i)*d.W+x:][:w]
				for j := range out {
					out[j] = float64(s.out[(4*i+j)*block+b])
				}
			}
		}
		if !(k <= math.MaxFloat64) {
			for i := range s.flags {
				s.flags[i] = 1<<block - 1
			}
		}
		for i := range h {
			for j := range w {
				for f, b := s.flags[4*i+j], 0; f != 0; f, b = f>>1, b+1 {
					if f&1 != 0 && b < channels {
						s.row.job, s.row.n, s.row.y = g.job, n, y+i
						d.Plane(n, c+b)[(y+i)*d.W+x+j] = s.row.resolve(c+b, x+j)
					}
				}
			}
		}
	}
}

func fill(v []float64, to float64) {
	for i := range v {
		v[i] = to
	}
}

// resolve returns the output of channel o in column x that a guard left open,
// by the direct sum: with its own bound, and settled if that is not enough.
func (r *row) resolve(o, x int) float64 {
	r.gather(o, x)
	var sum, size float64
	for _, p := range r.terms {
		sum += p
		size += math.Abs(p)
	}
	// n terms, each exact but the bias: n-1 roundings (see bound.go).
	if v, ok := r.dst.Format.Decide(sum, 1.0001*0x1p-53*float64(float64(len(r.terms))*size)); ok {
		return v
	}
	return r.settle(o, x, sum)
}
