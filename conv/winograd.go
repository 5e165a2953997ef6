package conv

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
)

// winogradLeast are the fewest input and output channels for which the
// transforms pay.
var winogradLeast = [2]int{5, 8}

// mostPanels bounds the bytes of transformed weights, two to four times those of
// the weights; beyond it a convolution is direct.
const mostPanels = 1 << 30

// block is the number of channels that lie together.
const block = 8

// wino is a convolution with 3x3, 5x5 or 7x7 kernels of stride 1 by the kernels
// of package asm.
type wino struct {
	*job
	*asm.Winograd
	form    *asm.Form
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
	k, d := j.k, j.dst
	f, ok := kernelFormats[d.Format]
	form := asm.WinogradForm(k.kh)
	switch {
	case form == nil || !ok || d.Format == fp16.Float64 || !k.finite || !k.finiteBias || j.stride != 1 || k.kh != k.kw,
		k.ic < winogradLeast[0] || k.oc < winogradLeast[1] || d.N == 0,
		float64(k.ic)*float64(k.oc)*float64(form.Side*form.Side*8) > mostPanels:
		return false
	}
	w := form.Kernels()
	if w == nil {
		return false
	}
	asm.Ran(fmt.Sprintf("winograd 4x4,%dx%d %s", k.kh, k.kw, asm.ISA()))
	g := j.newWinograd(form, w, w.Output[f])
	j.memory = imagePool.Get().(*images)
	defer imagePool.Put(j.memory)
	g.pack()
	g.run()
	return true
}

func (j *job) newWinograd(form *asm.Form, w *asm.Winograd, round roundTile) *wino {
	g := &wino{job: j, Winograd: w, form: form, weights: j.k.winograd(form, w), round: round,
		th: (j.dst.H + 3) / 4, tw: (j.dst.W + 3) / 4, blocks: (j.k.ic + block - 1) / block}
	g.height, g.width = 4*g.th+form.Taps-1, 4*g.tw+form.Taps-1
	return g
}

// roundTile is a function of asm.Winograd.Output.
type roundTile = func(m *float64, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64)

// pack lays the source out in blocks of channels, padding included, and takes
// the norms of its pixels.
func (g *wino) pack() {
	s := g.src
	g.image = grown(&g.memory.image, s.N*g.blocks*g.height*g.width*block)
	g.norms = grown(&g.memory.norms, s.N*g.height*g.width)
	zeros := make([]float64, s.W) // what a last block lacks
	cols := g.cols[:min(len(g.cols), g.width)]
	from, to := straight(cols)
	to = from + (to-from)/8*8
	par.For(s.N*g.height, func(i int) {
		n, y := i/g.height, i%g.height
		norms := g.norms[i*g.width:][:g.width]
		clear(norms)
		for b := range g.blocks {
			line := g.image[((n*g.blocks+b)*g.height+y)*g.width*block:][:g.width*block]
			if y >= len(g.rows) || g.rows[y] < 0 {
				clear(line)
				continue
			}
			var in [block][]float64
			var scale [block]float64
			for c := range block {
				in[c] = zeros
				if b*block+c < s.C {
					in[c] = s.Plane(n, b*block+c)[g.rows[y]*s.W:][:s.W]
					scale[c] = g.k.scale[b*block+c]
				}
			}
			if from < to {
				var lines [block]*float64
				for c := range block {
					lines[c] = &in[c][cols[from]]
				}
				g.Pack(&lines, &scale, &line[from*block], &norms[from], to-from)
			}
			packPixels(line, norms, cols, 0, from, &in, &scale)
			packPixels(line, norms, cols, to, g.width, &in, &scale)
		}
		for x, v := range norms {
			norms[x] = math.Sqrt(v)
		}
	})
}

// straight returns the longest run of columns [from,to) that read neighbours.
func straight(cols []int) (from, to int) {
	for x := 0; x < len(cols); {
		end := x + 1
		for end < len(cols) && cols[x] >= 0 && cols[end] == cols[end-1]+1 {
			end++
		}
		if cols[x] >= 0 && end-x > to-from {
			from, to = x, end
		}
		x = end
	}
	return from, to
}

// packPixels is asm.Winograd.Pack for pixels [from,to) that read any columns,
// or nothing.
func packPixels(line []float32, sums []float64, cols []int, from, to int, in *[block][]float64, scale *[block]float64) {
	for x := from; x < to; x++ {
		out := line[x*block:][:block]
		if x >= len(cols) || cols[x] < 0 {
			clear(out)
			continue
		}
		for c := range block {
			v := in[c][cols[x]]
			out[c] = float32(v)
			v *= scale[c]
			sums[x] += float64(v * v)
		}
	}
}

// images is memory for a convolution's images, kept between convolutions.
type images struct {
	image    []float32
	norms    []float64
	expanded []float64
}

var imagePool = sync.Pool{New: func() any { return new(images) }}

// grown returns n numbers of memory whose contents do not matter.
func grown[T any](memory *[]T, n int) []T {
	if cap(*memory) < n {
		*memory = make([]T, n)
	}
	return (*memory)[:n]
}

// space is the scratch memory of one goroutine.
type space struct {
	v, m, scratch, k []float64
	out              [16 * block]float32
	flags            [16]uint8
	row              row
	memory           [4][]float64 // of v, m, scratch, k
}

// put gives the memory back, and keeps no tensor alive.
func (s *space) put() {
	s.row = row{terms: s.row.terms}
	spacePool.Put(s)
}

var spacePool = sync.Pool{New: func() any { return new(space) }}

// newSpace returns memory for groups of tiles; V and M begin with a cache line.
func (g *wino) newSpace(groups int) *space {
	s := spacePool.Get().(*space)
	tiles := groups * g.Tiles
	points := g.form.Side * g.form.Side
	s.v = aligned(&s.memory[0], points*tiles*g.blocks*block)
	s.m = aligned(&s.memory[1], points*tiles*g.Outputs)
	s.scratch = aligned(&s.memory[2], points*block)
	s.k = grown(&s.memory[3], tiles)
	return s
}

// most is about how many bytes of transformed windows a goroutine keeps at
// once, so that they stay in its caches.
const most = 1 << 20

func (g *wino) run() {
	tiles := g.src.N * g.th * g.tw
	points := g.form.Side * g.form.Side
	groups := max(1, most/(points*8*g.Tiles*g.blocks*block))
	groups = min(groups, 1+(tiles-1)/g.Tiles)
	unit := groups * g.Tiles
	outputs := (g.k.oc + g.Outputs - 1) / g.Outputs
	par.For((tiles+unit-1)/unit, func(i int) {
		s := g.newSpace(groups)
		defer s.put()
		lo, hi := i*unit, min((i+1)*unit, tiles)
		for t := lo; t < hi; t++ {
			g.window(s, t, t-lo)
		}
		n := (hi - lo + g.Tiles - 1) / g.Tiles
		for o := range outputs {
			for p := range points {
				g.Multiply(&s.v[p*g.Tiles*block], g.weights.panel(o, p), &s.m[p*g.Tiles*g.Outputs], g.blocks, n)
			}
			for t := lo; t < hi; t++ {
				g.finish(s, t, t-lo, o)
			}
		}
	})
}

// aligned returns n numbers of memory that begin with a cache line.
func aligned(memory *[]float64, n int) []float64 {
	b := grown(memory, n+8)
	return b[asm.Align(&b[0]):][:n]
}

// place returns the sample and the first pixel of tile t.
func (g *wino) place(t int) (n, y, x int) {
	per := g.th * g.tw
	return t / per, t % per / g.tw * 4, t % g.tw * 4
}

// window transforms the window of tile t into place at of a unit, and takes
// its norm: the greatest of its pixels', NaN if one is, or what measured makes
// of it.
func (g *wino) window(s *space, t, at int) {
	n, y, x := g.place(t)
	to := (at/g.Tiles*g.blocks*g.form.Side*g.form.Side*g.Tiles + at%g.Tiles) * block
	g.Input(&g.image[((n*g.blocks*g.height+y)*g.width+x)*block], g.width*block*4, g.height*g.width*block*4,
		&s.v[to], g.blocks, &s.scratch[0])
	var greatest uint64 // the bits of numbers that are not negative are in order, NaN last
	for r := range g.form.Side {
		for _, v := range g.norms[(n*g.height+y+r)*g.width+x:][:g.form.Side] {
			greatest = max(greatest, math.Float64bits(v))
		}
	}
	s.k[at] = math.Float64frombits(greatest)
	if v := g.weights.measured; v != nil {
		var sums [block]float64
		g.Weigh(&s.v[to], &v.weights[0], &v.scale[0], g.blocks, &sums)
		var sum float64
		for _, x := range sums {
			sum += x
		}
		s.k[at] = max(math.Sqrt(sum), v.rho*s.k[at])
	}
}

// finish makes the outputs of tile t and a group of channels.
func (g *wino) finish(s *space, t, at, o int) {
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
		m := (at/g.Tiles*g.form.Side*g.form.Side*g.Tiles+at%g.Tiles)*g.Outputs + c%g.Outputs
		g.round(&s.m[m], k, &g.weights.tables[c/block*18*block], &s.out[0], 4*block*4, &s.flags[0], &s.scratch[0])
		if h == 4 && w == 4 && channels == block {
			g.Unpack(&s.out[0], &d.Plane(n, c)[y*d.W+x], d.H*d.W*8, d.W*8)
		} else {
			for b := range channels {
				for i := range h {
					out := d.Plane(n, c+b)[(y+i)*d.W+x:][:w]
					for j := range out {
						out[j] = float64(s.out[(4*i+j)*block+b])
					}
				}
			}
		}
		if !(k <= math.MaxFloat64) {
			for i := range s.flags {
				s.flags[i] = 1<<block - 1
			}
		}
		if quiet(&s.flags) {
			continue
		}
		for i := range h {
			for j := range w {
				for f, b := s.flags[4*i+j], 0; f != 0; f, b = f>>1, b+1 {
					if f&1 != 0 && b < channels {
						d.Plane(n, c+b)[(y+i)*d.W+x+j] = g.resolve(s, c+b, n, y+i, x+j)
					}
				}
			}
		}
	}
}

// quiet reports whether no flag is set.
func quiet(flags *[16]uint8) bool {
	return binary.NativeEndian.Uint64(flags[:8])|binary.NativeEndian.Uint64(flags[8:]) == 0
}

func fill(v []float64, to float64) {
	for i := range v {
		v[i] = to
	}
}

// resolve returns an output that the guard left open: by the direct sum, with
// its own bound, and settled if that is not enough either.
//
// Each of the 8 sums has K parts of K*blocks exact products; those are added,
// then the 8 sums, then the bias: no term takes part in more than K*blocks + K-1
// + 7 + 1 roundings (see bound.go).
func (g *wino) resolve(s *space, o, n, y, x int) float64 {
	var out [2 * block]float64
	k := g.form.Taps
	g.Dot(&g.image[((n*g.blocks*g.height+y)*g.width+x)*block], g.width*block*4, g.height*g.width*block*4,
		&g.weights.direct[o*g.blocks*k*k*block], g.blocks, &out)
	bias := g.k.bias[o]
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
	s.row.job, s.row.n, s.row.y = g.job, n, y
	return s.row.settle(o, x, sum)
}
