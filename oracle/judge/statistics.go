package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// farthest is how far errors are above what is expected, where they are the farthest of all regions of one
// way: the output's, and those of simulated right kernels.
type farthest struct {
	of    float64
	at    string
	right float64
	usual float64 // the mean of right kernels' and mostUsual deviations of them; 0 if it is not known
}

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
		return max(loneSquares, loneTimes*f.right, f.usual)
	}
	return max(leastFar, regionTimes*f.right+farther, f.usual)
}

const lone = "element"

// quantum is what one element's squared error is counted in: what is expected of it, but not less than
// the distance to the next stored number, squared, of which rare errors are one.
func (t *trial) quantum(f fp16.Format, i int, e []float64) float64 {
	ulp := f.Ulp(t.stored[i])
	if !(ulp > 0) {
		ulp = f.Smallest()
	}
	return max(e[i], ulp*ulp, t.grain)
}

// statistics compares the size of the errors, region by region, with that of simulated right kernels.
func (q *Question) statistics(t *trial) {
	f := q.Output.Format
	t.ways = ways{}
	q.alone(t, f)
	mine := t.counted(f, q.Output.Data, t.e)
	var right []counted
	for _, k := range t.right {
		right = append(right, counted{t.squares(f, k, t.e), mine.expected})
	}
	at, runs := make([]int32, len(t.y)), [][]int32(nil)
	for _, by := range q.regions() {
		for i := range at {
			at[i] = int32(by.of(i))
		}
		w := t.farthest(f, by, at, mine, right, t.others)
		if w.of > w.limit(by.way) { // or it is one error, many times
			if runs == nil {
				runs = equals(t.y)
			}
			share := func(all []counted) []counted { return shares(all, once(runs, at, by.n)) }
			joint := share(append([]counted{mine}, right...)) // whose expected errors are one slice
			w = t.farthest(f, by, at, joint[0], joint[1:], share(t.others))
		}
		t.ways[by.way] = w
	}
	t.excess, t.region = t.ways.excess()
}

// counted are squares of errors, and those that are expected, in a quantum of each element.
type counted struct{ squares, expected []float32 }

// counted counts an output's errors, of which e are expected.
func (t *trial) counted(f fp16.Format, out, e []float64) counted {
	c := counted{t.squares(f, out, e), make([]float32, len(out))}
	for i := range out {
		c.expected[i] = float32(e[i] * (1 / t.quantum(f, i, e)))
	}
	return c
}

// squares are those of an output's errors, where e are expected.
func (t *trial) squares(f fp16.Format, out, e []float64) []float32 {
	s := make([]float32, len(out))
	for i, v := range out {
		if d := v - t.stored[i]; d-d == 0 {
			s[i] = float32(d * d * (1 / t.quantum(f, i, e)))
		}
	}
	return s
}

// shares are the shares of each element of what is counted. What is expected alike of several is shared once.
func shares(all []counted, share []float64) []counted {
	of := func(x []float32) []float32 {
		y := make([]float32, len(x))
		for i, v := range share {
			y[i] = float32(float64(x[i]) * v)
		}
		return y
	}
	shared := make([]counted, len(all))
	for k, c := range all {
		if shared[k].squares = of(c.squares); k > 0 && &c.expected[0] == &all[k-1].expected[0] {
			shared[k].expected = shared[k-1].expected
		} else {
			shared[k].expected = of(c.expected)
		}
	}
	return shared
}

// farthest compares the regions of one way: of the output, of right kernels, and of these with what the others
// of them have.
func (t *trial) farthest(f fp16.Format, by region, at []int32, mine counted, right, others []counted) farthest {
	slack := t.slack(f, by)
	var last []float32 // that was expected, and that sum by region
	var expected []float64
	of := func(c counted) (float64, int) {
		if last == nil || &last[0] != &c.expected[0] {
			last, expected = c.expected, gather(c.expected, at, by.n)
		}
		return above(gather(c.squares, at, by.n), expected, slack)
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
func once(runs [][]int32, at []int32, regions int) []float64 {
	share, count := slices.Repeat([]float64{1}, len(at)), make([]int32, regions)
	for _, run := range runs {
		for _, i := range run {
			count[at[i]]++
		}
		for _, i := range run {
			share[i] = 1 / float64(count[at[i]])
		}
		for _, i := range run {
			count[at[i]] = 0
		}
	}
	return share
}

// equals are the places of numbers that are there more than once, of each such number.
func equals(x []float64) [][]int32 {
	bits := func(i int32) uint64 { return math.Float64bits(x[i]) }
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(bits(i), bits(j)) })
	runs := [][]int32{}
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && bits(order[to]) == bits(order[from]) {
			to++
		}
		if to > from+1 {
			runs = append(runs, order[from:to])
		}
		from = to
	}
	return runs
}

// gather adds up the numbers of each region.
func gather(x []float32, at []int32, n int) []float64 {
	sum := make([]float64, n)
	for i, v := range x {
		sum[at[i]] += float64(v)
	}
	return sum
}

// slack is how many times what is expected the errors of a region may be before deviations are counted. All
// numbers of a column of a product are sums of the same weights in one order: how far its partial sums go on
// the way is one walk for all of them, and not one for each. A walk's mean square, that of a bridge, has the
// mean 1/6, and one in a thousand is beyond 1.17, seven times that (T. W. Anderson and D. A. Darling, 1952).
// A line of a cumsum is a walk of errors itself, W: the mean of its square over a line, 1/2 as a rule, is
// beyond 4.5 once in a thousand, nine times that (its first eigenvalue, 4/pi^2, has most of it). Its partial
// sums are one walk too, and both together are beyond 22 times once in a thousand: runningSlack is less
// (TestRunningSlack). It shows where errors are those of sums, and not of a coarser store.
//
// Anywhere else it is 1.6: what is expected is the mean of a few simulated kernels, in which
// errors of one cause, such as a row's sum, are drawn a few times only.
func (t *trial) slack(f fp16.Format, by region) float64 {
	if f != fp16.Float32 && t.Accumulate == "" || by.n == 1 {
		return usualSlack
	}
	has := func(is func(string) bool) bool {
		return slices.ContainsFunc(t.b.Nodes, func(n graph.Node) bool { return is(n.Op.Name()) })
	}
	switch {
	case has(func(name string) bool { return name == "cumsum" || name == "cumprod" }):
		return runningSlack
	case has(func(name string) bool { return products[name] }):
		return productSlack
	}
	return usualSlack
}

// above is how far the worst region is above what is expected, in deviations. Squares are
// counted in quanta, and no element is expected to have more than one. Normal errors of e in
// all then have a variance of 2 e at most, and rare ones, of a quantum each, one of e: 3 e is
// both. The 1 is for regions in which next to nothing is expected.
func above(x, expected []float64, slack float64) (worst float64, at int) {
	worst = math.Inf(-1)
	for k := range x {
		if s := (x[k] - slack*expected[k]) / (math.Sqrt(squareVariance*expected[k]) + 1); s > worst {
			worst, at = s, k
		}
	}
	return worst, at
}
