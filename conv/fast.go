package conv

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// The float32 arithmetic of the contract "fast, version 5" (docs/NUMERICS.md, section
// 13): convolutions with odd square windows, padded by half of them, by Winograd's method
// or tap by tap. Every operation is written down in fast_plain.go, and that is the
// definition; the kernels of package asm do the same operations in the same order, many
// at a time. A number depends on nothing but its tile's window and the weights: not on
// the batch, nor on which tiles share a call.

// fastForm is how windows of one size are computed by Winograd's method: as the sum of
// convolutions with smaller ones, one for each pair of parts, by one form.
type fastForm struct {
	form  *asm.Form
	parts []fastPart // along an axis
	chain int        // blocks of channels of a sum
}

// fastPart is the taps [first,end) of a window; its own window begins at pixel at.
type fastPart struct{ at, first, end int }

// fastForms are the forms by the size of the window. The ten points that 7x7 would need
// lose too many of float32's digits: it is four windows of at most 4x4 taps, a tile apart,
// so that a transformed window serves four tiles.
var fastForms = map[int]*fastForm{
	3: {asm.FastForm(3), []fastPart{{0, 0, 3}}, 4},
	5: {asm.FastForm(5), []fastPart{{0, 0, 5}}, 2},
	7: {asm.FastForm(4), []fastPart{{0, 0, 4}, {4, 4, 7}}, 2},
}

// fastChain is the number of taps of a sum, tap by tap.
const fastChain = 16

// The fewest channels that go to and come from a convolution by Winograd's method, and
// the most transformed weights.
const (
	fastLeastIn, fastLeastOut = 5, 8
	mostFast                  = 1 << 28
)

// Fast returns the kernel for fast arithmetic, in which results of float32 numbers have
// it if they are padded by half of the window; all others are exact. It is the kernel
// itself if none can be: where weights are not finite, windows not square or not odd, or
// groups not of whole blocks of 8 channels. The two share their weights.
func (k *Kernel) Fast() *Kernel {
	if k.transposed || k.kh != k.kw || k.kh%2 == 0 || !k.float32 {
		return k
	}
	fast := &Kernel{oc: k.oc, ic: k.ic, kh: k.kh, kw: k.kw, packed: k.packed, bias: k.bias, finite: k.finite, finiteBias: k.finiteBias,
		float32: true, scale: k.scale, norm: k.norm, fast: true}
	for _, g := range k.groups {
		g = g.Fast()
		if !g.fast || g.ic%block != 0 || g.oc%block != 0 {
			return k
		}
		fast.groups = append(fast.groups, g)
	}
	if k.groups == nil && !(k.finite && k.finiteBias) {
		return k
	}
	return fast
}

// fastFor reports whether results of a format have fast arithmetic.
func (k *Kernel) fastFor(f fp16.Format, p Params) bool {
	for axis := range p.Stride {
		p.Stride[axis], p.Dilation[axis] = p.steps(axis)
	}
	q := Square(p.Stride[0], k.kh/2, p.Padding)
	q.Dilation = [2]int{1, 1}
	return k.fast && f == fp16.Float32 && p == q
}

// For images of so few pixels, so many transformed weights or more take longer to read than the
// multiplications that they spare, and much memory.
const (
	fastFewPixels = 64
	fastFarWeight = 8 << 20
)

// fastForm returns the form for a stride and images of so many pixels, nil to go tap by tap.
func (k *Kernel) fastForm(stride, pixels int) *fastForm {
	g := k.parts()[0]
	f := fastForms[g.kh]
	if f == nil || stride > 1 || g.ic < fastLeastIn || g.oc < fastLeastOut {
		return nil
	}
	each := f.blocks(g.ic) * block * f.form.Side * f.form.Side
	if each > mostFast/g.oc || pixels <= fastFewPixels && each*g.oc >= fastFarWeight {
		return nil
	}
	return f
}

// fastEngine chooses for fast arithmetic, and images of so many pixels.
func (k *Kernel) fastEngine(stride, pixels int) engine {
	e := engine{stride: stride, fast: true, ran: "fast direct convolution"}
	kernels := asm.FastTapKernels() != nil
	if e.quick = k.fastForm(stride, pixels); e.quick != nil {
		e.ran = fmt.Sprintf("fast winograd %dx%d,%dx%d", e.quick.form.Tile, e.quick.form.Tile, k.kh, k.kw)
		kernels = e.quick.form.Fast() != nil
	}
	if kernels {
		e.ran += " " + asm.ISA()
	} else {
		e.ran += ", plain Go"
	}
	return e
}

// forwardFast is Forward in fast arithmetic, by way of images.
func (k *Kernel) forwardFast(dst, src *tensor.Tensor, p Params) {
	if src.N() != dst.N() || src.C() != k.ic || dst.C() != k.oc {
		panic("conv: source, kernel and destination differ in samples or channels")
	}
	checkFormats(dst, src)
	if dst.N() == 0 {
		return
	}
	memory := imagePool.Get().(*images)
	defer imagePool.Put(memory)
	n, h, w, frame := src.N(), src.H(), src.W(), k.kh/2
	from := NewImage(src.Format, n, k.ic, h, w, frame, aligned(&memory.src, ImageSize(n, k.ic, h, w, frame)))
	to := NewImage(dst.Format, n, k.oc, dst.H(), dst.W(), 0, aligned(&memory.dst, ImageSize(n, k.oc, dst.H(), dst.W(), 0)))
	from.From(src)
	from.FillFrame(p.Padding)
	e := k.fastEngine(max(p.Stride[0], 1), dst.H()*dst.W())
	e.run(k, to, from, &memory.space)
	to.To(dst)
}

// ownFrame returns an image whose frame is as wide as a window's half: the image itself,
// or a copy where a tile at the end of a line would read more of a wider frame's padding.
func ownFrame(m *Image, frame, tile int, p Padding) *Image {
	if m.Frame == frame || p == Zeros || m.H%tile == 0 && m.W%tile == 0 {
		return m
	}
	own := NewImage(m.Format, m.N, m.C, m.H, m.W, frame, asm.Aligned[float32](ImageSize(m.N, m.C, m.H, m.W, frame)))
	for i := range m.N * m.Blocks() * m.H {
		n, b, y := i/m.H/m.Blocks(), i/m.H%m.Blocks(), i%m.H
		copy(own.Row(n, b, y), m.Row(n, b, y))
	}
	own.FillFrame(p)
	return own
}

// blocks returns the blocks of channels of the transformed windows of a tile, those of
// one pair of parts after those of the other.
func (f *fastForm) blocks(ic int) int {
	return len(f.parts) * len(f.parts) * ((ic + block - 1) / block)
}

// fastWeights are a kernel's transformed weights, laid out for kernels of a number of
// outputs.
type fastWeights struct {
	groups int       // of outputs
	size   int       // of one panel
	panels []float32 // U [n*n][groups][blocks*8][Outputs]
	bias   []float32 // [groups][Outputs]
}

func (w *fastWeights) panel(group, p int) []float32 {
	return w.panels[(p*w.groups+group)*w.size:][:w.size]
}

// inSingles returns the transformed weights for kernels of that many outputs, made at
// their first use: each U is G g G^T as transform.weight has it, in float64, rounded to
// float32.
func (k *Kernel) inSingles(f *fastForm, outputs int) *fastWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.singles[outputs]; w != nil {
		return w
	}
	taps, points, blocks := f.form.Taps, f.form.Side*f.form.Side, f.blocks(k.ic)
	w := &fastWeights{groups: (k.oc + outputs - 1) / outputs, size: blocks * block * outputs}
	w.panels, w.bias = asm.Paged[float32](w.groups*points*w.size), make([]float32, w.groups*outputs)
	t, parts := newTransform(f.form), len(f.parts)
	par.For(k.oc, func(o int) {
		w.bias[o] = float32(k.bias[o])
		g := make([]float64, taps*taps)
		for q := range parts * parts {
			rows, cols := f.parts[q/parts], f.parts[q%parts]
			for c := range k.ic {
				clear(g)
				for i := rows.first; i < rows.end; i++ {
					for j := cols.first; j < cols.end; j++ {
						g[(i-rows.at)*taps+j-cols.at] = k.packed[k.at(o, (c*k.kh+i)*k.kw+j)]
					}
				}
				row := q*blocks/(parts*parts)*block + c
				for p := range points {
					u, _ := t.weight(g, p)
					w.panel(o/outputs, p)[row*outputs+o%outputs] = float32(u)
				}
			}
		}
	})
	if k.singles == nil {
		k.singles = map[int]*fastWeights{}
	}
	k.singles[outputs] = w
	return w
}

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
		th: (dst.H + form.form.Tile - 1) / form.form.Tile, tw: (dst.W + form.form.Tile - 1) / form.form.Tile, blocks: form.blocks(k.ic), points: form.form.Side * form.form.Side}
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

func (g *fastConv) tiles() int     { return g.src.N * g.th * g.tw }
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

// input transforms what the tiles [lo,hi) read. The parts of a window lie a tile apart, so
// part q of a tile's window is part 0 of the tile to the right, below, or both. Each such
// piece is transformed once and goes to all tiles that read it, four at most; the last
// pieces lie one tile beyond the image.
func (g *fastConv) input(s *worker, lo, hi int) {
	parts := len(g.form.parts)
	per := g.th * g.tw
	for n := lo / per; n <= (hi-1)/per; n++ {
		first, last := max(lo-n*per, 0), min(hi-n*per, per)-1 // tiles of the sample
		for ty := first / g.tw; ty < last/g.tw+parts; ty++ {
			for tx := 0; tx < g.tw+parts-1; tx++ {
				if t := ty*g.tw + tx; parts == 1 && g.InputPair != nil && (n*per+t-lo)%2 == 0 && g.holds(ty, tx+1) && t >= first && t < last {
					g.pair(s, g.window(n*per+t-lo, 0), n, ty, tx)
					tx++
					continue
				}
				var places [4]int
				found := 0
				for q := range parts * parts {
					y, x := ty-q/parts, tx-q%parts
					if t := y*g.tw + x; y >= 0 && x >= 0 && x < g.tw && t >= first && t <= last {
						places[found] = g.window(n*per+t-lo, q)
						found++
					}
				}
				if found > 0 {
					g.transform(s, &places, found, n, ty, tx)
				}
			}
		}
	}
}

// window returns the place in a unit's V of part q of the window of its tile t.
func (g *fastConv) window(t, q int) int {
	return (t/g.Tiles*g.blocks*g.Tiles+t%g.Tiles)*block + q*g.src.Blocks()*g.Tiles*block
}

// transform transforms one piece, all channels of it, into so many places of V.
func (g *fastConv) transform(s *worker, places *[4]int, found, n, ty, tx int) {
	for i := range s.singles.also {
		s.singles.also[i] = 4 * (places[min(i+1, found-1)] - places[0])
	}
	m, frame, side, blocks := g.form.form.Tile, g.k.kh/2, g.form.form.Side, g.src.Blocks()
	src, v := g.src.at(n, 0, ty*m-frame, tx*m-frame), s.singles.v[places[0]:]
	plane := g.Tiles * block
	if g.holds(ty, tx) {
		g.Input(&g.src.data[src], g.src.line*4, g.src.plane*4, &v[0], &s.singles.also, g.vPoint*4, plane*4, blocks, &s.singles.t[0])
		return
	}
	for b := range blocks {
		g.edge(s.singles.edge, src+b*g.src.plane, ty, tx)
		g.Input(&s.singles.edge[0], side*block*4, 0, &v[b*plane], &s.singles.also, g.vPoint*4, 0, 1, &s.singles.t[0])
	}
}

// pair transforms the windows of a tile and the one to the right of it, which is the next
// one of V.
func (g *fastConv) pair(s *worker, place, n, ty, tx int) {
	m, frame := g.form.form.Tile, g.k.kh/2
	src := g.src.at(n, 0, ty*m-frame, tx*m-frame)
	g.InputPair(&g.src.data[src], g.src.line*4, g.src.plane*4, &s.singles.v[place], &s.singles.also, g.vPoint*4, g.Tiles*block*4, g.src.Blocks(), &s.singles.t[0])
}

// ends returns the rows and columns from the first pixel of a piece's to where the source's
// memory ends.
func (g *fastConv) ends(ty, tx int) (rows, cols int) {
	m, frame := g.form.form.Tile, g.k.kh/2+g.src.Frame
	return up4(g.src.H) + frame - ty*m, up4(g.src.W) + frame - tx*m
}

// holds reports whether a piece is that of a tile, with memory for all of it.
func (g *fastConv) holds(ty, tx int) bool {
	rows, cols := g.ends(ty, tx)
	return ty < g.th && tx < g.tw && min(rows, cols) >= g.form.form.Side
}

// edge copies a piece that lies beyond the image's last tile, or ends beyond the image. Of
// the former no output reads its last row (below) or column (to the right): those become
// zeros, whatever the memory holds, and so does what lies beyond the image.
func (g *fastConv) edge(dst []float32, src, ty, tx int) {
	side := g.form.form.Side
	rows, cols := g.ends(ty, tx)
	rows, cols = min(rows, side), min(cols, side)
	if ty == g.th {
		rows = g.k.kh - 1
	}
	if tx == g.tw {
		cols = g.k.kw - 1
	}
	clear(dst)
	for y := range rows {
		copy(dst[y*side*block:], g.src.data[src+y*g.src.line:][:cols*block])
	}
}

// nextWindows is what the next unit reads of the source, in pieces that multiplications
// ask for, the last ones before it: a piece of each block of channels after the other.
type nextWindows struct {
	from, end int // of the first block
	piece     int // numbers that a multiplication asks for
	pieces    int // of a block
	calls     int // multiplications
}

// nextWindows returns that of the unit that ends with tile hi, of n groups and so many
// multiplications.
func (g *fastConv) nextWindows(hi, n, calls int) nextWindows {
	if hi >= g.tiles() {
		return nextWindows{}
	}
	m, frame := g.form.form.Tile, g.k.kh/2
	sample, y, x := g.place(hi)
	_, last, _ := g.place(min(hi+n*g.Tiles, (sample+1)*g.th*g.tw) - 1)
	w := nextWindows{piece: n * g.blocks * 32, calls: calls,
		from: g.src.at(sample, 0, y-frame, x-frame), end: g.src.at(sample, 0, last+m+frame, 0)}
	w.pieces = (w.end - w.from + w.piece - 1) / w.piece
	return w
}

// later returns what the next multiplication asks for, at most where nothing says so.
func (g *fastConv) later(w *nextWindows, idle *float32) *float32 {
	w.calls--
	if k := w.pieces*g.src.Blocks() - 1 - w.calls; k >= 0 && w.calls >= 0 {
		return &g.src.data[min(w.from+k/w.pieces*g.src.plane+k%w.pieces*w.piece, len(g.src.data)-1)]
	}
	return idle
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
	g.Multiply(&s.singles.v[p*g.vPoint], &g.weights.panel(o, p)[0], &s.singles.m[p*g.mPoint+at], g.blocks, g.form.chain, groups, &after[0], g.later(ahead, &after[0]))
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
