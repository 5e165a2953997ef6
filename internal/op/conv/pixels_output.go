package conv

import (
	"math"
	"math/bits"
	"slices"
)

// finite reports whether all norms of lines [lo,hi) are.
func (g *direct) finite(n, lo, hi int) bool {
	w := g.dst.W
	for _, v := range g.norms[(n*g.dst.H+lo)*w : (n*g.dst.H+hi)*w] {
		if !(v <= math.MaxFloat64) {
			return false
		}
	}
	return true
}

// finish makes the outputs of a line and a group of channels, of which M begins at m.
func (g *direct) finish(s *worker, m int, finite bool, n, y, o int) {
	d := g.dst
	norms := g.norms[(n*d.H+y)*d.W:][:d.W]
	first, end := o*g.Outputs, min((o+1)*g.Outputs, d.C)
	open := 0
	for c := first; c < end; c += block {
		flags := s.flags[(c-first)/block*d.W:][:d.W]
		g.round(&s.m[m+c-first], &norms[0], &g.weights.tables[c/block*3*block],
			&d.data[d.at(n, c/block, y, 0)], d.W, &flags[0])
		for x, f := range flags {
			switch {
			case !finite && !(norms[x] <= math.MaxFloat64):
				flags[x] = 1<<block - 1
			case f == 0:
				continue
			case norms[x] == 0: // nothing but zeros
				for b := range min(block, d.C-c) {
					d.data[d.at(n, c/block, y, x)+b] = float32(d.Format.Round(g.k.bias[c+b] + 0))
				}
				flags[x] = 0
			}
			open += bits.OnesCount8(flags[x])
		}
	}
	if lanes := d.C % block; !finite && lanes > 0 && end == d.C { // 0 times infinity
		clearLanes(d.data[d.at(n, end/block, y, 0):][:d.W*block], lanes)
	}
	if open == 0 {
		return
	}
	all := g.stride == 1 && g.k.usual(g.p) && many(open, d.W*(end-first))
	for x := 0; x < d.W; x += 4 {
		w := min(4, d.W-x)
		if window := slices.Max(norms[x : x+w]); all && window <= math.MaxFloat64 {
			g.space.anchored.settle(s, d, o, n, y, x, w, window)
			continue
		}
		for c := first; c < end; c += block {
			for i, f := range s.flags[(c-first)/block*d.W+x:][:w] {
				for ; f != 0; f &= f - 1 {
					if o := c + bits.TrailingZeros8(f); o < d.C {
						s.note(d, n, o, y, x+i)
					}
				}
			}
		}
	}
}

// resolve returns an output that the guard left open.
func (g *direct) resolve(s *worker, at, _ place) float64 {
	taps, blocks, bias := g.k.kh*g.k.kw, g.src.Blocks(), g.k.bias[at.o]
	w := g.weights.direct[at.o*blocks*taps*block:][:blocks*taps*block]
	if g.k.usual(g.p) {
		at.y, at.x = at.y*g.stride, at.x*g.stride // in the source
		return s.settle(g.dst.Format, g.src, w, g.k.kh, bias, at)
	}
	s.terms = s.terms[:0]
	for i := range blocks * taps {
		pixel := g.src.data[g.first(at.n, i/taps, i%taps, at.y, at.x):][:block]
		for j, v := range pixel {
			s.terms = append(s.terms, float64(float64(v)*float64(w[i*block+j])))
		}
	}
	return s.exactly(g.dst.Format, bias)
}
