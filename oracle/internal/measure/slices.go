package measure

import (
	"fmt"
	"slices"
)

// Size returns the numbers of a window, a spot or a peak.
func (s *Cuts) Size(k SliceKind) float64 {
	side := map[SliceKind]int{InWindow: 8, InSpot: 3, InPeak: 1}[k]
	side = min(side, s.H, s.W)
	if k == InWindow {
		return float64(side * side * s.C)
	}
	return float64(side * side)
}

// Place names the window, spot or number that begins at an element.
func (s *Cuts) Place(k SliceKind, at, lo int) string {
	x, y, p := at%s.W, at/s.W%s.H, at/(s.W*s.H)
	switch k {
	case InWindow:
		return fmt.Sprintf("tile of %dx%d at (%d,%d) of realization %d", min(8, s.H), min(8, s.W), y, x, lo+p/s.C)
	case InSpot:
		return fmt.Sprintf("%dx%d pixels at (%d,%d) of channel %d of realization %d",
			min(3, s.H), min(3, s.W), y, x, p%s.C, lo+p/s.C)
	}
	return fmt.Sprintf("element (%d,%d) of channel %d of realization %d", y, x, p%s.C, lo+p/s.C)
}

// SliceKind is a way of cutting states [N,C,H,W] into cuts in which a fault may
// show: of which a step has a few hundred.
type SliceKind uint8

const (
	InAll       SliceKind = iota // everything
	InSample                     // a realization
	InChannel                    // a channel, of all realizations
	InPlane                      // a channel of a realization
	InRow                        // h, of all images
	InColumn                     // w, of all images
	InRowMod                     // h mod 8, 16, 32: the rows of tiles
	InColumnMod                  // w mod 8, 16, 32
	InRing                       // the outermost pixels
	InWindow                     // 8x8 pixels of a realization, all channels
	InSpot                       // 3x3 pixels of one plane
	InPeak                       // one number
	Kinds
)

// Tally holds sums over the cuts of one sliceKind.
type Tally struct {
	Squares []float64 // of r
	gain    []float64 // of g^2 - e^2, the errors of the device and of the emulation
	Count   []float64
}

// Cuts are the sums over all cuts of one step, and the places of the
// largest of the small ones.
type Cuts struct {
	N, C, H, W int
	Of         [InWindow]Tally
	// The largest mean square of r over a window, a spot and one number, for
	// each realization, and where it is.
	Most [Kinds][]float64
	At   [Kinds][]int // index of the first element
	bias []float64    // sum of r over each plane
	// Lines are the mean squares of the lines that were taken from r, of each group that is normalized: see [LevelOut].
	Lines []float64
}

var periods = [...]int{8, 16, 32}

func newCuts(n, c, h, w int) *Cuts {
	s := &Cuts{N: n, C: c, H: h, W: w, bias: make([]float64, n*c)}
	for k, size := range s.sizes() {
		s.Of[k] = Tally{make([]float64, size), make([]float64, size), make([]float64, size)}
	}
	for k := InWindow; k < Kinds; k++ {
		s.Most[k], s.At[k] = make([]float64, n), make([]int, n)
	}
	return s
}

func (s *Cuts) sizes() [InWindow]int {
	return [InWindow]int{InAll: 1, InSample: s.N, InChannel: s.C, InPlane: s.N * s.C, InRow: s.H, InColumn: s.W,
		InRowMod: modulo(s.H), InColumnMod: modulo(s.W), InRing: 1}
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

// Name names slice i of a sliceKind.
func (s *Cuts) Name(k SliceKind, i int) string {
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
	case InSample:
		return fmt.Sprintf("realization %d", i)
	case InChannel:
		return fmt.Sprintf("channel %d", i)
	case InPlane:
		return fmt.Sprintf("channel %d of realization %d", i%s.C, i/s.C)
	case InRow:
		return fmt.Sprintf("row %d", i)
	case InColumn:
		return fmt.Sprintf("column %d", i)
	case InRowMod:
		return mod("h")
	case InColumnMod:
		return mod("w")
	case InRing:
		return "border"
	}
	return ""
}

// Cut sums over the cuts of a step. r is what the device differs by from
// what it is held against; g and e are the errors of the device and of its
// emulation against float64, both nil where there is no emulation; all in
// units of the expected deviation. A NaN in r is left out.
func Cut(n, c, h, w int, r, g, e []float64) *Cuts {
	s := newCuts(n, c, h, w)
	rows, columns := newTally(h), newTally(w)
	rim := &s.Of[InRing]
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
				if q > s.Most[InPeak][p/c] {
					s.Most[InPeak][p/c], s.At[InPeak][p/c] = q, k
				}
			}
			rows.add(y, squares, gain, count)
			total.add(0, squares, gain, count)
		}
		q, d, m := total.Squares[0], total.gain[0], total.Count[0]
		s.Of[InPlane].add(p, q, d, m)
		s.Of[InChannel].add(p%c, q, d, m)
		s.Of[InSample].add(p/c, q, d, m)
		s.Of[InAll].add(0, q, d, m)
	}
	s.Of[InRow], s.Of[InColumn] = rows, columns
	s.residues(&s.Of[InRowMod], rows, h)
	s.residues(&s.Of[InColumnMod], columns, w)
	s.windows(r)
	return s
}

func newTally(n int) Tally {
	return Tally{make([]float64, n), make([]float64, n), make([]float64, n)}
}

func (t *Tally) add(i int, squares, gain, count float64) {
	t.Squares[i] += squares
	t.gain[i] += gain
	t.Count[i] += count
}

// residues folds the sums along an axis.
func (s *Cuts) residues(to *Tally, from Tally, n int) {
	at := 0
	for _, p := range periods {
		if 2*p > n {
			continue
		}
		for i := range n {
			to.add(at+i%p, from.Squares[i], from.gain[i], from.Count[i])
		}
		at += p
	}
}

// windows finds the largest windows and spots.
func (s *Cuts) windows(r []float64) {
	h, w := s.H, s.W
	sum := make([]float64, (h+1)*(w+1)) // of all above and left of a pixel
	largest := func(i, first, size int, k SliceKind, images int) {
		size = min(size, h, w)
		step := max(size/2, 1)
		for y := 0; y+size <= h; y = nextStart(y, step, h-size) {
			for x := 0; x+size <= w; x = nextStart(x, step, w-size) {
				q := sum[(y+size)*(w+1)+x+size] - sum[y*(w+1)+x+size] - sum[(y+size)*(w+1)+x] + sum[y*(w+1)+x]
				if q /= float64(size * size * images); q > s.Most[k][i] {
					s.Most[k][i], s.At[k][i] = q, first+y*w+x
				}
			}
		}
	}
	all := make([]float64, h*w)
	for i := range s.N {
		clear(all)
		for c := range s.C {
			p := i*s.C + c
			one := r[p*h*w : (p+1)*h*w]
			for k, v := range one {
				if v == v {
					all[k] += float64(v * v)
				}
			}
			integrate(sum, one, h, w, true)
			largest(i, p*h*w, 3, InSpot, 1)
		}
		integrate(sum, all, h, w, false)
		largest(i, i*s.C*h*w, 8, InWindow, s.C)
	}
}

// nextStart returns the next position, the last one included; beyond it one more.
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

// Concentrated returns the largest share of the squares that lies in an eighth
// or less of the numbers: in rows, columns, planes, or one place.
func (s *Cuts) Concentrated() float64 {
	total := s.Of[InAll].Squares[0]
	if !(total > 0) {
		return 0
	}
	most := 0.0
	for _, k := range []SliceKind{InPlane, InRow, InColumn} {
		v := append([]float64(nil), s.Of[k].Squares...)
		slices.Sort(v)
		sum := 0.0
		for i := range max(1, len(v)/8) {
			sum += v[len(v)-1-i]
		}
		if len(v) >= 4 {
			most = max(most, sum/total)
		}
	}
	side := float64(min(8, s.H) * min(8, s.W) * s.C)
	for _, q := range s.Most[InWindow] {
		if 8*side <= s.Of[InAll].Count[0] {
			most = max(most, q*side/total)
		}
	}
	for _, q := range s.Most[InPeak] {
		most = max(most, q/total)
	}
	return most
}

// Local reports whether most of the squared error lies in a few rows, columns, planes, tiles or numbers, or all of it
// in one realization of several.
func (s *Cuts) Local() bool {
	total := s.Of[InAll].Squares[0]
	return s.Concentrated() > 0.5 || s.N > 1 && total > 0 && slices.ContainsFunc(s.Of[InSample].Squares,
		func(q float64) bool { return q > 0.95*total })
}

// Home names the smallest slice in which most of the squares lie, "" if they
// are everywhere.
func (s *Cuts) Home(lo int) string {
	total := s.Of[InAll].Squares[0]
	if !(total > 0) {
		return ""
	}
	const most = 0.6
	for _, k := range []SliceKind{InPeak, InSpot, InWindow} {
		for i, q := range s.Most[k] {
			if share := q * s.Size(k) / total; share > most && s.Size(k) < most/2*s.Of[InAll].Count[0] {
				return s.Place(k, s.At[k][i], lo)
			}
		}
	}
	for _, k := range []SliceKind{InRow, InColumn, InRing, InPlane, InRowMod, InColumnMod, InSample, InChannel} {
		t := &s.Of[k]
		for i, q := range t.Squares {
			if q > most*total && t.Count[i] < most/2*s.Of[InAll].Count[0] || k == InSample && s.N > 1 && q > 0.95*total {
				return s.Name(k, i)
			}
		}
	}
	return ""
}
