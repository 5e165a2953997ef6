package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Many are evaluations of one graph by one device, each of its own inputs, such as the steps of a rollout, each from
// the device's own state. Each is judged by itself, with limits that all of them know together, and what is too
// small to show in one adds up over all.
type Many struct {
	N int
	// Series is how many rollouts take turns: evaluation i goes on where i - Series ended. 0 is one.
	Series int
	// At is evaluation i, from 0 on in the order of time: asked for again where it is needed again.
	At func(i int) (Question, error)
	// Others are right answers to other questions: what else the device may have computed.
	Others []Other
	// Rewrites are right answers to questions about graphs with a fault, in groups, of which each but the first is looked
	// through only if there is no cause yet. Only where an evaluation is wrong they are asked for; nil is none.
	Rewrites func() ([][]Other, error)
	// Small are faults that may hide below the errors of right evaluations, and are looked for where none is wrong; nil is
	// none.
	Small func() ([]Other, error)
	// Cores is set where products may be those of units that truncate, see [Question].
	Cores bool
	// Bounds is set of evaluations of few operations, such as a layer: then numbers that no right kernel returns are
	// violations, see bound.go.
	Bounds bool
	// Memory, if not nil, is of the same evaluations under other contracts.
	Memory *Memory
	// Stop, if not nil, says that no more causes of what is wrong are looked for.
	Stop func() bool
	// Watch, if not nil, is called with what the device has of an evaluation, and what is exact.
	Watch func(i int, got, exact []float64)
	// Progress, if not nil, is called after each evaluation.
	Progress func(done int) error
}

// Other is another computation, as a fault: its name, what to do, and its questions, of which those without a graph
// are none. Any says that any amount of it is the fault, as of a constant that is another one, and Called, if not nil,
// names an amount. Power only asks whether it would show.
type Other struct {
	Fault
	Any, Power bool
	Called     func(amount float64) string
	// Still is set of a step that does nothing, Everywhere of a fault in all operations that can have it, and Given of one
	// in what the step is given, of which it may change any part.
	Still, Everywhere, Given bool
	At                       func(i int) (Question, error)
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
	// kernels is how many were simulated, 0 of an evaluation between others.
	kernels int
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
	// Blind are faults that this data would not show.
	Blind []Blind
	// Seen is the first evaluation that is wrong by itself, or the last one: what of it is exact, what a right device
	// stores, and the size of the errors that one expects, which follows that of their plane.
	Seen                    int
	Exact, Stored, Expected []float64
	of                      *evaluations
}

// Blind is a fault that would not show, and the least amount of it that would.
type Blind struct {
	ID    string
	Least float64
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

// series is how many rollouts take turns.
func (m *Many) series() int { return max(1, m.Series) }

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
	q.Shallow, q.whole, q.wide = true, q.Output.Shape, !m.Bounds && !q.Double
	types, err := q.types()
	if err != nil {
		return nil, nil, err
	}
	if want := types[q.Graph.Outputs[0]].Shape; !slices.Equal(want, q.Output.Shape) {
		return nil, nil, fmt.Errorf("output of shape %v: want %v", q.Output.Shape, want)
	}
	return &q, types, nil
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
	c = q.in(c)
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, q.built)}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round = t.b.rounds(values, q.Narrow)
	t.b.blocks = q.repeats()
	t.b.thin, t.b.cores = !bounds, cores && c.Accumulate == "" && (q.Narrow.Half() || c.Operands != "")
	f := q.Output.Format
	// Where terms cancel, one rounding before the last moves the result by many places.
	if err := q.withEdges(types, t, kernels, bounds && (len(t.round) > 0 || t.b.jumps())); err != nil {
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
	plane := planeOf(q.Output.Shape)
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

// planeOf is how many numbers a plane of a shape has: all axes but the first two.
func planeOf(shape []int) int { return tensor.Size(shape[min(2, len(shape)):]) }
