package matmul

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/refrun/refrun/internal/asm"
)

// packed is one operand in the order in which the kernels read it: panels of some
// lines side by side, where a line is a row of a or a column of b.
type packed struct {
	width  int       // lines of a panel
	terms  int       // numbers of a line
	lines  int       // of a matrix
	panels int       // of a matrix
	data   []float64 // [matrices][panels][terms][width], zeros beyond the last line
	norms  []float64 // [matrices][panels][width], of lines; empty in float64
	grids  []atomic.Int64
	memory []float64 // of data, beginning with a page
}

// What grids say of a panel before anybody has asked, and of zeros.
const (
	unknown = 0
	nothing = 1 << 20
)

// shape makes room for some matrices.
func (p *packed) shape(matrices, lines, terms, width int, norms bool) {
	p.width, p.terms, p.lines, p.panels = width, terms, lines, (lines+width-1)/width
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
	}
}

// panel returns the numbers of a panel, counted through all matrices.
func (p *packed) panel(i int) []float64 {
	size := p.terms * p.width
	return p.data[i*size:][:size]
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
	out := p.panel(i)
	first := i % p.panels * p.width
	n := min(p.width, p.lines-first)
	p.grids[i].Store(unknown)
	body := out[:s.terms*p.width]
	switch {
	case s.terms == 0:
	case n < p.width || s.step != 1 && s.line != 1:
		clear(body)
		for l := range n {
			at := (first + l) * s.line
			for k := range s.terms {
				body[k*p.width+l] = s.data[at+k*s.step]
			}
		}
	case s.line == 1:
		for k := range s.terms {
			copy(body[k*p.width:][:p.width], s.data[k*s.step+first:])
		}
	default:
		for l := 0; l < n; l += 2 {
			if l+1 == n {
				weave(body[l:], p.width, s.data[(first+l)*s.line:][:s.terms])
				break
			}
			weave2(body[l:], p.width, s.data[(first+l)*s.line:][:s.terms], s.data[(first+l+1)*s.line:][:s.terms])
		}
	}
	if s.fold != 1 {
		for k := range body {
			body[k] *= s.fold
		}
	}
	if s.last != nil {
		tail := out[s.terms*p.width:]
		clear(tail)
		for l := range n {
			tail[l] = s.last[(first+l)*s.lastLine] * s.lastFold
		}
	}
	if len(p.norms) > 0 {
		takeNorms(p.lineNorms(i), out, sums)
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

// stretch is a multiple of all widths of panels.
const stretch = 192

// takeNorms sets norms to those of the lines of a panel.
func takeNorms(norms, panel []float64, sums *[stretch]float64) {
	*sums = [stretch]float64{}
	width := len(norms)
	if d := asm.DirectKernels(); d != nil {
		for ; len(panel) >= stretch; panel = panel[stretch:] {
			d.AddSquares(&panel[0], 1, &sums[0], stretch)
		}
	}
	for len(panel) > 0 {
		n := min(stretch, len(panel))
		for i, v := range panel[:n] {
			sums[i] += float64(v * v)
		}
		panel = panel[n:]
	}
	for l := range norms {
		sum := 0.0
		for i := l; i < stretch; i += width {
			sum += sums[i]
		}
		norms[l] = math.Sqrt(sum)
	}
}

// grid returns the exponent of a power of two of which all numbers of a panel are
// multiples, nothing for zeros; numbers that are not finite do not count.
func (p *packed) grid(i int) int {
	if g := p.grids[i].Load(); g != unknown {
		return int(g) - gridOffset
	}
	least := nothing
	for _, v := range p.panel(i) {
		b := math.Float64bits(v) << 1 >> 1
		e := int(b >> 52)
		if b == 0 || e == 0x7ff {
			continue
		}
		if at := bits.TrailingZeros64(b|1<<52) + e - 1075; at < least {
			least = at
		}
	}
	p.grids[i].Store(int64(least + gridOffset))
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
