package judge

import (
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
	// Rewrites are right answers to questions about graphs with a fault, in groups, of which each but the first is looked
	// through only if there is no cause yet. Only where an evaluation is wrong they are asked for; nil is none.
	Rewrites func() ([][]Other, error)
	// Cores is set where products may be those of units that truncate, see [Question].
	Cores bool
	// Bounds is set of evaluations of few operations, such as a layer: then numbers that no right kernel returns are
	// violations, see bound.go.
	Bounds bool
	// Memory, if not nil, is of the same evaluations under other contracts.
	Memory *Memory
	// Progress, if not nil, is called after each evaluation.
	Progress func(done int) error
}

// Other is another computation, as a fault: its name, what to do, and its questions, of which those without a graph
// are none. Any says that any amount of it is the fault, as of a constant that is another one.
type Other struct {
	Fault
	Any bool
	// Still is set of a step that does nothing, and Everywhere of a fault in all operations that can have it.
	Still, Everywhere bool
	At                func(i int) (Question, error)
}

// Each is what was found of one evaluation.
type Each struct {
	Violations, Unknown, Flips, Elements int
	Expected                             int     // the flips that simulated right kernels have at most
	Reach                                float64 // the largest error over its bound, of [Many] with bounds
	Bias                                 float64 // the mean of errors away from zero, in its deviations
	Errors                               float64 // their mean square over what is expected
	Excess                               float64 // how far the worst statistic is above its limit; above 1 it is wrong
	Region                               string
	Wrong                                []int // the elements that are violations
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
	Finite                int // the numbers of which this is
}

// Usual reports whether the errors from exact arithmetic are no larger than those that the contract makes one expect:
// their mean square as of as many normal numbers, and the largest of them.
func (f Figures) Usual() bool {
	n, odds := float64(f.Finite), atOdds(2)
	return n > 0 && ratioTail(n, n, f.Squares) >= odds && largestOf(f.Finite, false, nil).tail(f.Peak) >= odds
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
	// Seen is the first evaluation that is wrong by itself, or the last one: what of it is exact, what a right device
	// stores, and the size of the errors that one expects, which follows that of their plane.
	Seen                    int
	Exact, Stored, Expected []float64
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

// Contracts are those that explain evaluations best, of which there is one at least, see [Question].
func (m *Many) Contracts(of ...int) ([]Contract, error) {
	q, types, err := m.question(of[0], m.At)
	if err != nil {
		return nil, err
	}
	var also []*Question
	for _, i := range of[1:] {
		o, types, err := m.question(i, m.At)
		if err != nil {
			return nil, err
		}
		also = append(also, o.few(types))
	}
	all, err := q.likely(types, also...)
	if err == nil && q.Narrow == fp16.Float32 {
		all = append(all, q.onePasses(types, Contract{Form: Form{written: q.Written, Operands: q.Operands}})...)
	}
	return all, err
}

// Elementary are the contracts of evaluation i by which activations are several operations, each of which rounds its
// result.
func (m *Many) Elementary(i int) (all []Contract, err error) {
	q, types, err := m.question(i, m.At)
	if err != nil {
		return nil, err
	}
	for _, f := range q.forms(types) {
		if f.Composed {
			plain := f
			plain.Composed = false
			own := besides(expand(q.Graph, types, f, built{}).names(), expand(q.Graph, types, plain, built{}).names())
			all = append(all, Contract{f, own})
		}
	}
	return all, nil
}

// Atomic is a contract with each addition to a place that an index names rounded to the format of half numbers, in an
// order that nobody knows, and so with errors of its own that bring no output nearer; false where nothing is added so.
func (m *Many) Atomic(i int, c Contract) (Contract, bool, error) {
	q, _, err := m.question(i, m.At)
	if err != nil || !q.Narrow.Half() || q.WideSums ||
		!slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool { return scatters(n.Op) }) {
		return c, false, err
	}
	c.Atomic = q.Narrow.String()
	return c, true, nil
}

// Off is how far evaluations are from what a contract stores, as [Question] compares contracts, but in places of the
// coarser of its format and that of steps, or in what errors are usually, if that is less: in a chain of many roundings
// a number is right to the last place of float32 only when all of them are, and each of them that is put right should
// show. A contract with steps that there are not is infinitely far.
func (m *Many) Off(c Contract, of ...int) (far Distance, err error) {
	for _, i := range of {
		one, err := m.off(c, i)
		if err != nil {
			return Distance{}, err
		}
		far = far.and(one)
	}
	return far, nil
}

func (m *Many) off(c Contract, i int) (Distance, error) {
	q, types, err := m.question(i, m.At)
	if err != nil {
		return Distance{}, err
	}
	if _, err := expand(q.Graph, types, c.Form, built{}).values(c.Round); err != nil {
		return Distance{Mean: math.Inf(1)}, nil
	}
	made := q.made
	if m.Memory != nil {
		made = func(c Contract) ([]float64, error) { return m.Memory.made(i, q, types, c) }
	}
	y, err := made(c)
	if err != nil {
		return Distance{}, err
	}
	most, err := m.usual(i, q)
	return distanceIn(q.coarser(), most, q.Output.Format, q.Output.Data, y), err
}

// usual is the root mean square of all errors of evaluation i. Where a step takes a small part of what it rounds, they
// are far less than a place of its output, and a rounding that is put right should show there, too.
func (m *Many) usual(i int, q *Question) (float64, error) {
	if q.Truth == nil || m.Memory == nil {
		return math.Inf(1), nil
	}
	if off, is := m.Memory.off[i]; is {
		return off, nil
	}
	truth, err := q.Truth()
	if err != nil {
		return 0, err
	}
	squares, n := 0.0, 0.0
	for k, got := range q.Output.Data {
		if d := got - truth[k]; d-d == 0 {
			squares, n = squares+float64(d*d), n+1
		}
	}
	if m.Memory.off == nil {
		m.Memory.off = map[int]float64{}
	}
	m.Memory.off[i] = math.Inf(1)
	if squares > 0 {
		m.Memory.off[i] = math.Sqrt(squares / n)
	}
	return m.Memory.off[i], nil
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
	found := false // one that is wrong by itself
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
		t, err := q.tryThin(types, c, m.Cores, m.Bounds)
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
		each := Each{flips: t.turns, Violations: t.violations, Unknown: t.unknown, Flips: t.flips, Elements: t.elements,
			Errors: t.errors(), Wrong: t.wrong, Worst: t.worst, ways: t.ways}
		for _, k := range t.tally.right {
			each.Expected = max(each.Expected, k.flips)
		}
		if each.Reach = t.reach; t.biased > 0 {
			each.Bias = t.bias / math.Sqrt(t.biased*storing)
		}
		if each.Figures, err = j.figures(q, t, !found); err != nil {
			return nil, err
		}
		if !found {
			j.Seen, found = i, !t.passes()
		}
		j.Each = append(j.Each, each)
		if m.N > 1 {
			all.add(judged, t)
		}
		if m.Progress != nil {
			if err := m.Progress(i + 1); err != nil {
				return nil, err
			}
		}
	}
	pool(j.Each)
	j.Excess, j.Region = all.excess(j.Each)
	j.late()
	return j, nil
}

// tryThin is try without faults, and without radii unless bounds are asked for.
func (q *Question) tryThin(types []graph.Type, c Contract, cores, bounds bool) (*trial, error) {
	t, err := q.tryKernels(types, c, cores, bounds, thinKernels)
	if err == nil {
		if x, _ := t.ways.excess(); x > 1 && x < mostDoubt {
			t, err = q.tryKernels(types, c, cores, bounds, doubtKernels)
			t.right = t.right[:thinKernels]
		}
	}
	return t, err
}

// tryKernels is tryThin with so many kernels.
func (q *Question) tryKernels(types []graph.Type, c Contract, cores, bounds bool, kernels int) (*trial, error) {
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, q.built)}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round = t.b.rounds(values, q.Narrow)
	t.b.blocks = q.repeats()
	t.b.thin, t.b.cores = !bounds, cores && c.Accumulate == "" && (q.Narrow != fp16.Float32 || c.Operands != "")
	f := q.Output.Format
	// Where terms cancel, one rounding before the last moves the result by many places.
	if err := q.withEdges(types, t, kernels, bounds && len(t.round) > 0); err != nil {
		return nil, err
	}
	for i := range t.r {
		if !bounds {
			t.r[i] = math.Inf(1)
		}
	}
	t.grain = t.largestFlip(f)
	if t.single = bounds && !q.mixes(t); !t.single {
		t.level = q.level()
	}
	t.expect(f)
	q.statistics(t)
	q.count(t)
	return t, nil
}

// mixes reports whether results are rounded that other elements than their own are made of. Numbers that are given are
// rounded alike by all.
func (q *Question) mixes(t *trial) bool {
	turns := make([]bool, len(q.Graph.Values)) // whether a rounding may go to the other side
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		of := slices.ContainsFunc(n.In, func(v int) bool { return turns[v] })
		switch n.Op.(type) {
		case graph.Cast:
			of = of || !slices.Contains(q.Graph.Inputs, n.In[0])
		case graph.Binary, graph.Unary, graph.Act:
		default:
			if of {
				return true
			}
		}
		for _, v := range n.Out {
			turns[v] = of
		}
	}
	return len(t.Round) > 0
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

// figures measures errors from exact arithmetic, and keeps them number by number if the evaluation is to be seen.
func (j *Joint) figures(q *Question, t *trial, seen bool) (f Figures, err error) {
	truth := t.y
	if q.Truth != nil {
		if truth, err = q.Truth(); err != nil {
			return f, err
		}
	}
	var errors, expected, centre, n float64
	each := make([]float64, len(truth))
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
		each[i] = max(e, float64(off*off))
		expected += each[i]
		centre += float64((got-t.stored[i])*(got-t.stored[i])) / e
	}
	if seen {
		q.level()(each)
		for i, e := range each {
			each[i] = math.Sqrt(e)
		}
		j.Exact, j.Stored, j.Expected = truth, t.stored, each
	}
	f.Finite = int(n)
	if n > 0 && expected > 0 {
		f.MeanAbs /= n
		f.Squares, f.Centre, f.Peak = errors/expected, math.Sqrt(centre/n), f.MaxAbs/math.Sqrt(expected/n)
	}
	return f, nil
}
