package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// Many are evaluations of one graph by one device, each of its own inputs, such as the steps of a rollout, each from
// the device's own state. Each is judged by itself, with limits that all of them know together, and what is too
// small to show in one adds up over all.
type Many struct {
	N int
	// At is evaluation i, from 0 on in the order of time: asked for again where it is needed again.
	At func(i int) (Question, error)
	// Others are right answers to other questions: what else the device may have computed.
	Others []Other
	// Cores is set where products may be those of units that truncate, see [Question].
	Cores bool
	// Progress, if not nil, is called after each evaluation.
	Progress func(done int) error
}

// Other is another computation, as a fault: its name, what to do, and its questions, of which those without a graph
// are none. Any says that any amount of it is the fault, as of a constant that is another one.
type Other struct {
	Fault
	Any bool
	At  func(i int) (Question, error)
}

// Each is what was found of one evaluation.
type Each struct {
	Violations, Unknown, Flips, Elements int
	Errors                               float64 // their mean square over what is expected
	Excess                               float64 // how far the worst statistic is above its limit; above 1 it is wrong
	Region                               string
	Worst                                *Worst
	Figures
	ways  ways
	flips []flip // that a right device has, see flips.go
}

// Figures are errors of an output: from exact arithmetic, and from the contract.
type Figures struct {
	MaxAbs, MeanAbs float64 // from exact arithmetic
	// Squares is the mean square of those errors and Peak the largest, both over what the contract makes one expect,
	// its roundings among it; Centre is the root mean square of the errors from the contract.
	Squares, Peak, Centre float64
}

// Fails reports whether an evaluation is wrong by itself.
func (e *Each) Fails() bool { return e.Violations > 0 || e.Excess > 1 }

// Joint is what was found of all evaluations under one contract.
type Joint struct {
	Contract
	Each   []Each
	Excess float64 // of the sums over all
	Region string
	Cause  *Cause
	// Blind are faults, by ID, that this data would not show.
	Blind []string
}

// Cause is the fault that explains the errors, from an evaluation on.
type Cause struct {
	Fault
	First         int
	Amount, Power float64
}

// First is the first evaluation that is wrong by itself, -1 if none is.
func (j *Joint) First() int { return slices.IndexFunc(j.Each, func(e Each) bool { return e.Fails() }) }

// Passes reports whether all is right.
func (j *Joint) Passes() bool { return j.Excess <= 1 && j.Cause == nil && j.First() < 0 }

// question is evaluation i, ready to be judged.
func (m *Many) question(i int, at func(i int) (Question, error)) (*Question, []graph.Type, error) {
	q, err := at(i)
	if err != nil || q.Graph == nil {
		return nil, nil, err
	}
	q.Graph = q.withScalars()
	if q.Narrow == fp16.Float64 {
		q.Narrow = q.narrowest()
	}
	q.Shallow, q.whole = true, q.Output.Shape
	types, err := q.types()
	if err != nil {
		return nil, nil, err
	}
	if want := types[q.Graph.Outputs[0]].Shape; !slices.Equal(want, q.Output.Shape) {
		return nil, nil, fmt.Errorf("output of shape %v: want %v", q.Output.Shape, want)
	}
	return &q, types, nil
}

// Plain is the contract of evaluation i without any other form or rounding than its graph says.
func (m *Many) Plain(i int) (Contract, error) {
	q, _, err := m.question(i, m.At)
	if err != nil {
		return Contract{}, err
	}
	return Contract{Form: Form{written: q.Written, Operands: q.Operands}}, nil
}

// Contracts are those that explain evaluation i best, see [Question].
func (m *Many) Contracts(i int) ([]Contract, error) {
	q, types, err := m.question(i, m.At)
	if err != nil {
		return nil, err
	}
	return q.likely(types)
}

// Off is how far evaluation i is from what a contract stores, as [Question] compares contracts.
func (m *Many) Off(i int, c Contract) (Distance, error) {
	q, _, err := m.question(i, m.At)
	if err != nil {
		return Distance{}, err
	}
	y, err := q.made(c)
	if err != nil {
		return Distance{}, err
	}
	return q.distance(y), nil
}

// One judges evaluation i alone under a contract.
func (m *Many) One(i int, c Contract) (*Each, error) {
	alone := *m
	alone.N, alone.At, alone.Progress = 1, func(int) (Question, error) { return m.At(i) }, nil
	j, err := alone.Under(c)
	if err != nil {
		return nil, err
	}
	return &j.Each[0], nil
}

// Under judges all under a contract. See [Many.Faults] for what lies along a fault.
func (m *Many) Under(c Contract) (*Joint, error) {
	j := &Joint{Contract: c}
	var all totals
	wrong := false // one evaluation is, whatever flips there are
	for i := range m.N {
		q, types, err := m.question(i, m.At)
		if err != nil {
			return nil, err
		}
		if i == 0 { // the first is as large as any
			if err := q.fits(thinKernels); err != nil {
				return nil, err
			}
		}
		t, err := q.tryThin(types, c, m.Cores)
		if err != nil {
			return nil, err
		}
		judged := q
		if x, _ := t.ways.excess(); !wrong && (x > 1 || t.ways[everywhere].chance < atOdds(float64(m.N))) {
			less, other, err := q.withFlips(types, t)
			if err != nil {
				return nil, err
			}
			if less != nil {
				judged, t = less, other
			}
			wrong = less == nil && x > 1
		}
		each := Each{flips: t.turns, Violations: t.violations, Unknown: t.unknown, Flips: t.flips, Elements: t.elements, Errors: t.errors(), Worst: t.worst, ways: t.ways}
		if each.Figures, err = q.figures(t); err != nil {
			return nil, err
		}
		j.Each = append(j.Each, each)
		all.add(judged, t)
		if m.Progress != nil {
			if err := m.Progress(i + 1); err != nil {
				return nil, err
			}
		}
	}
	pool(j.Each)
	j.Excess, j.Region = all.excess(j.Each)
	if from, w := onward(j.Each); w.law != nil && m.N > 1 {
		if x := w.excess(atOdds(w.count)); x > 1 && j.First() < 0 {
			for i := from; i < m.N; i++ { // together
				j.Each[i].Excess, j.Each[i].Region = x, w.at
			}
		}
	}
	return j, nil
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

// tryThin is try without radii and without faults.
func (q *Question) tryThin(types []graph.Type, c Contract, cores bool) (*trial, error) {
	t, err := q.tryKernels(types, c, cores, thinKernels)
	if err == nil {
		if x, _ := t.ways.excess(); x > 1 && x < mostDoubt {
			t, err = q.tryKernels(types, c, cores, doubtKernels)
			t.right = t.right[:thinKernels]
		}
	}
	return t, err
}

// tryKernels is tryThin with so many kernels.
func (q *Question) tryKernels(types []graph.Type, c Contract, cores bool, kernels int) (*trial, error) {
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, q.built)}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round = t.b.rounds(values, q.Narrow)
	t.b.thin, t.b.cores = true, cores && c.Accumulate == "" && (q.Narrow != fp16.Float32 || c.Operands != "")
	f := q.Output.Format
	if err := q.simulate(types, t, kernels, false); err != nil {
		return nil, err
	}
	for i := range t.r {
		t.r[i] = math.Inf(1)
	}
	t.stored = make([]float64, len(t.y))
	t.store(f, t.stored, t.y)
	t.level, t.grain = q.level(), t.largestFlip(f)
	t.keeps = q.keeps(t)
	t.expect(f)
	q.statistics(t)
	q.count(t)
	return t, nil
}

// level makes what is expected of an element no less than the mean of its plane and its own: where inner results
// are rounded, an element without a rounding that goes the other way in a few simulated kernels may have one in
// another kernel.
func (q *Question) level() func(e []float64) {
	shape := q.Output.Shape
	plane := 1
	for _, s := range shape[min(2, len(shape)):] {
		plane *= s
	}
	return func(e []float64) {
		for at := 0; at+plane <= len(e); at += plane {
			mean := 0.0
			for _, v := range e[at : at+plane] {
				mean += v / float64(plane)
			}
			for i := at; i < at+plane; i++ {
				e[i] = max(mean, e[i]/2+mean/2)
			}
		}
	}
}

// usualFlip is the square of what one inner rounding that goes the other way does to a float32 result: the median of
// what simulated kernels are off by, where that is more than float32 roundings are. Such errors are rare and
// large, and are counted in themselves.
func (t *trial) usualFlip(f fp16.Format) float64 {
	all := t.flippedBy(f)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// largestFlip is the largest of them: in a chain that of the last step is far more than what is left of others.
func (t *trial) largestFlip(f fp16.Format) float64 {
	all := t.flippedBy(f)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// flippedBy are squares of what simulated kernels are off by, where that is more than float32 roundings are.
func (t *trial) flippedBy(f fp16.Format) (all []float64) {
	if f != fp16.Float32 || len(t.round) == 0 {
		return nil
	}
	for _, k := range t.right {
		for i, v := range k {
			if d := math.Abs(v - t.stored[i]); d > leastFlip*f.Ulp(t.stored[i]) && d-d == 0 {
				all = append(all, float64(d*d))
			}
		}
	}
	slices.Sort(all)
	return all
}

// figures measures errors from exact arithmetic.
func (q *Question) figures(t *trial) (f Figures, err error) {
	truth := t.y
	if q.Truth != nil {
		if truth, err = q.Truth(); err != nil {
			return f, err
		}
	}
	var errors, expected, centre, n float64
	for i, got := range q.Output.Data {
		d, off, ulp := math.Abs(got-truth[i]), t.stored[i]-truth[i], q.Output.Format.Ulp(t.stored[i])
		e := t.e[i] + float64(ulp*ulp)*storing
		if !(d-d == 0 && e-e == 0 && off-off == 0) {
			continue
		}
		n++
		f.MaxAbs = max(f.MaxAbs, d)
		f.MeanAbs += d
		errors += float64(d * d)
		expected += max(e, float64(off*off))
		centre += float64((got-t.stored[i])*(got-t.stored[i])) / e
	}
	if n > 0 && expected > 0 {
		f.MeanAbs /= n
		f.Squares, f.Centre, f.Peak = errors/expected, math.Sqrt(centre/n), f.MaxAbs/math.Sqrt(expected/n)
	}
	return f, nil
}

// pool sets what each evaluation is off by, with laws of which all of them know more than one: none is narrower than
// the median of all.
func pool(all []Each) {
	laws := map[string][]law{}
	for _, e := range all {
		for way, f := range e.ways {
			laws[way] = append(laws[way], f.law)
		}
	}
	for way, of := range laws {
		slices.SortFunc(of, func(a, b law) int { return cmp.Compare(a.spread(), b.spread()) })
		for _, e := range all {
			if f, is := e.ways[way]; is {
				e.ways[way] = f.under(f.wider(of[len(of)/2]))
			}
		}
	}
	for i := range all {
		all[i].Excess, all[i].Region = all[i].ways.excess()
	}
}

// totals are squares of errors over the regions of an output, of all evaluations together.
type totals []total

type total struct {
	by              region
	slack           float64
	mine, expected  []float64
	variance, flips []float64
	right           [][]float64 // of each simulated kernel
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
			x := total{by: by, slack: t.slack(f, by), mine: make([]float64, by.n), expected: make([]float64, by.n), variance: make([]float64, by.n), flips: make([]float64, by.n), right: make([][]float64, len(right))}
			for m := range right {
				x.right[m] = make([]float64, by.n)
			}
			*all = append(*all, x)
		}
		x := &(*all)[k]
		sumUp(x.mine, mine.squares, at)
		sumUp(x.expected, mine.expected, at)
		sumUp(x.variance, mine.variance, at)
		sumUp(x.flips, mine.flips, at)
		for m := range x.right {
			sumUp(x.right[m], right[m].squares, at)
		}
	}
}

// sumUp adds the numbers of each region to its sum.
func sumUp(sum []float64, x []float32, at []int32) {
	for i, v := range x {
		sum[at[i]] += float64(v)
	}
}

// excess is how far the worst of all regions is above its limit, and where. The sum varies at least as the evaluations do
// together: a rare error that is right in one is right in the sum.
func (all totals) excess(each []Each) (excess float64, at string) {
	joint := ways{}
	for _, x := range all {
		w := x.by.farthest(x.mine, sumsLaw(x.slack, x.right, x.expected, x.variance, x.flips))
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
