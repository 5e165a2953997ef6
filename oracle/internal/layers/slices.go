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
	return &figures{v[:n:n], v[n : 2*n : 2*n], v[2*n : 3*n : 3*n], v[3*n : 4*n : 4*n], v[4*n : 5*n : 5*n],
		v[5*n : 6*n : 6*n], v[6*n:], nil}
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

// join adds the elements of another slice.
func (s *slice) join(t *slice) {
	s.n += t.n
	s.flips += t.flips
	s.chance += t.chance
	s.z2 += t.z2
	s.most += t.most
	s.inner += t.inner
	s.jump = max(s.jump, t.jump)
	s.tail = max(s.tail, t.tail)
	s.chances += t.chances
	s.inners += t.inners
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
//
// Each is a union of planes, or of pixels in all planes, and the sum of theirs.
func slicesOf(x *tensor.Tensor, f *figures) []slice {
	planes, pixels := make([]slice, x.N()*x.C()), make([]slice, x.H()*x.W())
	for k := range f.flips {
		planes[k/len(pixels)].add(f, k)
		pixels[k%len(pixels)].add(f, k)
	}
	var all []slice
	// by adds the slices numbered 0 to n-1 that those parts are of.
	by := func(parts []slice, n int, name func(k int) string, of func(k int) int) {
		if n < 2 {
			return
		}
		at := len(all)
		for k := range n {
			all = append(all, slice{name: name(k)})
		}
		for k := range parts {
			all[at+of(k)].join(&parts[k])
		}
	}
	named := func(what string) func(int) string {
		return func(k int) string { return fmt.Sprintf("%s %d", what, k) }
	}
	c, h, w := x.C(), x.H(), x.W()
	by(planes, x.N(), named("sample"), func(k int) int { return k / c })
	by(planes, c, named("channel"), func(k int) int { return k % c })
	by(pixels, h, named("row"), func(k int) int { return k / w })
	by(pixels, w, named("column"), func(k int) int { return k % w })
	for _, tile := range []int{8, 16, 32} {
		if h >= 2*tile {
			by(pixels, tile, named(fmt.Sprintf("h mod %d =", tile)), func(k int) int { return k / w % tile })
		}
		if w >= 2*tile {
			by(pixels, tile, named(fmt.Sprintf("w mod %d =", tile)), func(k int) int { return k % w % tile })
		}
	}
	if min(h, w) > 4 {
		by(pixels, 2, func(k int) string { return [2]string{"interior", "border"}[k] }, func(k int) int {
			if y, x := k/w, k%w; min(y, h-1-y, x, w-1-x) == 0 {
				return 1
			}
			return 0
		})
	}
	th, tw := (h+7)/8, (w+7)/8
	by(pixels, th*tw, func(k int) string { return fmt.Sprintf("tile (%d,%d) of 8x8", k/tw, k%tw) },
		func(k int) int { return k/w/8*tw + k%w/8 })
	if x.N() > 1 {
		by(planes, len(planes), func(k int) string { return fmt.Sprintf("sample %d, channel %d", k/c, k%c) },
			func(k int) int { return k })
	}
	return all
}
