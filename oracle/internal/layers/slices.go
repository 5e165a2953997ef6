package layers

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/tensor"
)

// figures are what the statistics of a layer are made of, element by element.
type figures struct {
	flips  []float64 // 1 if it is not the rounded exact value
	chance []float64 // of that, at most, on a right device
	z2     []float64 // squared error over its expected variance
	most   []float64 // what that is on average, at most, but for
	inner  []float64 // the chance that a rounding before the last one goes otherwise,
	jump   []float64 // and what that makes of z2
	tail   []float64 // what z2 may be at one element, whose sum is hardly rounded
	alike  []float64 // how many elements flip together; nil for one each
}

func newFigures(n int) *figures {
	v := make([]float64, 7*n)
	return &figures{v[:n:n], v[n : 2*n : 2*n], v[2*n : 3*n : 3*n], v[3*n : 4*n : 4*n], v[4*n : 5*n : 5*n], v[5*n : 6*n : 6*n], v[6*n:], nil}
}

// A slice is a part of a layer in which a fault may sit, with the sums of its
// elements' figures, and the largest jump and tail.
type slice struct {
	name                                 string
	n                                    int
	flips, chance, z2, most, inner, jump float64
	tail                                 float64
	chances, inners                      float64 // sums of chance and inner, each times alike
}

func (s *slice) add(f *figures, k int) {
	s.n++
	s.flips += f.flips[k]
	s.chance += f.chance[k]
	s.z2 += f.z2[k]
	s.most += f.most[k]
	s.inner += f.inner[k]
	s.jump = max(s.jump, f.jump[k])
	s.tail = max(s.tail, f.tail[k])
	same := 1.0
	if f.alike != nil {
		same = f.alike[k]
	}
	s.chances += float64(f.chance[k] * same)
	s.inners += float64(f.inner[k] * same)
}

// whole is the slice of all elements.
func (f *figures) whole() slice {
	var s slice
	for k := range f.flips {
		s.add(f, k)
	}
	return s
}

// atMost is the number of rare events of that expectation that no slice exceeds. They
// come by groups; grouped is the sum of each one's chance times the size of its group,
// their variance.
func atMost(expected, grouped, factor, offset float64) float64 {
	size := 1.0
	if expected > 0 {
		size = grouped / expected
	}
	return expected + float64(factor*math.Sqrt(grouped)) + float64(offset*size)
}

func (s *slice) flipLimit(factor, offset float64) float64 {
	return atMost(s.chance, s.chances, factor, offset)
}

// excess is the larger of the slice's two figures over its limit.
func (s *slice) excess(factor, offset float64) float64 {
	over := s.flips / s.flipLimit(factor, offset)
	limit := s.most + s.tail
	if s.inner > 0 {
		limit += float64(atMost(s.inner, s.inners, factor, offset) * s.jump)
	}
	switch {
	case limit > 0:
		over = max(over, s.z2/limit)
	case s.z2 > 0:
		over = math.Inf(1)
	}
	return over
}

// slicesOf returns the slices of a layer: samples, channels, rows and columns,
// rows and columns by their place in tiles of 8, 16 and 32, the ring along the
// border, tiles of 8x8, and every channel of every sample.
func slicesOf(x *tensor.Tensor, f *figures) []slice {
	var all []slice
	// by adds the slices numbered 0 to n-1 that a pixel (i, c, y, x) is of.
	by := func(n int, name func(k int) string, of func(i, c, y, x int) int) {
		if n < 2 {
			return
		}
		at := len(all)
		for k := range n {
			all = append(all, slice{name: name(k)})
		}
		part := all[at:]
		k := 0
		for i := range x.N() {
			for c := range x.C() {
				for y := range x.H() {
					for w := range x.W() {
						if j := of(i, c, y, w); j >= 0 {
							part[j].add(f, k)
						}
						k++
					}
				}
			}
		}
	}
	named := func(what string) func(int) string {
		return func(k int) string { return fmt.Sprintf("%s %d", what, k) }
	}
	by(x.N(), named("sample"), func(i, _, _, _ int) int { return i })
	by(x.C(), named("channel"), func(_, c, _, _ int) int { return c })
	by(x.H(), named("row"), func(_, _, y, _ int) int { return y })
	by(x.W(), named("column"), func(_, _, _, w int) int { return w })
	for _, tile := range []int{8, 16, 32} {
		if x.H() >= 2*tile {
			by(tile, named(fmt.Sprintf("h mod %d =", tile)), func(_, _, y, _ int) int { return y % tile })
		}
		if x.W() >= 2*tile {
			by(tile, named(fmt.Sprintf("w mod %d =", tile)), func(_, _, _, w int) int { return w % tile })
		}
	}
	if min(x.H(), x.W()) > 4 {
		by(2, func(k int) string { return [2]string{"interior", "border"}[k] }, func(_, _, y, w int) int {
			if min(y, x.H()-1-y, w, x.W()-1-w) == 0 {
				return 1
			}
			return 0
		})
	}
	th, tw := (x.H()+7)/8, (x.W()+7)/8
	by(th*tw, func(k int) string { return fmt.Sprintf("tile (%d,%d) of 8x8", k/tw, k%tw) }, func(_, _, y, w int) int { return y/8*tw + w/8 })
	if x.N() > 1 {
		by(x.N()*x.C(), func(k int) string { return fmt.Sprintf("sample %d, channel %d", k/x.C(), k%x.C()) }, func(i, c, _, _ int) int { return i*x.C() + c })
	}
	return all
}
