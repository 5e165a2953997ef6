package conv

import (
	"encoding/binary"
	"math"
	"math/bits"
)

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
			g.OutputColumns[g.format](&s.y[place], 4*g.yColumn*8, g.yColumn*8, s.k[at], &g.weights.tables[table],
				&d.data[to], d.line*4, &s.flags[flags])
		} else {
			g.Output[g.format](&s.m[place], g.mPoint*8, s.k[at], &g.weights.tables[table], &d.data[to], d.line*4,
				&s.flags[flags], &s.t[0])
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
	g.Dot(&g.src.data[g.corner(at.n, at.y, at.x)], &g.src.data[g.corner(next.n, next.y, next.x)], g.src.line*4,
		g.src.plane*4, &w[0], g.blocks, out)
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
