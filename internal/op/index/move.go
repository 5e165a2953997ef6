package index

import (
	"slices"

	"github.com/refrun/refrun/tensor"
)

// maps say where each number of a result lies in a source, axis by axis of the result:
// number (i_0, i_1, ...) is at m[0].of(i_0) + m[1].of(i_1) + ..., or outside if one of them is.
// Every operation here that has no index of its own for each number is such a map.
type maps []places

// places are those of an axis of size n: first, and so many steps from there, or what at says, if it is not nil.
type places struct {
	n, first, step int
	at             []int
}

// outside stands for a place that the source has not.
const outside = -1

// of returns place i.
func (p *places) of(i int) int {
	if p.at != nil {
		return p.at[i]
	}
	return p.first + i*p.step
}

// even returns n places that lie so far apart, from 0 on.
func even(n, step int) places { return places{n: n, step: step} }

// line returns the places of an axis of size n.
func line(n int, at func(i int) int) places {
	of := make([]int, n)
	for i := range of {
		of[i] = at(i)
	}
	return places{n: n, at: of}
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

// row returns how many places from i on, most at most, lie side by side, as a table says.
func (p *places) row(i, most int) int {
	if p.at == nil {
		return 1
	}
	n := 1
	for of := p.at[i:]; n < most && of[n] == of[0]+n; n++ {
	}
	return n
}

// straight reports whether places lie so far apart.
func (p *places) straight(step int) bool {
	if p.at == nil {
		return p.n == 1 || p.step == step
	}
	for i, at := range p.at {
		if at == outside || at != p.at[0]+i*step {
			return false
		}
	}
	return true
}

// at returns the place of number i of the axes, and whether it is in the source.
func (m maps) at(i int) (place int, inside bool) {
	inside = true
	for a := len(m) - 1; a >= 0; a-- {
		p := m[a].of(i % m[a].n)
		i /= m[a].n
		inside = inside && (p != outside || m[a].at == nil)
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
	first := 0
	m = slices.DeleteFunc(slices.Clone(m), func(p places) bool {
		if p.n == 1 && p.at == nil {
			first += p.first
		}
		return p.n == 1 && p.at == nil
	})
	// The last axes, as far as they are in src as they are in dst, are moved as runs.
	for len(m) > 0 && m[len(m)-1].straight(run) {
		first += m[len(m)-1].of(0)
		run *= m[len(m)-1].n
		m = m[:len(m)-1]
	}
	parts := 1 // of a long run, for several processors
	for ; run%2 == 0 && run > 1<<14; run /= 2 {
		parts *= 2
	}
	if parts > 1 {
		m = append(slices.Clip(m), even(parts, run))
	}
	inner, outer := even(1, 0), maps(nil)
	if len(m) > 0 {
		inner, outer = m[len(m)-1], m[:len(m)-1]
	}
	cells := len(dst.Data) / run
	pieces(cells, run, func(lo, hi int) {
		for c := lo; c < hi; {
			if n := m.turned(dst.Data[c*run:hi*run], src.Data[first:], c, run); n > 0 {
				c += n
				continue
			}
			from, inside := outer.at(c / inner.n)
			for i := c % inner.n; i < inner.n && c < hi; i++ {
				at := inner.of(i)
				switch {
				case !inside || at == outside && inner.at != nil:
					for i := range run {
						dst.Data[c*run+i] = fill
					}
				case run == 1:
					dst.Data[c] = src.Data[first+from+at]
					if more := inner.row(i, min(hi-c, inner.n-i)); more > 1 { // such as a frame of a signal
						copy(dst.Data[c:c+more], src.Data[first+from+at:])
						i, c = i+more-1, c+more-1
					}
				default:
					copy(dst.Data[c*run:(c+1)*run], src.Data[first+from+at:])
				}
				c++
			}
		}
		round(dst.Format, src.Format, dst.Data[lo*run:hi*run])
	})
}

// Lines of a matrix and its columns that are turned together: what is read and what is written should stay in a
// processor's own cache.
const turnedLines, turnedColumns = 64, 16

// turned sets dst, from number c of a result on, to lines of the matrix of its last two axes, and returns how many
// numbers these are: none where dst does not begin with a line or has not all of one, or places are uneven.
func (m maps) turned(dst, src []float64, c, run int) int {
	if run > 1 || len(m) == 0 {
		return 0
	}
	line, column, outer := even(1, 0), m[len(m)-1], m[:len(m)-1]
	if len(outer) > 0 {
		line, outer = m[len(m)-2], m[:len(m)-2]
	}
	n := column.n
	if line.at != nil || column.at != nil || c%n != 0 || len(dst) < n {
		return 0
	}
	from, inside := outer.at(c / n / line.n)
	if !inside {
		return 0
	}
	at := c / n % line.n
	lines := min(line.n-at, len(dst)/n, turnedLines)
	from += line.of(at) + column.first
	for i := 0; i < n; i += turnedColumns {
		for j := i; j < min(i+turnedColumns, n); j++ {
			place := from + j*column.step
			for k := range lines {
				dst[k*n+j] = src[place+k*line.step]
			}
		}
	}
	return lines * n
}
