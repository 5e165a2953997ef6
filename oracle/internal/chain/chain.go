// Package chain judges the steps of a rollout whose operator is any graph of registered operations. Each step of an
// engine batch is one chain: of the state before and the draws of its noise it makes, by the operator, the policy and
// the post-processing, the state after. The roundings of the claim are written into that graph, and package judge
// says whether what the device has is what right devices may have, and what all steps say together.
package chain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// Steps is the gate of single steps, each from the device's own states before: which contract the device keeps, whether
// its errors are those of a right device, and what is wrong if they are not. Each state of a step graph is judged by
// itself.
func Steps(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	gate := facts.Begin(ev, f)
	if gate.Op != nil && gate.Op.HasNoise() && gate.Stream == nil && emulate.Known(gate.Op) == nil {
		return nil, nil // without its noise nothing is known of single steps, and gates of the noise say what is of all
	}
	checkers, err := all(gate)
	if err != nil {
		return nil, err
	}
	var judged []*found
	for _, c := range checkers {
		if err := c.judgeable(); err != nil {
			f.Report.Unjudged = append(f.Report.Unjudged, c.of("all steps")+": "+err.Error())
			continue
		}
		best, err := c.search()
		if err == nil && (!c.cut || best.Passes()) {
			err = c.faults(best)
		}
		if err == nil {
			best, err = c.excused(best)
		}
		if err == nil {
			err = c.inSingle(best)
		}
		if c.cut = c.cut && !best.Passes(); c.cut && err == nil {
			c.cut, err = best.open()
		}
		if err != nil {
			return nil, err
		}
		judged = append(judged, best)
	}
	err = tell(gate, judged)
	return gate.Found, err
}

// ofStatistics reports whether a rounding is that of a norm's statistics.
func ofStatistics(name string) bool { return strings.HasSuffix(name, "statistics") }

// all are the checkers of the states: one of an operator's.
func all(g *facts.Gate) ([]*checker, error) {
	if g.Case.Step == nil {
		return []*checker{ofOperator(g)}, nil
	}
	var all []*checker
	for i := range g.Case.Step.States {
		all = append(all, ofGraph(g, i))
	}
	return all, nil
}

// checker judges one state at all steps.
type checker struct {
	*facts.Gate
	claim  lower.Claim
	step   *step
	name   string // of the state, if there are several
	index  int    // which it is
	states *rollout.States
	places []place
	series int                                          // the engine batches of a step
	input  func(k int, p place) (*tensor.Tensor, error) // input k of the step at a place
	after  func(p place) (*tensor.Tensor, error)        // what the device made there
	given  map[place][]*tensor.Tensor                   // inputs of steps
	fields map[place]*diff.Fields                       // of states against exact steps
	memory judge.Memory                                 // of the steps that contracts are compared at
	layer  bool                                         // it is of a recorded layer
	plain  bool                                         // forms of operations are not looked for
	last   bool                                         // nor first: norms of layers keep their statistics in float32
	stats  bool                                         // norms keep their statistics in float32
	cut    bool                                         // contracts under which steps may be right were left out
}

// of says of which state something is.
func (c *checker) of(what string) string {
	if c.name != "" {
		what += " of " + c.name
	}
	return what
}

// judgeable says why steps cannot be judged, if they cannot.
func (c *checker) judgeable() error {
	if c.step.block != nil && c.Stream == nil {
		return fmt.Errorf("the draws of the noise are unknown")
	}
	q := judge.Question{Graph: c.step.g}
	if node, err := q.Unknown(); err != nil {
		return fmt.Errorf("%s: op %w", node, err)
	}
	return nil
}

// many are all steps under a contract of the claim.
func (c *checker) many(k lower.Contract) *judge.Many {
	return &judge.Many{
		N: len(c.places), Series: c.series, Bounds: c.layer, Cores: c.cores(), Others: c.others(k), Memory: &c.memory,
		Rewrites: func() ([][]judge.Other, error) { return c.rewrites(k) },
		Small:    func() ([]judge.Other, error) { return c.small(k) },
		Stop:     func() bool { return !c.layer && c.Late("causes of wrong steps") },
		At: func(i int) (judge.Question, error) {
			p := c.places[i]
			q, err := c.ask(c.step, k, p, nil)
			if err != nil {
				return q, err
			}
			if c.layer {
				q.Truth = nil
			}
			return q, nil
		},
		Watch: func(i int, got, exact []float64) { c.compare(c.places[i], got, exact) },
		Progress: func(done int) error {
			if !c.layer {
				c.Gate.Progress("steps", done, len(c.places))
			}
			return c.Ctx.Err()
		},
	}
}

// compare keeps the errors of a step's states by channel.
func (c *checker) compare(p place, got, exact []float64) {
	if c.layer {
		return
	}
	channels := c.states.Channels()
	f, n := diff.NewFields(1, channels), channels*c.states.H*c.states.W
	for lo := 0; lo < len(got); lo += n {
		f.AddState(0, got[lo:lo+n], exact[lo:lo+n])
	}
	c.fields[p] = f
}

// cores reports whether products may be those of units that truncate: of half and TF32 operands on a GPU.
func (c *checker) cores() bool {
	m := c.Mode
	return m.Precision == fp16.TF32 || m.Autocast == graph.CUDA113 || m.Autocast == graph.CUDA2
}

// ask asks of a step, with inputs in place of its own; nil for none.
func (c *checker) ask(s *step, k lower.Contract, p place, other []*tensor.Tensor) (judge.Question, error) {
	in, err := other, error(nil)
	if in == nil {
		in, err = c.inputs(p)
	}
	if err != nil {
		return judge.Question{}, err
	}
	got, err := c.after(p)
	if err != nil {
		return judge.Question{}, err
	}
	return s.question(c.claim, k, in, got)
}

// inputs are those of a step, which nobody changes: those of the last steps that were asked for are kept.
func (c *checker) inputs(p place) (in []*tensor.Tensor, err error) {
	if in := c.given[p]; in != nil {
		return slices.Clone(in), nil
	}
	if in, err = c.elsewhere(p, func(int) place { return p }); err != nil {
		return nil, err
	}
	if c.given == nil || len(c.given) == mostGiven {
		c.given = map[place][]*tensor.Tensor{}
	}
	c.given[p] = in
	return slices.Clone(in), nil
}

// elsewhere are inputs of a step, of which each is that of a place.
func (c *checker) elsewhere(p place, from func(k int) place) (in []*tensor.Tensor, err error) {
	for k := range c.step.g.Inputs {
		x, err := c.input(k, from(k))
		if err != nil {
			return nil, err
		}
		in = append(in, x)
	}
	return in, nil
}

// found is what all steps are under a contract.
type found struct {
	*judge.Joint
	c    *checker
	k    lower.Contract
	many *judge.Many
	own  bool // the claim's own contract
}

// better reports whether the steps fit this contract better than another.
func (f *found) better(than *found) bool {
	if f.Passes() != than.Passes() {
		return f.Passes()
	}
	wrong := func(f *found) (n int, most float64) {
		for i := range f.Each {
			if f.Each[i].Fails() {
				n++
			}
			most = max(most, f.Each[i].Excess, float64(f.Each[i].Violations))
		}
		return n, most
	}
	n, most := wrong(f)
	m, other := wrong(than)
	return n < m || n == m && most < other
}

// search finds the contract under which the steps are right, or fit best: the claim's own first, and then those that
// explain the first wrong step.
func (c *checker) search() (*found, error) {
	best, err := c.own()
	if err != nil || best.Passes() {
		return best, err
	}
	at := best.worst()
	if _, half := c.claim.Narrow(); half {
		if kind, err := c.kind(at); err != nil || kind == report.FailLogic { // which no roundings explain
			return best, err
		}
		to, err := c.looked(best)
		if err == nil && to.Passes() && c.stats && slices.ContainsFunc(to.Round, ofStatistics) {
			return best, nil
		}
		return to, err
	}
	likely, err := c.likely(best, at)
	if err != nil {
		return nil, err
	}
	return c.first(likely, best, []int{at})
}

// own is what all steps are under the claim's own contract.
func (c *checker) own() (*found, error) {
	k := c.claim.Contracts(c.step.g)[0]
	m := c.many(k)
	plain, err := m.Plain(0)
	if err != nil {
		return nil, err
	}
	f := &found{c: c, k: k, many: m, own: true}
	f.Joint, err = m.Under(plain)
	return f, err
}

// first is the first of some contracts under which all steps are right, or the best of them.
func (c *checker) first(likely []candidate, best *found, at []int) (*found, error) {
	for _, l := range likely {
		var err error
		if best, err = c.try(l, best, at); err != nil || best.Passes() {
			return best, err
		}
	}
	return best, nil
}

// try judges all steps under a contract that explains one, and returns the better of what they are and what they were.
func (c *checker) try(l candidate, best *found, at []int) (*found, error) {
	for _, i := range at {
		if len(c.places) == 1 {
			break
		}
		if one, err := l.many.One(i, l.contract); err != nil || one.Fails() {
			return best, err
		}
	}
	f, err := c.under(l)
	if err != nil || !f.better(best) {
		return best, err
	}
	return f, nil
}

// under judges all steps under a contract.
func (c *checker) under(l candidate) (f *found, err error) {
	f = &found{c: c, k: l.k, many: l.many, own: l.k.Own() && len(l.contract.Round) == 0 && l.contract.Singles == ""}
	f.Joint, err = l.many.Under(l.contract)
	return f, err
}

// candidate is a contract that may explain a step.
type candidate struct {
	k        lower.Contract
	many     *judge.Many
	contract judge.Contract
	off      judge.Distance // how far the step is from it
}

// likely are the forms of operations that may explain a step of single numbers which the claim's own do not, the
// nearest first. In float32 they all have the same exact numbers, and only their errors are of another size.
func (c *checker) likely(plain *found, at int) (all []candidate, err error) {
	exact := c.Mode.Precision != fp16.TF32
	if exact && !c.layer && plain.Each[at].Centre > mostFormed {
		return nil, nil
	}
	off, err := plain.many.Off(plain.Contract, at)
	if err != nil {
		return nil, err
	}
	contracts, err := plain.many.Contracts(at)
	if err != nil {
		return nil, err
	}
	least := off.Mean
	for _, contract := range contracts {
		if contract.String() == plain.String() {
			continue
		}
		far, err := plain.many.Off(contract, at)
		if err != nil {
			return nil, err
		}
		least = min(least, far.Mean)
		all = append(all, candidate{plain.k, plain.many, contract, far})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.off.Mean, b.off.Mean) })
	all = slices.DeleteFunc(all, func(a candidate) bool {
		return !exact && !c.layer && (!a.off.Plainly(off) || a.off.Mean > judge.Nearly*least)
	})
	return all[:min(len(all), mostTried)], nil
}

// worst is the first wrong step; the worst of all where only their sum is wrong.
func (f *found) worst() int {
	if i := f.First(); i >= 0 {
		return i
	}
	worst := 0
	for i := range f.Each {
		if f.Each[i].Excess > f.Each[worst].Excess {
			worst = i
		}
	}
	return worst
}

// faults looks for causes at the first wrong step and the one after it, or in some steps.
func (c *checker) faults(f *found) error {
	n := len(c.places)
	var at []int
	if first := f.First(); first >= 0 {
		at = []int{first}
		for i := first + 1; i < n && len(at) < 2; i++ {
			if c.places[i].batch == c.places[first].batch {
				at = append(at, i)
			}
		}
	} else {
		for k := range min(n, fewLooked) {
			at = append(at, k*(n-1)/max(1, min(n, fewLooked)-1))
		}
		at = slices.Compact(at)
	}
	return f.many.Faults(f.Joint, at, f.First() >= 0)
}
