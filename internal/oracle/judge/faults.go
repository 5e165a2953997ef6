package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/table"
)

// Fault is what is wrong with a kernel: its name, what it is, and what to do.
type Fault struct {
	ID     string // of the table of faults that all of the oracle shares
	Title  string
	Advice string

	family
}

// family is what a fault has whose steps leave something open, such as an eps or a factor.
type family struct {
	// figures are what is open, as an output says it. They are looked for where a kernel fails, and only to say why.
	figures func(q *Question, t *trial) [][]float64
	// words are the title with figures.
	words func(q *Question, id string, figures []float64) string
	// plain says that it is a fault without figures too, with those that are usual.
	plain bool
	// vague says that the effect of many another fault may look like this one.
	vague bool
}

// Faults are those that are built into the steps of operations that can have them, the simplest first: the rows of
// the table.
var Faults = func() (all []Fault) {
	for _, r := range table.Kernels() {
		if r.ID != table.StepRounded {
			all = append(all, Fault{r.ID, r.Name, r.Advice, families[r.ID]})
		}
	}
	return all
}()

// named returns a fault by its ID, and nil for a step that is rounded.
func named(id string) *Fault {
	if i := slices.IndexFunc(Faults, func(f Fault) bool { return f.ID == id }); i >= 0 {
		return &Faults[i]
	}
	return nil
}

// built is a fault that is built into the steps of a graph.
type built struct {
	id      string
	at      string    // the node that has it, "" for every one that can
	figures []float64 // what a family leaves open
}

// whole reports whether a fault is one of the whole output, which is not evaluated in blocks.
func (f built) whole() bool {
	switch f.id {
	case onePassID, fewBits, partZeros, resultsMoved, inputReturned:
		return true
	}
	return f.id == sumsIn[fp16.Float16] || f.id == sumsIn[fp16.BFloat16] // of which there is a limit
}

// with is a question about the graph with a fault.
func (q *Question) with(f built) *Question {
	w := *q
	w.built = f
	return &w
}

// effect is what a fault makes of each element; nil if it cannot be built in.
func (q *Question) effect(types []graph.Type, c Contract, f built) ([]float64, error) {
	b := expand(q.Graph, types, c.Form, f)
	if !b.broken {
		return nil, nil
	}
	if _, err := b.values(c.Round); err != nil { // the fault took the step away
		return nil, nil
	}
	return q.madeWith(f, c), nil
}

// madeWith is what the steps make with a fault that they can have; nil if they make nothing. They may be too large to
// be tried, or the fault may take an index out of its range, which says nothing about the output.
func (q *Question) madeWith(f built, c Contract) []float64 {
	y, err := q.with(f).made(c)
	if err != nil {
		return nil
	}
	return y
}

// outputs are faults of the output as a whole that any kernel may have.
var outputs = []struct {
	id   string
	make func(q *Question, t *trial) []float64
}{
	{allZero, func(q *Question, t *trial) []float64 { return make([]float64, len(t.y)) }},
	{inputReturned, func(q *Question, t *trial) []float64 {
		if len(q.Inputs) == 0 || !slices.Equal(q.Inputs[0].Shape, q.Output.Shape) {
			return nil
		}
		return q.Inputs[0].Data
	}},
	{storeTruncated, func(q *Question, t *trial) []float64 {
		if t.fine(q.Output.Format) { // the last of many roundings
			return nil
		}
		out := make([]float64, len(t.y))
		truncate(q.Output.Format, out, t.y)
		return out
	}},
}

// direction is a fault whose direction the errors have, and how much it explains of them.
type direction struct {
	id         string
	gain, left float64 // of the squared errors, and the share that it leaves
	chance     float64 // that a right kernel's errors do, the logarithm
}

// faults looks for each fault in the errors, as small as it may be. An error is e = got - y, a fault's effect d,
// and weights are one over the expected square of an error, with that of storing. The amount of the fault is
// sum(e d w) / sum(d d w), with a deviation of 1/sqrt(sum(d d w)).
func (q *Question) faults(types []graph.Type, t *trial) error {
	w := t.weights(q.Output.Format)
	consider := func(id string, faulty []float64, unrounded func() float64) {
		amount, power := q.amount(t, w, faulty, q.Output.Data)
		law, odds := q.along(t, w, faulty), atOdds(t.directions())
		limit := law.limit(odds)
		if id == allZero {
			t.zero = power / limit
		}
		if power < limit {
			if !t.overflows(faulty) {
				t.hide(id)
			}
			return
		}
		switch {
		case amount*power <= limit || math.Abs(amount-1) >= max(nearAmount, amountFar/power):
		case unrounded() < limit: // by roundings that right kernels may turn as well
			t.hide(id)
		default:
			t.lies(&direction{id: id, gain: power * power * (2*amount - 1), chance: law.tail(amount * power)},
				q.squares(t, w, q.Output.Data), len(w))
		}
	}
	for _, f := range Faults {
		if narrowsOperands(f.ID) && q.Narrow.Half() {
			continue
		}
		if f.ID == onePassID {
			if err := q.seen(types, t, w); err != nil {
				return err
			}
			continue
		}
		if f.figures != nil && !f.plain {
			continue
		}
		faulty, err := q.effect(types, t.Contract, built{id: f.ID})
		if err != nil {
			return err
		}
		if len(faulty) == len(t.y) {
			consider(f.ID, faulty, func() float64 { return q.unrounded(types, t.Contract, w, built{id: f.ID}) })
		}
	}
	for _, f := range q.roundings(t, q.Narrow) {
		if faulty := q.madeWith(f, t.Contract); faulty != nil {
			consider(f.id, faulty, shown)
		}
	}
	for _, o := range outputs {
		if faulty := o.make(q, t); faulty != nil {
			consider(o.id, faulty, shown)
		}
	}
	return nil
}

// shown is the power of a fault that is a rounding itself, or a whole output.
func shown() float64 { return math.Inf(1) }

// unrounded is how many deviations a fault is without the contract's roundings: the function that it computes. What
// else it does is to turn roundings of numbers next to the middle of two, which right kernels may turn, too.
func (q *Question) unrounded(types []graph.Type, c Contract, w []float64, f built) float64 {
	c.Round, c.Operands = nil, ""
	y, err := q.made(c)
	if err != nil {
		return math.Inf(1)
	}
	faulty, err := q.effect(types, c, f)
	if err != nil || len(faulty) != len(y) {
		return math.Inf(1)
	}
	squares := 0.0
	for i, v := range y {
		switch d := faulty[i] - v; {
		case d-d == 0:
			squares += float64(d*d) * w[i]
		case (v-v == 0) != (faulty[i]-faulty[i] == 0):
			return math.Inf(1)
		}
	}
	return math.Sqrt(squares)
}

// kernels are the simulated ones, with the one that flushes subnormal numbers, if there is one.
func (t *trial) kernels() [][]float64 {
	if t.flushed == nil {
		return t.right
	}
	return append(slices.Clip(t.right), t.flushed)
}

// overflows reports whether a fault makes no number of what is one: that shows, and has no size.
func (t *trial) overflows(faulty []float64) bool {
	for i, y := range t.stored {
		if y-y == 0 && faulty[i]-faulty[i] != 0 {
			return true
		}
	}
	return false
}

// hide notes that this data would not show a fault.
func (t *trial) hide(id string) {
	if !slices.Contains(t.blind, id) {
		t.blind = append(t.blind, id)
	}
}

// lies notes that the errors, of these squares, lie along a fault, unless something else is wrong too.
func (t *trial) lies(a *direction, squares float64, n int) {
	left := squares - a.gain
	a.left = left / squares
	if left <= max(leftEach*float64(n), leftShare*squares) && (t.along == nil || a.gain > t.along.gain) {
		t.along = a
	}
}

// rare is the expected square of an error, or that of a rounding that goes to the other side.
func (t *trial) rare(i int) float64 {
	if t.edges == nil {
		return t.e[i]
	}
	return max(t.e[i], t.edges[i])
}

// weights are one over the expected square of each error, with that of storing. Beside inner results that are rounded a
// small number is no more exact than others.
func (t *trial) weights(f fp16.Format) []float64 {
	w := make([]float64, len(t.y))
	for i := range w {
		ulp := f.Ulp(t.stored[i])
		w[i] = t.rare(i) + ulp*ulp*storing
	}
	if t.level != nil {
		t.level(w)
	}
	for i := range w {
		if w[i] = 1 / w[i]; w[i]-w[i] != 0 {
			w[i] = 0
		}
	}
	return w
}

// roundings are the faults that a step alone is rounded, to a format, and of float32 numbers to either half one, of
// float64 ones to float32 as well.
func (q *Question) roundings(t *trial, to fp16.Format) (all []built) {
	if q.Shallow {
		return nil
	}
	narrow := []fp16.Format{to}
	if to == fp16.Float32 {
		narrow = q.narrower()
	}
	seen, free := map[string]bool{}, []point(nil)
	for _, p := range t.b.points {
		none := p.legal && to.Half() && to == q.Narrow // that is what right kernels do
		if _, is := t.round[p.value]; !is && !seen[p.name] && !none {
			free, seen[p.name] = append(free, p), true
		}
	}
	tried := some(free, len(narrow)*len(t.b.Nodes))
	t.untried = len(free) - len(tried)
	for _, p := range tried {
		for _, f := range narrow {
			if p.legal && f == q.Narrow {
				continue
			}
			all = append(all, built{id: roundedStep + p.name, figures: []float64{float64(f)}})
		}
	}
	return all
}

// squares are the squared errors of an output, each over what is expected.
func (q *Question) squares(t *trial, w, out []float64) (all float64) {
	for i, y := range t.y {
		if e := out[i] - y; e-e == 0 {
			all += e * e * w[i]
		}
	}
	return all
}

// along is how right kernels' errors lie along what a fault changes.
func (q *Question) along(t *trial, w, faulty []float64) alongLaw {
	var right []float64
	for _, k := range t.kernels() {
		a, p := q.amount(t, w, faulty, k)
		right = append(right, a*p)
	}
	return alongOf(right)
}

// directions is how many statistics there are, with those of faults.
func (t *trial) directions() float64 { return t.statistics() + float64(len(Faults)) }

// amount returns how much of a fault an output has, and how many deviations the whole fault is. Exact numbers beside
// kernels in float64 are off themselves, as a fault is that does not change what is right: that counts only where it is
// far from them.
func (q *Question) amount(t *trial, w, faulty, out []float64) (amount, power float64) {
	var ed, dd float64
	for i, y := range t.y {
		d, e := faulty[i]-y, out[i]-y
		if d == 0 || d-d != 0 || e-e != 0 || t.Double && d*d*w[i] < amountFar*amountFar {
			continue
		}
		ed += e * d * w[i]
		dd += d * d * w[i]
	}
	if dd == 0 {
		return 0, 0
	}
	return ed / dd, math.Sqrt(dd)
}
