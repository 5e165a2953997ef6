package matmul

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/refrun/refrun/internal/asm"
)

// packed is one operand in the order in which the kernels read it: panels of some
// lines side by side, where a line is a row of a or a column of b. Its terms are in
// blocks, and those of all panels of one block lie together: at the distance of whole
// panels they would meet in the same few sets of a cache.
type packed struct {
	width  int       // lines of a panel
	terms  int       // numbers of a line
	block  int       // terms of a block; the last one may have less
	lines  int       // of a matrix
	panels int       // of a matrix
	data   []float64 // [matrices][blocks][panels][terms of a block][width], zeros beyond the last line
	single []float32 // the same in half the memory, in the place of data, of what is prepared
	norms  []float64 // [matrices][panels][width], of lines; empty in float64
	finite []bool    // [matrices][panels]: no norm is NaN or infinite; empty in float64
	grids  []atomic.Int64
	memory []float64 // of data, beginning with a page
}

// What grids say of a panel before anybody has asked, and of zeros.
const (
	unknown = 0
	nothing = 1 << 20
)

// shape makes room for some matrices.
func (p *packed) shape(matrices, lines, terms, block, width int, norms bool) {
	p.width, p.terms, p.block, p.lines, p.panels = width, terms, block, lines, (lines+width-1)/width
	n := matrices * p.panels
	if size := n * terms * width; cap(p.memory) < size {
		p.memory = asm.Paged[float64](size)
	}
	p.data = p.memory[:n*terms*width]
	if len(p.grids) < n {
		p.grids = make([]atomic.Int64, n)
	}
	if p.norms = p.norms[:0]; norms {
		if cap(p.norms) < n*width {
			p.norms = make([]float64, n*width)
		}
		p.norms = p.norms[:n*width]
		room(&p.finite, n)
	}
}

// at returns where the terms of panel i, counted through all matrices, begin with term k,
// the first of a block, and how many numbers the block has there.
func (p *packed) at(i, k int) (at, n int) {
	matrix, i := i/p.panels, i%p.panels
	n = min(p.block, p.terms-k) * p.width
	return (matrix*p.terms+k)*p.panels*p.width + i*n, n
}

// piece returns n terms of a panel from term k on, the first of a block, made in a memory
// if they are single or in several blocks.
func (p *packed) piece(i, k, n int, memory *[]float64) []float64 {
	at, have := p.at(i, k)
	if n *= p.width; p.single == nil && n <= have {
		return p.data[at:][:n]
	}
	room(memory, n)
	for to := *memory; len(to) > 0; to, k = to[have:], k+p.block {
		if at, have = p.at(i, k); p.single == nil {
			copy(to, p.data[at:][:have])
		} else {
			widen(to[:have], p.single[at:][:have])
		}
	}
	return *memory
}

// widen converts numbers, as many as some terms of a panel have.
func widen(to []float64, from []float32) {
	if d := asm.DirectKernels(); d != nil && len(to) > 0 && len(to)%d.Pixels == 0 {
		d.Widen(&to[0], &from[0], len(to))
		return
	}
	for i, v := range from {
		to[i] = float64(v)
	}
}

// narrow makes what is packed single.
func (p *packed) narrow() {
	p.single = asm.Paged[float32](len(p.data))
	for i, v := range p.data {
		p.single[i] = float32(v)
	}
	p.data, p.memory = nil, nil
}

// lineNorms returns the norms of a panel's lines.
func (p *packed) lineNorms(i int) []float64 { return p.norms[i*p.width:][:p.width] }

// source is where a matrix's lines are: numbers of one line are step apart, and
// neighbouring lines line. They are multiplied by fold, and followed by one more
// number, times its own fold, where last is not nil: of line i, last[i*lastLine].
type source struct {
	data       []float64
	line, step int
	terms      int
	fold       float64
	last       []float64
	lastLine   int
	lastFold   float64
}

// one is what a line ends with to take the other's last number as it is.
var one = []float64{1}

// fill packs a panel of a matrix and takes its norms, with sums as scratch.
func (p *packed) fill(i int, s *source, sums *[stretch]float64) {
	*sums = [stretch]float64{}
	for k := 0; k < p.terms; k += p.block {
		at, n := p.at(i, k)
		out := p.data[at:][:n]
		body := out[:min(p.block, s.terms-k)*p.width]
		p.lay(body, i%p.panels*p.width, k, s)
		if tail := out[len(body):]; len(tail) > 0 {
			clear(tail)
			first := i % p.panels * p.width
			for l := range min(p.width, p.lines-first) {
				tail[l] = s.last[(first+l)*s.lastLine] * s.lastFold
			}
		}
		if len(p.norms) > 0 {
			addSquares(out, sums)
		}
	}
	p.grids[i].Store(unknown)
	if len(p.norms) > 0 {
		p.finite[i] = takeNorms(p.lineNorms(i), sums)
	}
}

// lay packs terms of the lines from first on, from term k on.
func (p *packed) lay(body []float64, first, k int, s *source) {
	n, terms := min(p.width, p.lines-first), len(body)/p.width
	data := s.data
	switch {
	case terms == 0:
	case n < p.width || s.step != 1 && s.line != 1:
		clear(body)
		for l := range n {
			at := (first+l)*s.line + k*s.step
			for i := range terms {
				body[i*p.width+l] = data[at+i*s.step]
			}
		}
	case s.line == 1:
		for i := range terms {
			copy(body[i*p.width:][:p.width], data[(k+i)*s.step+first:])
		}
	default:
		l := 0
		if kernels := asm.LineKernels(); kernels != nil {
			whole := terms / kernels.Abreast * kernels.Abreast
			for ; whole > 0 && l+kernels.Abreast <= n; l += kernels.Abreast {
				from := data[(first+l)*s.line+k:]
				kernels.Weave(&body[l], 8*p.width, &from[0], 8*s.line, whole)
				for j := 0; whole < terms && j < kernels.Abreast; j++ {
					weave(body[whole*p.width+l+j:], p.width, from[j*s.line:][whole:terms])
				}
			}
		}
		for ; l < n; l += 2 {
			if l+1 == n {
				weave(body[l:], p.width, data[(first+l)*s.line+k:][:terms])
				break
			}
			weave2(body[l:], p.width, data[(first+l)*s.line+k:][:terms], data[(first+l+1)*s.line+k:][:terms])
		}
	}
	if s.fold != 1 {
		for i := range body {
			body[i] *= s.fold
		}
	}
}

// weave puts the numbers of a line width apart.
func weave(out []float64, width int, line []float64) {
	at := 0
	for _, v := range line {
		out[at] = v
		at += width
	}
}

// weave2 is weave for two lines side by side.
func weave2(out []float64, width int, a, b []float64) {
	b = b[:len(a)]
	at := 0
	for k, v := range a {
		o := out[at : at+2 : at+2]
		o[0], o[1] = v, b[k]
		at += width
	}
}

// stretch is a multiple of all widths of panels, as many sums as a kernel adds to.
const stretch = 24

// addSquares adds the squares of some terms of a panel to sums, those of a line to each
// width-th from its own on.
func addSquares(panel []float64, sums *[stretch]float64) {
	if whole := len(panel) / stretch * stretch; whole > 0 {
		if d := asm.DirectKernels(); d != nil {
			d.SumSquares(&panel[0], whole, &sums[0])
			panel = panel[whole:]
		}
	}
	for len(panel) > 0 {
		n := min(stretch, len(panel))
		for i, v := range panel[:n] {
			sums[i] += float64(v * v)
		}
		panel = panel[n:]
	}
}

// takeNorms sets norms to those of the lines of a panel, of sums of squares, and reports
// whether all are finite.
func takeNorms(norms []float64, sums *[stretch]float64) bool {
	finite := true
	for l := range norms {
		sum := 0.0
		for i := l; i < stretch; i += len(norms) {
			sum += sums[i]
		}
		norms[l] = math.Sqrt(sum)
		finite = finite && sum-sum == 0
	}
	return finite
}

// grid returns the exponent of a power of two of which all numbers of a panel are
// multiples, nothing for zeros; numbers that are not finite do not count.
func (p *packed) grid(i int) int {
	if g := p.grids[i].Load(); g != unknown {
		return int(g) - gridOffset
	}
	least := nothing
	for k := 0; k < p.terms; k += p.block {
		if at, n := p.at(i, k); p.single == nil {
			least = min(least, gridOf(p.data[at:][:n]))
		} else {
			least = min(least, gridOf(p.single[at:][:n]))
		}
	}
	p.grids[i].Store(int64(least + gridOffset))
	return least
}

// gridOf is grid of some numbers.
func gridOf[T float32 | float64](numbers []T) int {
	least := nothing
	for _, v := range numbers {
		b := math.Float64bits(float64(v)) << 1 >> 1
		e := int(b >> 52)
		if b == 0 || e == 0x7ff {
			continue
		}
		if at := bits.TrailingZeros64(b|1<<52) + e - 1075; at < least {
			least = at
		}
	}
	return least
}

// gridOffset makes what grids hold greater than unknown.
const gridOffset = 1 << 12

// known reports whether grid would take no time.
func (p *packed) known(i int) bool { return p.grids[i].Load() != unknown }

// power reports whether a positive number is a power of two.
func power(v float64) bool {
	frac, _ := math.Frexp(v)
	return frac == 0.5
}
