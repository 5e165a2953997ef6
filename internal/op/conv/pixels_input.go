package conv

import (
	"math"
)

// measure takes the norms of a line of pixels.
func (g *direct) measure(i int) {
	pixelNorms(g.norms[i*g.width:][:g.width], g.src, g.k, i/g.height, i%g.height-g.p.Pad[0], -g.p.Pad[1])
}

// sumRow sums the squares of a line of norms over the lines of windows.
func (g *direct) sumRow(i int) {
	w := g.dst.W
	in, out := g.norms[i*g.width:][:g.width], g.rows[i*w:][:w]
	for x, v := range in {
		in[x] = v * v
	}
	clear(out)
	stride, dilation := g.p.steps(1)
	for j := range g.k.kw {
		if stride > 1 {
			for x := range out {
				out[x] += in[j*dilation+x*stride]
			}
			continue
		}
		for x, v := range in[j*dilation:][:w] {
			out[x] += v
		}
	}
}

// sumColumn makes the norms of a line of windows of those sums.
func (g *direct) sumColumn(i int) {
	w, h := g.dst.W, g.dst.H
	out := g.norms[i*w:][:w]
	clear(out)
	stride, dilation := g.p.steps(0)
	for j := range g.k.kh {
		for x, v := range g.rows[(i/h*g.height+i%h*stride+j*dilation)*w:][:w] {
			out[x] += v
		}
	}
	for x, v := range out {
		out[x] = math.Sqrt(v)
	}
}

// expand makes a line of the planes.
func (g *direct) expand(i int) {
	m, c, pad := g.src, g.k.ic, g.k.kh/2
	n, y := i/g.height, i%g.height
	if y%g.stride >= g.phases {
		return // no window reads it
	}
	for ch := range c {
		line := m.data[m.at(n, ch/block, y-pad, -pad):]
		for phase := range g.phases {
			out := g.planes[(n*c+ch)*g.channel()+g.at(y, phase):][:g.phaseWidth]
			some := max(0, (g.width-phase+g.stride-1)/g.stride)
			line := line[min(phase*block+ch%block, len(line)):]
			for x := range out[:some] {
				out[x] = float64(line[x*g.stride*block])
			}
			clear(out[some:])
		}
	}
}

// channel returns how many numbers the planes of a channel have, and at where in them line y
// of those with the columns from phase on begins.
func (g *direct) channel() int { return g.phases * g.phases * g.phaseHeight * g.phaseWidth }
func (g *direct) at(y, phase int) int {
	return ((y%g.stride*g.phases+phase)*g.phaseHeight + y/g.stride) * g.phaseWidth
}

// gather makes V of the pixels of some lines, cut after cut, and in that group after group: of
// each tap the channels.
func (g *direct) gather(s *worker, n, lo, hi int) {
	d, blocks := g.dst, g.src.Blocks()
	step, _ := g.p.steps(1)
	groups := ((hi-lo)*d.W + g.Tiles - 1) / g.Tiles
	s.v = aligned(&s.memory[0], groups*g.weights.terms*g.Tiles)
	for y, at := lo, 0; y < hi; y++ {
		if g.own {
			g.measure(n*d.H + y)
		}
		for x, pixels := 0, 0; x < d.W; x, at = x+pixels, at+pixels {
			pixels = min(g.Tiles-at%g.Tiles, d.W-x)
			for i := range g.cuts {
				first, end := g.cut(i)
				to := (first*groups+at/g.Tiles*(end-first))*blocks*g.Tiles*block + at%g.Tiles*block
				for t := first; t < end; t++ {
					g.Widen(&g.src.data[g.first(n, 0, t, y, x)], g.src.plane*4, step*block*4, &s.v[to], blocks, pixels)
					to += blocks * g.Tiles * block
				}
			}
		}
	}
}

// first returns where a pixel of the result reads a tap of a block of channels.
func (g *direct) first(n, b, t, y, x int) int {
	sy, dy := g.p.steps(0)
	sx, dx := g.p.steps(1)
	return g.src.at(n, b, y*sy+t/g.k.kw*dy-g.p.Pad[0], x*sx+t%g.k.kw*dx-g.p.Pad[1])
}
