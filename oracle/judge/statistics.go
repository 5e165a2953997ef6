package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// region is a way to divide the output: a region for each element, and their names.
type region struct {
	of   func(i int) int
	n    int
	name func(k int) string
}

// mostRegions bounds the regions of one way.
const mostRegions = 1 << 16

// regions returns the ways in which an output of a shape is divided: into all that has one place along
// an axis, into rows along the last axis, and into tiles of the last two.
func regions(shape []int) []region {
	n := 1
	for _, s := range shape {
		n *= s
	}
	all := []region{{func(int) int { return 0 }, 1, func(int) string { return "everywhere" }}}
	inner := n
	for a, s := range shape {
		if s == 0 {
			return nil
		}
		inner /= s
		step := inner
		if s > 1 && s < n && s <= mostRegions {
			all = append(all, region{func(i int) int { return i / step % s }, s, func(k int) string { return fmt.Sprintf("axis %d at %d", a, k) }})
		}
	}
	if len(shape) == 0 {
		return all
	}
	last := shape[len(shape)-1]
	if rows := n / last; len(shape) > 2 && last > 1 && rows <= mostRegions {
		all = append(all, region{func(i int) int { return i / last }, rows, func(k int) string { return fmt.Sprintf("row %v", place(k, shape[:len(shape)-1])) }})
	}
	if len(shape) == 1 {
		for _, tile := range []int{16, 64, 256, 1024} {
			if tile < last {
				all = append(all, region{func(i int) int { return i / tile }, (last + tile - 1) / tile, func(k int) string {
					return fmt.Sprintf("elements %d to %d", k*tile, min(last, (k+1)*tile)-1)
				}})
			}
		}
		return all
	}
	height := shape[len(shape)-2]
	for _, tile := range []int{8, 16, 32, 64, 128} {
		if tile >= last && tile >= height {
			break
		}
		across := (last + tile - 1) / tile
		down := (height + tile - 1) / tile
		if across*down > mostRegions {
			continue
		}
		all = append(all, region{
			func(i int) int { return i/last%height/tile*across + i%last/tile }, across * down,
			func(k int) string {
				r, c := k/across*tile, k%across*tile
				return fmt.Sprintf("the tile of rows %d to %d, columns %d to %d", r, min(height, r+tile)-1, c, min(last, c+tile)-1)
			},
		})
	}
	return all
}

// place is the index of an element.
func place(i int, shape []int) []int {
	at := make([]int, len(shape))
	for a := len(shape) - 1; a >= 0; a-- {
		at[a] = i % shape[a]
		i /= shape[a]
	}
	return at
}

// quantum is what one element's squared error is counted in: what is expected of it, but not less than
// the distance to the next stored number, squared, of which rare errors are one.
func (t *trial) quantum(f fp16.Format, i int) float64 {
	ulp := f.Ulp(t.stored[i])
	if !(ulp > 0) {
		ulp = f.Smallest()
	}
	return max(t.e[i], ulp*ulp)
}

// sigmas is how far the worst region of each way is above what is expected, in deviations.
func (t *trial) sigmas(f fp16.Format, out []float64, by region) (worst float64, at int) {
	x, l := make([]float64, by.n), make([]float64, by.n)
	for i, v := range out {
		d := v - t.stored[i]
		if d-d != 0 {
			continue
		}
		c := t.quantum(f, i)
		k := by.of(i)
		x[k] += d * d / c
		l[k] += t.e[i] / c
	}
	worst = math.Inf(-1)
	for k := range x {
		if s := (x[k] - 1.6*l[k]) / (math.Sqrt(3*l[k]) + 1); s > worst {
			worst, at = s, k
		}
	}
	return worst, at
}

// statistics compares the size of the errors, region by region, with that of simulated right kernels.
// A region fails if it is farther above what is expected than 6 deviations, and than 3 and two and a
// half times the farthest of a right kernel: the errors of a row have one cause, such as its sum's, so
// that regions vary more than numbers would.
func (q *Question) statistics(t *trial) {
	f := q.Output.Format
	for _, by := range regions(q.Output.Shape) {
		limit := 6.0
		for _, k := range t.right {
			s, _ := t.sigmas(f, k, by)
			limit = max(limit, 2.5*s+3)
		}
		s, at := t.sigmas(f, q.Output.Data, by)
		if s/limit > t.excess {
			t.excess = s / limit
			t.region = by.name(at)
		}
	}
	t.lone(q.Output.Data, f)
	var all, expected float64
	for i, v := range q.Output.Data {
		if d := v - t.stored[i]; d-d == 0 {
			c := t.quantum(f, i)
			all += d * d / c
			expected += t.e[i] / c
		}
	}
	switch {
	case expected > 0:
		t.errors = all / expected
	case all > 0:
		t.errors = math.MaxFloat64
	}
}

// lone finds a single element whose error is too large: beyond 8 expected deviations, and one and a half
// times those of right kernels.
func (t *trial) lone(out []float64, f fp16.Format) {
	limit := 64.0
	for _, k := range t.right {
		for i, v := range k {
			if d := v - t.stored[i]; d-d == 0 {
				limit = max(limit, 2.25*d*d/t.quantum(f, i))
			}
		}
	}
	for i, v := range out {
		if d := v - t.stored[i]; d-d == 0 {
			if x := d * d / t.quantum(f, i) / limit; x > t.excess {
				t.excess, t.region = x, fmt.Sprintf("element %d", i)
			}
		}
	}
}
