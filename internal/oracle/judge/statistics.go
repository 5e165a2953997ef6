package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// farthest is the least likely statistic of one way to divide an output: of the sums of squared errors over its
// regions, or of its elements.
type farthest struct {
	law
	of     float64
	at     string
	chance float64 // the logarithm of it
	count  float64 // how many there are
}

// ways are the farthest of each way to divide an output; those of pieces join.
type ways map[string]farthest

func (w ways) add(p ways) {
	for way, f := range p {
		all, is := w[way]
		if count := all.count + f.count; !is || f.chance < all.chance {
			f.count = count
			w[way] = f
		} else {
			all.count = count
			w[way] = all
		}
	}
}

// statistics is how many there are.
func (w ways) statistics() (n float64) {
	for _, f := range w {
		n += f.count
	}
	return n
}

// chance is the chance that a right kernel is as far off as this in one of all statistics.
func (w ways) chance() float64 {
	least := 0.0
	for _, f := range w {
		least = min(least, f.chance)
	}
	return among(least, w.statistics())
}

// excess is the farthest of all over its limit, and where. Within the limit it is the logarithm of its chance over that
// of the limit. Slips, of which many are no place, are asked where nothing else is beyond its limit.
func (w ways) excess() (excess float64, at string) {
	odds := atOdds(w.statistics())
	for _, way := range slices.Sorted(maps.Keys(w)) {
		if x := w[way].excess(odds); way != slipWay && x > excess {
			excess, at = x, w[way].at
		}
	}
	if f, is := w[slipWay]; is && excess <= 1 {
		if x := f.excess(odds); x > excess {
			excess, at = x, f.at
		}
	}
	return excess, at
}

// under is the same statistic under another law.
func (f farthest) under(l law) farthest {
	f.law, f.chance = l, l.tail(f.of)
	return f
}

func (f farthest) excess(odds float64) float64 {
	if f.law == nil || f.chance >= odds {
		return f.chance / odds
	}
	return max(1+lastDigits, f.of/beyond(f.tail, odds))
}

const lone, slipWay, everywhere = "element", "slip", "everywhere"

// quantum is what one element's squared error is counted in: what is expected of it, but not less than
// the distance to the next stored number, squared, of which rare errors are one, or than the flip of an inner rounding.
func (t *trial) quantum(f fp16.Format, i int) float64 { return t.quantumOf(f, i, t.e[i]) }

func (t *trial) quantumOf(f fp16.Format, i int, expected float64) float64 {
	ulp := f.Ulp(t.stored[i])
	if !(ulp > 0) {
		ulp = f.Smallest()
	}
	if t.edges != nil {
		expected = max(expected, t.edges[i])
	}
	return max(expected, ulp*ulp, t.grain, leastDouble) // a float64 number may be so small that its square is none
}

// statistics compares the size of the errors, region by region, with that of simulated right kernels.
func (q *Question) statistics(t *trial) {
	f := q.Output.Format
	t.ways = ways{}
	q.alone(t, f)
	q.slipped(t, f)
	mine := t.counted(f, q.Output.Data)
	var right []counted
	for _, k := range t.right {
		right = append(right, counted{t.squares(f, k), mine.expected, mine.variance, mine.flips})
	}
	at, runs := make([]int32, len(t.y)), [][]int32(nil)
	for _, by := range q.regions() {
		for i := range at {
			at[i] = int32(by.of(i))
		}
		w := t.farthest(f, by, at, mine, right)
		if w.chance < atOdds(1) { // or it is one error, many times
			if runs == nil {
				runs = equals(t.y)
			}
			joint := shares(append([]counted{mine}, right...), once(runs, at, by.n)) // whose expected errors are one slice
			w = t.farthest(f, by, at, joint[0], joint[1:])
		}
		t.ways[by.way] = w
	}
	t.excess, t.region = t.ways.excess()
}

// counted are squares of errors, those that are expected, how these vary, and those of roundings that may go to the
// other side, in a quantum of each element.
type counted struct{ squares, expected, variance, flips []float32 }

// counted counts an output's errors.
func (t *trial) counted(f fp16.Format, out []float64) counted {
	n := len(out)
	c := counted{t.squares(f, out), make([]float32, n), make([]float32, n), make([]float32, n)}
	for i := range out {
		per := 1 / t.quantum(f, i)
		x := t.e[i] * per
		c.expected[i], c.variance[i] = float32(x), float32(varies(x))
		if t.edges != nil {
			c.flips[i] = float32(t.edges[i] * per)
		}
	}
	return c
}

// varies is the variance of an element's square, in its quantum: 2 of a normal error, which is expected to have one,
// and of rare ones, of a quantum each, what is expected.
func varies(expected float64) float64 { return expected + float64(expected*expected) }

// squares are those of an output's errors.
func (t *trial) squares(f fp16.Format, out []float64) []float32 {
	s := make([]float32, len(out))
	for i, v := range out {
		if d := v - t.stored[i]; d-d == 0 {
			s[i] = float32(d * d * (1 / t.quantum(f, i)))
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
			shared[k].expected, shared[k].variance, shared[k].flips = shared[k-1].expected, shared[k-1].variance,
				shared[k-1].flips
		} else {
			shared[k].expected, shared[k].variance, shared[k].flips = of(c.expected), of(c.variance), of(c.flips)
		}
	}
	return shared
}

// farthest is the least likely region of one way.
func (t *trial) farthest(f fp16.Format, by region, at []int32, mine counted, right []counted) farthest {
	sums := make([][]float64, len(right))
	for m, r := range right {
		sums[m] = gather(r.squares, at, by.n)
	}
	e, v := gather(mine.expected, at, by.n), gather(mine.variance, at, by.n)
	of := sumsLaw(t.slack(f, by), simulatedSums{sums, e, v}, e, v, gather(mine.flips, at, by.n))
	return by.farthest(gather(mine.squares, at, by.n), of)
}

// farthest is the least likely of sums over regions.
func (by region) farthest(x []float64, of func(k int) squaresLaw) farthest {
	w := farthest{count: float64(by.n)}
	for k, sum := range x {
		l := of(k)
		if sum-l.flips <= l.slack*l.expected && w.law != nil { // as large as expected
			continue
		}
		if c := l.tail(sum); w.law == nil || c < w.chance {
			w.law, w.of, w.at, w.chance = l, sum, by.name(k), c
		}
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

// slack is how many times what is expected the errors of a region may be before they are unlikely. All
// numbers of a column of a product are sums of the same weights in one order: how far its partial sums go on
// the way is one walk for all of them, and not one for each. A walk's mean square, that of a bridge, has the
// mean 1/6, and one in a thousand is beyond 1.17, seven times that (T. W. Anderson and D. A. Darling, 1952).
// A line of a cumsum is a walk of errors itself, W: the mean of its square over a line, 1/2 as a rule, is
// beyond 4.5 once in a thousand, nine times that (its first eigenvalue, 4/pi^2, has most of it). Its partial
// sums are one walk too, and both together are beyond 22 times once in a thousand: runningSlack is less
// (TestRunningSlack). It shows where errors are those of sums, and not of a coarser store.
//
// Sums of which each addition is rounded are simulated with all of their roundings, and it is 1.
//
// Anywhere else it is 1.6: what is expected is the mean of a few simulated kernels, in which
// errors of one cause, such as a row's sum, are drawn a few times only.
func (t *trial) slack(f fp16.Format, by region) float64 {
	has := func(is func(string) bool) bool {
		return slices.ContainsFunc(t.b.Nodes, func(n graph.Node) bool { return is(n.Op.Name()) })
	}
	running := has(func(name string) bool { return name == "cumsum" || name == "cumprod" })
	switch stored := !t.fine(f) && t.Accumulate == ""; {
	case t.Atomic != "" && !running:
		return 1
	case by.n == 1, stored && !(running && t.Atomic != ""):
		return usualSlack
	case running:
		return runningSlack
	case has(func(name string) bool { return products[name] }):
		return productSlack
	}
	return usualSlack
}
