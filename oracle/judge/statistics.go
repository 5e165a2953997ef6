package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// region is a way to divide the output: a region for each element, and their names.
type region struct {
	way  string
	of   func(i int) int
	n    int
	name func(k int) string
}

// farthest is how far errors are above what is expected, where they are the farthest of all regions of one
// way: the output's, and those of simulated right kernels.
type farthest struct {
	of    float64
	at    string
	right float64
	usual float64 // the mean of right kernels' and mostUsual deviations of them; 0 if it is not known
}

// mostUsual is how many deviations of right kernels' farthest are usual. A row's errors have one cause, and so
// 30 rows are not as many errors as they have numbers.
const mostUsual = 5

// ways are the farthest of each way to divide an output; those of pieces join.
type ways map[string]farthest

func (w ways) add(p ways) {
	for way, f := range p {
		all, is := w[way]
		if !is {
			w[way] = f
			continue
		}
		if f.of > all.of {
			all.of, all.at = f.of, f.at
		}
		all.right, all.usual = max(all.right, f.right), max(all.usual, f.usual)
		w[way] = all
	}
}

// excess is the farthest of all over its limit, and where. A region fails if it is farther above what is
// expected than 6 deviations, than 3 and two and a half times the farthest of a right kernel, and than usual: the
// errors of a row have one cause, such as its sum's, so that regions vary more than numbers would. A single
// element fails beyond 8 expected deviations, than usual, and one and a half times those of right kernels.
func (w ways) excess() (excess float64, at string) {
	for _, way := range slices.Sorted(maps.Keys(w)) {
		f := w[way]
		if x := f.of / f.limit(way); x > excess {
			excess, at = x, f.at
		}
	}
	return excess, at
}

// limit is how far a right kernel's farthest may be.
func (f farthest) limit(way string) float64 {
	if way == lone {
		return max(64, 2.25*f.right, f.usual)
	}
	return max(6, 2.5*f.right+3, f.usual)
}

const lone = "element"

// mostRegions bounds the regions of one way.
const mostRegions = 1 << 16

// regions returns the ways in which an output, or a piece of it, is divided: into all that has one place
// along an axis, into rows along the last axis, into tiles of the last two, and into the border of an image
// and the rest.
func (q *Question) regions() []region {
	shape, from, n := q.whole, q.offset, len(q.Output.Data)
	all := []region{{"everywhere", func(int) int { return 0 }, 1, func(int) string { return "everywhere" }}}
	if n == 0 {
		return nil
	}
	names := q.axes()
	inner := tensor.Size(shape)
	for a, s := range shape {
		inner /= s
		step := inner
		if s > 1 && step*s <= n || s > 1 && step < n && s <= mostRegions {
			all = append(all, region{names[a], func(i int) int { return (from + i) / step % s }, s, func(k int) string { return fmt.Sprintf("%s %d", names[a], k) }})
		}
	}
	if len(shape) == 0 {
		return all
	}
	last := shape[len(shape)-1]
	if rows := n / last; len(shape) > 2 && last > 1 && rows <= mostRegions && from%last == 0 {
		all = append(all, region{"row", func(i int) int { return i / last }, rows, func(k int) string { return fmt.Sprintf("row %v", place(from/last+k, shape[:len(shape)-1])) }})
	}
	if len(shape) == 1 {
		for _, tile := range []int{16, 64, 256, 1024} {
			if tile < last {
				all = append(all, region{fmt.Sprint("part ", tile), func(i int) int { return (from + i) / tile }, (last + tile - 1) / tile, func(k int) string {
					return fmt.Sprintf("elements %d to %d", k*tile, min(last, (k+1)*tile)-1)
				}})
			}
		}
		return all
	}
	if len(shape) > 3 {
		all = append(all, border(shape, from))
	}
	return append(all, tiles(shape, from)...)
}

// axes are the names of an output's axes.
func (q *Question) axes() []string {
	rank := len(q.whole)
	names := make([]string, rank)
	for a := range names {
		names[a] = fmt.Sprintf("axis %d at", a)
	}
	if len(q.Graph.Nodes) != 1 {
		return names
	}
	switch q.Graph.Nodes[0].Op.(type) {
	case graph.Attention:
		names = append(slices.Repeat([]string{"batch item"}, max(0, rank-3)), "head", "query", "column")[max(0, 3-rank):]
	case graph.Conv, graph.GroupNorm, graph.InstanceNorm, graph.BatchNorm:
		for a, name := range []string{"batch item", "channel", "row", "column"} {
			if a < rank {
				names[a] = name
			}
		}
	case graph.MatMul, graph.Linear, graph.Softmax, graph.LayerNorm, graph.RMSNorm:
		if names[rank-1] = "column"; rank > 1 {
			names[rank-2] = "row"
		}
	}
	return names
}

// border divides images into their edge and the rest.
func border(shape []int, from int) region {
	h, w := shape[len(shape)-2], shape[len(shape)-1]
	return region{"border", func(i int) int {
		x, y := (from+i)%w, (from+i)/w%h
		if x == 0 || y == 0 || x == w-1 || y == h-1 {
			return 1
		}
		return 0
	}, 2, func(k int) string { return []string{"inside the border", "the border"}[k] }}
}

// tiles divides the last two axes into squares.
func tiles(shape []int, from int) (all []region) {
	last, height := shape[len(shape)-1], shape[len(shape)-2]
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
			fmt.Sprint("tile ", tile), func(i int) int { return (from+i)/last%height/tile*across + (from+i)%last/tile }, across * down,
			func(k int) string {
				r, c := k/across*tile, k%across*tile
				what := "the tile"
				if r+tile > height || c+tile > last {
					what = "the last, partial tile"
				}
				return fmt.Sprintf("%s of rows %d to %d, columns %d to %d", what, r, min(height, r+tile)-1, c, min(last, c+tile)-1)
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
func (t *trial) quantum(f fp16.Format, i int, e []float64) float64 {
	ulp := f.Ulp(t.stored[i])
	if !(ulp > 0) {
		ulp = f.Smallest()
	}
	return max(e[i], ulp*ulp)
}

// statistics compares the size of the errors, region by region, with that of simulated right kernels.
func (q *Question) statistics(t *trial) {
	f := q.Output.Format
	t.ways = ways{}
	q.alone(t, f)
	mine := t.counted(f, q.Output.Data, t.e)
	var right []counted
	for _, k := range t.right {
		right = append(right, t.counted(f, k, t.e))
	}
	at := make([]int32, len(t.y))
	for _, by := range q.regions() {
		for i := range at {
			at[i] = int32(by.of(i))
		}
		w := t.farthest(f, by, at, mine, right, t.others)
		if w.of > w.limit(by.way) { // or it is one error, many times
			once := t.once(at)
			share := func(all ...counted) (shares []counted) {
				for _, x := range all {
					y := counted{make([]float32, len(once)), make([]float32, len(once))}
					for i, v := range once {
						y.squares[i], y.expected[i] = float32(float64(x.squares[i])*v), float32(float64(x.expected[i])*v)
					}
					shares = append(shares, y)
				}
				return shares
			}
			w = t.farthest(f, by, at, share(mine)[0], share(right...), share(t.others...))
		}
		t.ways[by.way] = w
	}
	t.excess, t.region = t.ways.excess()
}

// counted are squares of errors, and those that are expected, in a quantum of each element.
type counted struct{ squares, expected []float32 }

// counted counts an output's errors, of which e are expected.
func (t *trial) counted(f fp16.Format, out, e []float64) counted {
	c := counted{make([]float32, len(out)), make([]float32, len(out))}
	for i, v := range out {
		by := 1 / t.quantum(f, i, e)
		c.expected[i] = float32(e[i] * by)
		if d := v - t.stored[i]; d-d == 0 {
			c.squares[i] = float32(d * d * by)
		}
	}
	return c
}

// farthest compares the regions of one way: of the output, of right kernels, and of these with what the others
// of them have.
func (t *trial) farthest(f fp16.Format, by region, at []int32, mine counted, right, others []counted) farthest {
	slack := t.slack(f, by)
	of := func(c counted) (float64, int) {
		return above(gather(c.squares, at, by.n), gather(c.expected, at, by.n), slack)
	}
	s, k := of(mine)
	w := farthest{of: s, at: by.name(k), right: math.Inf(-1)}
	for _, r := range right {
		s, _ := of(r)
		w.right = max(w.right, s)
	}
	var sum, square float64
	n := float64(len(others))
	for _, r := range others {
		s, _ := of(r)
		sum += s
		square += s * s
	}
	if n > 1 {
		w.usual = sum/n + mostUsual*math.Sqrt(max(0, square-sum*sum/n)/(n-1))
	}
	return w
}

// once returns the share of each element in the elements of its region that have the same exact value. They
// are the same computation, and their errors one error: a channel of a batch norm whose inputs are bfloat16 has
// only so many different numbers, and where one of them comes next to the middle of two stored ones, all its
// elements are off or none.
func (t *trial) once(at []int32) []float64 {
	type class struct {
		region int32
		value  uint64
	}
	count := map[class]int{}
	for i, y := range t.y {
		count[class{at[i], math.Float64bits(y)}]++
	}
	share := make([]float64, len(t.y))
	for i, y := range t.y {
		share[i] = 1 / float64(count[class{at[i], math.Float64bits(y)}])
	}
	return share
}

// gather adds up the numbers of each region.
func gather(x []float32, at []int32, n int) []float64 {
	sum := make([]float64, n)
	for i, v := range x {
		sum[at[i]] += float64(v)
	}
	return sum
}

// runningSlack is slack of lines that are running sums.
const runningSlack = 16

// slack is how many times what is expected the errors of a region may be before deviations are counted. All
// numbers of a column of a product are sums of the same weights in one order: how far its partial sums go on
// the way is one walk for all of them, and not one for each. A walk's mean square, that of a bridge, has the
// mean 1/6, and one in a thousand is beyond 1.17, seven times that (T. W. Anderson and D. A. Darling, 1952).
// A line of a cumsum is a walk of errors itself, W: the mean of its square over a line, 1/2 as a rule, is
// beyond 4.5 once in a thousand, nine times that (its first eigenvalue, 4/pi^2, has most of it). Its partial
// sums are one walk too, and both together are beyond 22 times once in a thousand: runningSlack is less
// (TestRunningSlack). It shows where errors are those of sums, and not of a coarser store.
func (t *trial) slack(f fp16.Format, by region) float64 {
	if f != fp16.Float32 && t.Accumulate == "" || by.n == 1 {
		return 1.6
	}
	has := func(is func(string) bool) bool {
		return slices.ContainsFunc(t.b.Nodes, func(n graph.Node) bool { return is(n.Op.Name()) })
	}
	switch {
	case has(func(name string) bool { return name == "cumsum" }):
		return runningSlack
	case has(func(name string) bool { return products[name] }):
		return 8
	}
	return 1.6
}

// above is how far the worst region is above what is expected, in deviations.
func above(x, expected []float64, slack float64) (worst float64, at int) {
	worst = math.Inf(-1)
	for k := range x {
		if s := (x[k] - slack*expected[k]) / (math.Sqrt(3*expected[k]) + 1); s > worst {
			worst, at = s, k
		}
	}
	return worst, at
}

// chained is the square of how many deviations a sum of products may be off by. Most kernels add the products of
// an element one after the other: their errors are of the partial sums, which walk at random, and the squares of
// a walk vary as the integral of W^2 does, with a tail of e^(-pi^2 y/8) where the mean is y = 1/2. A normal
// number of such a variance is beyond r deviations with a chance of about e^(-1.11 r): 1e-10 is at 20.7.
const chained = 20.7 * 20.7

// alone finds the single element whose error is the largest for what is expected. That is no less than the
// variance of its last step's own errors, which a few simulations may by chance all have drawn small: of
// millions of elements some are always such.
func (q *Question) alone(t *trial, f fp16.Format) {
	var w farthest
	if f == fp16.Float32 && t.b.multiplies() {
		w.usual = chained
	}
	quantum := func(i int) float64 {
		if t.sigma == nil {
			return t.quantum(f, i, t.e)
		}
		return max(t.quantum(f, i, t.e), float64(t.sigma[i]*t.sigma[i]))
	}
	for _, k := range t.right {
		for i, v := range k {
			if d := v - t.stored[i]; d != 0 && d-d == 0 {
				w.right = max(w.right, d*d/quantum(i))
			}
		}
	}
	for m, c := range t.others {
		for i, s := range c.squares {
			if s > 0 {
				d := t.right[m][i] - t.stored[i]
				by := d * d / float64(s)
				if t.sigma != nil {
					by = max(by, float64(t.sigma[i]*t.sigma[i]))
				}
				w.right = max(w.right, d*d/by)
			}
		}
	}
	at := -1
	for i, v := range q.Output.Data {
		if d := v - t.stored[i]; d != 0 && d-d == 0 {
			if x := d * d / quantum(i); x > w.of {
				w.of, at = x, i
			}
		}
	}
	if at >= 0 {
		w.at = fmt.Sprintf("element %v", place(q.offset+at, q.whole))
	}
	t.ways[lone] = w
}
