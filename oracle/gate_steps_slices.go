package oracle

import (
	"fmt"
	"slices"
)

// sliceKind is a way of cutting states [N,C,H,W] into cuts in which a fault may
// show: of which a step has a few hundred.
type sliceKind uint8

const (
	inAll       sliceKind = iota // everything
	inSample                     // a realization
	inChannel                    // a channel, of all realizations
	inPlane                      // a channel of a realization
	inRow                        // h, of all images
	inColumn                     // w, of all images
	inRowMod                     // h mod 8, 16, 32: the rows of tiles
	inColumnMod                  // w mod 8, 16, 32
	inRing                       // the outermost pixels
	inWindow                     // 8x8 pixels of a realization, all channels
	inSpot                       // 3x3 pixels of one plane
	inPeak                       // one number
	kinds
)

// tally holds sums over the cuts of one sliceKind.
type tally struct {
	squares []float64 // of r
	gain    []float64 // of g^2 - e^2, the errors of the device and of the emulation
	count   []float64
}

// cuts are the sums over all cuts of one step, and the places of the
// largest of the small ones.
type cuts struct {
	n, c, h, w int
	of         [inWindow]tally
	// The largest mean square of r over a window, a spot and one number, for
	// each realization, and where it is.
	most [kinds][]float64
	at   [kinds][]int // index of the first element
	bias []float64    // sum of r over each plane
}

var periods = [...]int{8, 16, 32}

func newCuts(n, c, h, w int) *cuts {
	s := &cuts{n: n, c: c, h: h, w: w, bias: make([]float64, n*c)}
	for k, size := range s.sizes() {
		s.of[k] = tally{make([]float64, size), make([]float64, size), make([]float64, size)}
	}
	for k := inWindow; k < kinds; k++ {
		s.most[k], s.at[k] = make([]float64, n), make([]int, n)
	}
	return s
}

func (s *cuts) sizes() [inWindow]int {
	return [inWindow]int{inAll: 1, inSample: s.n, inChannel: s.c, inPlane: s.n * s.c, inRow: s.h, inColumn: s.w,
		inRowMod: modulo(s.h), inColumnMod: modulo(s.w), inRing: 1}
}

// modulo returns the number of residues of an axis of that length modulo the
// periods that fit into it more than once.
func modulo(n int) (sum int) {
	for _, p := range periods {
		if 2*p <= n {
			sum += p
		}
	}
	return sum
}

// name names slice i of a sliceKind.
func (s *cuts) name(k sliceKind, i int) string {
	mod := func(axis string) string {
		for _, p := range periods {
			if i < p {
				return fmt.Sprintf("%s mod %d = %d", axis, p, i)
			}
			i -= p
		}
		return ""
	}
	switch k {
	case inSample:
		return fmt.Sprintf("realization %d", i)
	case inChannel:
		return fmt.Sprintf("channel %d", i)
	case inPlane:
		return fmt.Sprintf("channel %d of realization %d", i%s.c, i/s.c)
	case inRow:
		return fmt.Sprintf("row %d", i)
	case inColumn:
		return fmt.Sprintf("column %d", i)
	case inRowMod:
		return mod("h")
	case inColumnMod:
		return mod("w")
	case inRing:
		return "border"
	}
	return ""
}

// cut sums over the cuts of a step. r is what the device differs by from
// what it is held against; g and e are the errors of the device and of its
// emulation against float64, both nil where there is no emulation; all in
// units of the expected deviation. A NaN in r is left out.
func cut(n, c, h, w int, r, g, e []float64) *cuts {
	s := newCuts(n, c, h, w)
	rows, columns := newTally(h), newTally(w)
	rim := &s.of[inRing]
	for p := range n * c {
		total := newTally(1)
		for y := range h {
			var squares, gain, count float64
			for x := range w {
				k := (p*h+y)*w + x
				v := r[k]
				if v != v {
					continue
				}
				q, d := float64(v*v), 0.0
				if g != nil {
					d = float64(g[k]*g[k]) - float64(e[k]*e[k])
				}
				s.bias[p] += v
				squares, gain, count = squares+q, gain+d, count+1
				columns.add(x, q, d, 1)
				if y == 0 || y == h-1 || x == 0 || x == w-1 {
					rim.add(0, q, d, 1)
				}
				if q > s.most[inPeak][p/c] {
					s.most[inPeak][p/c], s.at[inPeak][p/c] = q, k
				}
			}
			rows.add(y, squares, gain, count)
			total.add(0, squares, gain, count)
		}
		q, d, m := total.squares[0], total.gain[0], total.count[0]
		s.of[inPlane].add(p, q, d, m)
		s.of[inChannel].add(p%c, q, d, m)
		s.of[inSample].add(p/c, q, d, m)
		s.of[inAll].add(0, q, d, m)
	}
	s.of[inRow], s.of[inColumn] = rows, columns
	s.residues(&s.of[inRowMod], rows, h)
	s.residues(&s.of[inColumnMod], columns, w)
	s.windows(r)
	return s
}

func newTally(n int) tally {
	return tally{make([]float64, n), make([]float64, n), make([]float64, n)}
}

func (t *tally) add(i int, squares, gain, count float64) {
	t.squares[i] += squares
	t.gain[i] += gain
	t.count[i] += count
}

// residues folds the sums along an axis.
func (s *cuts) residues(to *tally, from tally, n int) {
	at := 0
	for _, p := range periods {
		if 2*p > n {
			continue
		}
		for i := range n {
			to.add(at+i%p, from.squares[i], from.gain[i], from.count[i])
		}
		at += p
	}
}

// windows finds the largest windows and spots.
func (s *cuts) windows(r []float64) {
	h, w := s.h, s.w
	sum := make([]float64, (h+1)*(w+1)) // of all above and left of a pixel
	largest := func(i, first, size int, k sliceKind, images int) {
		size = min(size, h, w)
		step := max(size/2, 1)
		for y := 0; y+size <= h; y = nextStart(y, step, h-size) {
			for x := 0; x+size <= w; x = nextStart(x, step, w-size) {
				q := sum[(y+size)*(w+1)+x+size] - sum[y*(w+1)+x+size] - sum[(y+size)*(w+1)+x] + sum[y*(w+1)+x]
				if q /= float64(size * size * images); q > s.most[k][i] {
					s.most[k][i], s.at[k][i] = q, first+y*w+x
				}
			}
		}
	}
	all := make([]float64, h*w)
	for i := range s.n {
		clear(all)
		for c := range s.c {
			p := i*s.c + c
			one := r[p*h*w : (p+1)*h*w]
			for k, v := range one {
				if v == v {
					all[k] += float64(v * v)
				}
			}
			integrate(sum, one, h, w, true)
			largest(i, p*h*w, 3, inSpot, 1)
		}
		integrate(sum, all, h, w, false)
		largest(i, i*s.c*h*w, 8, inWindow, s.c)
	}
}

// next returns the next position, the last one included; beyond it one more.
func nextStart(at, step, last int) int {
	if at < last {
		return min(at+step, last)
	}
	return last + 1
}

// integrate sets sum[y,x] to the sum of v, or of its squares, over all pixels
// above y and left of x.
func integrate(sum, v []float64, h, w int, square bool) {
	for y := range h {
		line := 0.0
		for x := range w {
			q := v[y*w+x]
			if square {
				if q != q {
					q = 0
				}
				q = float64(q * q)
			}
			line += q
			sum[(y+1)*(w+1)+x+1] = sum[y*(w+1)+x+1] + line
		}
	}
}

// mean returns the mean square of r over slice i of a sliceKind, 0 for none.
func (t *tally) mean(i int) float64 {
	if t.count[i] == 0 {
		return 0
	}
	return t.squares[i] / t.count[i]
}

// excess returns the mean of g^2 - e^2 over slice i.
func (t *tally) excess(i int) float64 {
	if t.count[i] == 0 {
		return 0
	}
	return t.gain[i] / t.count[i]
}

// concentrated returns the largest share of the squares that lies in an eighth
// or less of the numbers: in rows, columns, planes, or one place.
func (s *cuts) concentrated() float64 {
	total := s.of[inAll].squares[0]
	if !(total > 0) {
		return 0
	}
	most := 0.0
	for _, k := range []sliceKind{inPlane, inRow, inColumn} {
		v := append([]float64(nil), s.of[k].squares...)
		slices.Sort(v)
		sum := 0.0
		for i := range max(1, len(v)/8) {
			sum += v[len(v)-1-i]
		}
		if len(v) >= 4 {
			most = max(most, sum/total)
		}
	}
	side := float64(min(8, s.h) * min(8, s.w) * s.c)
	for _, q := range s.most[inWindow] {
		if 8*side <= s.of[inAll].count[0] {
			most = max(most, q*side/total)
		}
	}
	for _, q := range s.most[inPeak] {
		most = max(most, q/total)
	}
	return most
}

// home names the smallest slice in which most of the squares lie, "" if they
// are everywhere.
func (s *cuts) home(lo int) string {
	total := s.of[inAll].squares[0]
	if !(total > 0) {
		return ""
	}
	const most = 0.6
	for _, k := range []sliceKind{inPeak, inSpot, inWindow} {
		for i, q := range s.most[k] {
			if share := q * s.size(k) / total; share > most && s.size(k) < most/2*s.of[inAll].count[0] {
				return s.place(k, s.at[k][i], lo)
			}
		}
	}
	for _, k := range []sliceKind{inRow, inColumn, inRing, inPlane, inRowMod, inColumnMod, inSample, inChannel} {
		t := &s.of[k]
		for i, q := range t.squares {
			if q > most*total && t.count[i] < most/2*s.of[inAll].count[0] || k == inSample && s.n > 1 && q > 0.95*total {
				return s.name(k, i)
			}
		}
	}
	return ""
}
