package judge

import (
	"cmp"
	"slices"
)

// What several evaluations know together, and what their errors add up to.

// common are laws of which all evaluations know more than one: those in the middle of all that were simulated.
func common(all []Each) map[string]law {
	laws, middle := map[string][]law{}, map[string]law{}
	for _, e := range all {
		for way, f := range e.ways {
			if e.kernels > 0 {
				laws[way] = append(laws[way], f.law)
			}
		}
	}
	for way, of := range laws {
		slices.SortFunc(of, func(a, b law) int { return cmp.Compare(a.spread(), b.spread()) })
		middle[way] = of[len(of)/2]
	}
	return middle
}

// by sets how far an evaluation is off, with laws none of which is narrower than the common ones.
func (e *Each) by(laws map[string]law) {
	for way, f := range e.ways {
		if l, is := laws[way]; is {
			e.ways[way] = f.under(f.wider(l))
		}
	}
	e.Excess, e.Region = e.ways.excess()
}

// totals are squares of errors over the regions of an output, of all evaluations together.
type totals []total

type total struct {
	by              region
	slack           float64
	mine, expected  []float64
	variance, flips []float64
	simulated       simulatedSums
}

// add adds an evaluation's. One of another shape, as of a smaller batch, has regions of its own.
func (all *totals) add(q *Question, t *trial) {
	f := q.Output.Format
	mine := t.counted(f, q.Output.Data)
	right := make([]counted, len(t.right))
	for k, y := range t.right {
		right[k] = t.counted(f, y)
	}
	at := make([]int32, len(t.y))
	for _, by := range q.regions() {
		for i := range at {
			at[i] = int32(by.of(i))
		}
		k := slices.IndexFunc(*all, func(x total) bool { return x.by.way == by.way && x.by.n == by.n })
		if k < 0 {
			k = len(*all)
			x := total{
				by: by, slack: t.slack(f, by), mine: make([]float64, by.n), expected: make([]float64, by.n),
				variance: make([]float64, by.n), flips: make([]float64, by.n),
				simulated: simulatedSums{e: make([]float64, by.n), v: make([]float64, by.n)},
			}
			*all = append(*all, x)
		}
		x := &(*all)[k]
		sumUp(x.mine, mine.squares, at)
		sumUp(x.expected, mine.expected, at)
		sumUp(x.variance, mine.variance, at)
		sumUp(x.flips, mine.flips, at)
		if len(right) > 0 {
			sumUp(x.simulated.e, mine.expected, at)
			sumUp(x.simulated.v, mine.variance, at)
		}
		for m := range right {
			if m == len(x.simulated.x) {
				x.simulated.x = append(x.simulated.x, make([]float64, by.n))
			}
			sumUp(x.simulated.x[m], right[m].squares, at)
		}
	}
}

// sumUp adds the numbers of each region to its sum.
func sumUp(sum []float64, x []float32, at []int32) {
	for i, v := range x {
		sum[at[i]] += float64(v)
	}
}

// excess is how far the worst of all regions is above its limit, and where. The sum varies at least as the
// evaluations do together: a rare error that is right in one is right in the sum.
func (all totals) excess(each []Each) (excess float64, at string) {
	joint := ways{}
	for _, x := range all {
		w := x.by.farthest(x.mine, sumsLaw(x.slack, x.simulated, x.expected, x.variance, x.flips))
		if l, is := w.law.(squaresLaw); is {
			l.alike = max(l.alike, alikeOf(each, x.by.way))
			w = w.under(l)
		}
		joint.add(ways{x.by.way: w})
	}
	return joint.excess()
}

// alikeOf is how many times their variance the sums of evaluations vary, together: they are independent of each other.
func alikeOf(each []Each, way string) float64 {
	varies, variance := 0.0, 0.0
	for _, e := range each {
		if l, is := e.ways[way].law.(squaresLaw); is {
			varies, variance = varies+float64(l.variance*l.alike), variance+l.variance
		}
	}
	if variance == 0 {
		return 1
	}
	return varies / variance
}

// late finds a fault that begins at an evaluation and is too small to show in any: all from there on are wrong
// together.
func (j *Joint) late() {
	from, w := onward(j.Each)
	if len(j.Each) < 2 || w.law == nil || j.First() >= 0 {
		return
	}
	if x := w.excess(atOdds(w.count)); x > 1 {
		for i := range j.Each[from:] {
			e := &j.Each[from+i]
			e.Excess, e.Region = x, w.at
		}
	}
}

// onward is the evaluation from which on errors are the least likely, all together: before it, a device may be right,
// and none of them alone need be wrong.
func onward(each []Each) (from int, least farthest) {
	l, of := squaresLaw{flips: 1}, 0.0
	for i := len(each) - 1; i >= 0; i-- {
		f, is := each[i].ways[everywhere]
		one, sums := f.law.(squaresLaw)
		if !is || !sums {
			continue
		}
		of += f.of
		l.slack, l.alike, l.devices = one.slack, 1, one.devices
		l.expected, l.all = l.expected+one.expected, l.all+one.all
		l.variance += float64(one.variance * one.alike)
		l.flips += one.flips - 1
		if c := l.tail(of); least.law == nil || c < least.chance {
			from, least = i, farthest{law: l, of: of, at: everywhere, chance: c}
		}
	}
	least.count = float64(len(each))
	return from, least
}
