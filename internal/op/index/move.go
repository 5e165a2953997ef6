package index

import (
	"slices"

	"github.com/refrun/refrun/tensor"
)

// maps say where each number of a result lies in a source, axis by axis of the result:
// number (i_0, i_1, ...) is at m[0][i_0] + m[1][i_1] + ..., or outside if one of them is.
// Every operation here that has no index of its own for each number is such a map.
type maps [][]int

// outside stands for a place that the source has not.
const outside = -1

// line returns the places of an axis of size n.
func line(n int, at func(i int) int) []int {
	of := make([]int, n)
	for i := range of {
		of[i] = at(i)
	}
	return of
}

// strides returns how far neighbours along each axis lie apart.
func strides(shape []int) []int {
	of := make([]int, len(shape))
	step := 1
	for a := len(shape) - 1; a >= 0; a-- {
		of[a] = step
		step *= shape[a]
	}
	return of
}

// straight reports whether places lie so far apart.
func straight(of []int, step int) bool {
	for i, at := range of {
		if at == outside || at != of[0]+i*step {
			return false
		}
	}
	return true
}

// at returns the place of number i of the axes, and whether it is in the source.
func (m maps) at(i int) (place int, inside bool) {
	inside = true
	for a := len(m) - 1; a >= 0; a-- {
		n := len(m[a])
		p := m[a][i%n]
		i /= n
		inside = inside && p != outside
		place += p
	}
	return place, inside
}

// move sets dst to what a map takes from src, and to fill where that is outside. dst must
// not be empty.
func (m maps) move(dst, src *tensor.Tensor, fill float64) { m.runs(dst, src, fill, 1) }

// runs is move for places of so many numbers, one after the other.
func (m maps) runs(dst, src *tensor.Tensor, fill float64, run int) {
	fill = dst.Format.Round(fill)
	// The last axes, as far as they are in src as they are in dst, are moved as runs.
	first := 0
	for len(m) > 0 && straight(m[len(m)-1], run) {
		of := m[len(m)-1]
		first += of[0]
		run *= len(of)
		m = m[:len(m)-1]
	}
	parts := 1 // of a long run, for several processors
	for ; run%2 == 0 && run > 1<<14; run /= 2 {
		parts *= 2
	}
	if parts > 1 {
		m = append(slices.Clip(m), line(parts, func(i int) int { return i * run }))
	}
	inner, outer := []int{0}, maps(nil)
	if len(m) > 0 {
		inner, outer = m[len(m)-1], m[:len(m)-1]
	}
	whole := !slices.Contains(inner, outside)
	cells := len(dst.Data) / run
	pieces(cells, run, func(lo, hi int) {
		for c := lo; c < hi; {
			from, inside := outer.at(c / len(inner))
			if run == 1 && inside && whole {
				some := inner[c%len(inner):]
				some = some[:min(len(some), hi-c)]
				line, to := src.Data[first+from:], dst.Data[c:][:len(some)]
				for i, at := range some {
					to[i] = line[at]
				}
				c += len(some)
				continue
			}
			for _, at := range inner[c%len(inner):] {
				if c == hi {
					break
				}
				to := dst.Data[c*run : (c+1)*run]
				switch {
				case !inside || at == outside:
					for i := range to {
						to[i] = fill
					}
				case run == 1:
					to[0] = src.Data[first+from+at]
				default:
					copy(to, src.Data[first+from+at:])
				}
				c++
			}
		}
		round(dst.Format, src.Format, dst.Data[lo*run:hi*run])
	})
}
