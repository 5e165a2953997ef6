package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/kernel"
	"github.com/refrun/refrun/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Question is one evaluation of a graph and what a kernel made of it.
type Question struct {
	Graph *graph.Graph // with one output
	// Inputs are those of the graph, as the kernel had them: of a format whose numbers they are, or
	// whole.
	Inputs []*tensor.Tensor
	// Output is what the kernel returned, in the format in which it stores.
	Output *tensor.Tensor
	// Claimed is how the kernel says it computes; nil to find out.
	Claimed *Contract
	// Narrow is the format to which steps may be rounded. Float64, the zero value, is that of
	// the narrowest input.
	Narrow fp16.Format
	// Shallow leaves out the faults of single steps that are rounded, one for each step.
	Shallow bool

	whole  []int // of a piece: the shape of the whole output
	offset int   // of a piece: where it begins in it
}

// Contract is how a kernel computes.
type Contract struct {
	Form
	// Round are the steps whose results are rounded to the inputs' format, by name.
	Round []string `json:"round,omitempty"`
}

// String says it in words.
func (c Contract) String() string {
	s := "float32 steps, one rounding at the end"
	if len(c.Round) > 0 {
		s = "float32 steps, rounded: "
		for i, r := range c.Round {
			if i > 0 {
				s += ", "
			}
			s += r
		}
	}
	switch {
	case c.OnePass:
		s += "; one-pass variance"
	case c.Affine:
		s += "; a norm as x*scale + shift"
	}
	if c.Operands != "" {
		s += "; operands of products in " + c.Operands
	}
	if c.Scalars != "" {
		s += "; scalars in " + c.Scalars
	}
	if c.Accumulate != "" {
		s += "; sums kept in " + c.Accumulate
	}
	for _, form := range []struct {
		is    bool
		words string
	}{{c.Symmetric, "a sigmoid as 1/2 + tanh(x/2)/2"}, {c.BiasAfter, "the bias added to the stored product"}, {c.Taps, "tap by tap"}} {
		if form.is {
			s += "; " + form.words
		}
	}
	if c.CoarseExp {
		s += "; exp by a cubic polynomial"
		if c.Lanes > 0 {
			s += fmt.Sprintf(", of %d at a time", c.Lanes)
		}
	}
	if c.Online {
		s += "; sums divided by after the product"
		if c.BlockKeys > 0 {
			s += fmt.Sprintf(", %d keys at a time", c.BlockKeys)
		}
	}
	return s
}

// Verdicts.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	NoPower = "NO-POWER" // this data would not tell a right kernel from one that returns zeros, or a constant
)

// Report is the answer.
type Report struct {
	Verdict  string   `json:"verdict"`
	Store    string   `json:"store"`
	Elements int      `json:"elements"`
	Contract Contract `json:"contract"` // under which the output is right, or fits best
	Claimed  bool     `json:"claimed"`  // whether it is the claimed one
	// Reason is why it does not pass, in one line.
	Reason string `json:"reason,omitempty"`
	// Violations are elements that no right kernel returns.
	Violations int    `json:"violations"`
	Worst      *Worst `json:"worst,omitempty"`
	// Flips are elements that are not the exact value's nearest number; Expected is how many
	// simulated right kernels have at most.
	Flips    int `json:"flips"`
	Expected int `json:"flips_of_right_kernels"`
	// Errors is the mean square of the errors over that of simulated right kernels: near 1 or below.
	Errors float64 `json:"errors"`
	// Power is the mean square from which on errors everywhere would be seen; 0 if right kernels have none.
	Power float64 `json:"power,omitempty"`
	// Region is where errors are too large, if it is in one place.
	Region string `json:"region,omitempty"`
	// Fault is the name of the fault that explains the errors, and Advice what to do.
	Fault  string `json:"fault,omitempty"`
	Advice string `json:"advice,omitempty"`
	// Blind are faults that these inputs would not show.
	Blind []string `json:"blind,omitempty"`
	// Order is the order of k in which a product was summed, of those that were tried; nil of other kernels.
	Order *kernel.Order `json:"order,omitempty"`
	// Close is what torch.testing.assert_close with its defaults finds: how many elements are off.
	Close int `json:"assert_close_mismatches"`
}

// Worst is the element farthest outside its interval, or farthest off.
type Worst struct {
	Index []int  `json:"index"`
	Got   string `json:"got"`
	Exact string `json:"exact"`
	Low   string `json:"low"`
	High  string `json:"high"`
}

// trial is an output under one contract.
type trial struct {
	Contract
	b      *builder
	round  rounded
	y, r   []float64   // of the output
	sigma  []float64   // the deviation that the last step's own errors have; nil is none
	stored []float64   // y, rounded
	right  [][]float64 // outputs of simulated right kernels
	e      []float64   // expected squares of errors
	others []counted   // errors of each simulated kernel, by what is expected without it; nil if they are not known
	tally
	ways
	excess float64 // how far the worst statistic is above its limit; above 1 it fails
	region string
	fault  *found
	blind  []string
	zero   float64 // how plainly zeros would be seen, over the limit
}

// passes reports whether the output is right under the contract.
func (t *trial) passes() bool { return t.violations == 0 && t.excess <= 1 && t.fault == nil }

// Check answers. A graph that does not fit the inputs, one with an operation of which it is not
// known what right kernels return, and a claimed step that there is not are errors.
//
// Of a large question the contract and the faults are looked for in its first rows, and the others are
// held to that contract.
func Check(q Question) (*Report, error) {
	if len(q.Graph.Outputs) != 1 {
		return nil, fmt.Errorf("%d outputs: want one", len(q.Graph.Outputs))
	}
	q.Graph = q.withScalars()
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	if q.Narrow == fp16.Float64 {
		q.Narrow = q.narrowest()
	}
	want := types[q.Graph.Outputs[0]]
	if !slices.Equal(want.Shape, q.Output.Shape) {
		return nil, fmt.Errorf("output of shape %v: want %v", q.Output.Shape, want.Shape)
	}
	store := q.Output.Format
	if store == fp16.Int64 { // of which every one is a float64 number
		q.Output = &tensor.Tensor{Format: fp16.Float64, Shape: q.Output.Shape, Data: q.Output.Data}
	}
	q.whole = q.Output.Shape
	first, rest := q.pieces(types)
	t, err := first.search()
	if err != nil {
		return nil, err
	}
	if err := first.narrowed(t); err != nil {
		return nil, err
	}
	if t, err = t.with(rest); err != nil {
		return nil, err
	}
	r := q.report(t)
	r.Store = store.String()
	if r.Verdict == Pass {
		r.Order = q.order()
	}
	return r, nil
}

// withScalars is the graph with the scalars of comparisons in the format of what is compared, and those of
// remainders and the like in float32, as [graph.Binary] has them: a little to the other side of an edge they
// give another result altogether.
func (q *Question) withScalars() *graph.Graph {
	g := *q.Graph
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		op, is := n.Op.(graph.Binary)
		if !is {
			continue
		}
		f := fp16.Float32
		switch op.Of {
		case pointwise.Add, pointwise.Sub, pointwise.Mul, pointwise.Div, pointwise.Pow, pointwise.Maximum, pointwise.Minimum, pointwise.FMax, pointwise.FMin:
			continue
		case pointwise.Equal, pointwise.NotEqual, pointwise.Less, pointwise.LessEqual, pointwise.Greater, pointwise.GreaterEqual:
			if k := slices.Index(g.Inputs, n.In[0]); k >= 0 && k < len(q.Inputs) {
				f = q.Inputs[k].Format
			}
		}
		if f != fp16.Int64 {
			n.Op = withScalars(op, f)
		}
	}
	return &g
}

// search finds the contract under which a piece is right, or fits best.
func (q *Question) search() (*trial, error) {
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	contracts := []Contract{}
	if q.Claimed != nil {
		contracts = append(contracts, *q.Claimed)
		if q.Claimed.Operands == "tf32" { // devices round to it in three ways
			for _, way := range []string{"tf32 ties away", "tf32 truncated"} {
				c := *q.Claimed
				c.Operands = way
				contracts = append(contracts, c)
			}
		}
	} else if contracts, err = q.likely(types); err != nil {
		return nil, err
	}
	best, err := q.best(types, contracts, nil)
	if err == nil && q.Claimed == nil && !best.passes() && !slices.ContainsFunc(contracts, Contract.plain) {
		best, err = q.best(types, []Contract{{}}, best) // a fault may explain more than roundings do
	}
	return best, err
}

// best is the best of a trial and those of contracts; the first that passes ends it.
func (q *Question) best(types []graph.Type, contracts []Contract, best *trial) (*trial, error) {
	for _, c := range contracts {
		t, err := q.try(types, c, true)
		if err != nil {
			return nil, err
		}
		if best == nil || t.better(best) {
			best = t
		}
		if t.passes() {
			break
		}
	}
	return best, nil
}

// plain reports whether a contract says nothing.
func (c Contract) plain() bool { return c.Form == Form{} && len(c.Round) == 0 }

// better reports whether an output fits this contract better than another.
func (t *trial) better(than *trial) bool {
	switch {
	case t.passes() != than.passes():
		return t.passes()
	case (t.fault == nil) != (than.fault == nil):
		return than.fault == nil // one with a name
	case t.fault != nil && math.Abs(t.fault.left-than.fault.left) > .01:
		return t.fault.left < than.fault.left
	case t.violations != than.violations:
		return t.violations < than.violations
	}
	return t.excess < than.excess
}

// types infers the types of all values in float64.
func (q *Question) types() ([]graph.Type, error) {
	if len(q.Inputs) != len(q.Graph.Inputs) {
		return nil, fmt.Errorf("%d inputs: want %d", len(q.Inputs), len(q.Graph.Inputs))
	}
	types := make([]graph.Type, len(q.Graph.Values))
	wide := func(t *tensor.Tensor) graph.Type {
		if t.Format == fp16.Int64 {
			return graph.Type{Shape: t.Shape, Format: t.Format}
		}
		return graph.Type{Shape: t.Shape, Format: fp16.Float64}
	}
	for k, v := range q.Graph.Inputs {
		types[v] = wide(q.Inputs[k])
	}
	for v := range q.Graph.Values {
		if c := q.Graph.Values[v].Const; c != nil {
			types[v] = wide(c)
		}
	}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		var in []graph.Type
		for _, v := range n.In {
			in = append(in, types[v])
		}
		out, err := n.Op.Infer(graph.Mode{Precision: fp16.Float64}, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Op.Name(), err)
		}
		for k, v := range n.Out {
			if types[v] = out.Out[k]; types[v].Format != fp16.Int64 { // of a cast too
				types[v].Format = fp16.Float64
			}
		}
	}
	return types, nil
}

// narrowest returns the narrowest format of an input; of float32 ones that.
func (q *Question) narrowest() fp16.Format {
	f := fp16.Float32
	for _, t := range q.Inputs {
		if t.Format == fp16.Float16 || t.Format == fp16.BFloat16 {
			f = t.Format
		}
	}
	return f
}

// candidates are the contracts that right kernels have, those of the fewest roundings first.
func (q *Question) candidates(types []graph.Type) []Contract {
	forms := []Form{{}}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		switch op := n.Op.(type) {
		case graph.Binary:
			if _, half := accumulators[q.Narrow.String()]; half && !sameScalars(op, withScalars(op, q.Narrow)) {
				forms = append(forms, Form{Scalars: q.Narrow.String()}, Form{Scalars: q.Narrow.String() + butProducts})
			}
		case graph.Unary, graph.Act:
			if kernels["symmetric "+op.Name()].off != nil {
				forms = append(forms, Form{Symmetric: true})
			}
		case graph.Conv, graph.Convolution, graph.ConvTranspose, graph.Linear:
			if q.Narrow == fp16.Float32 {
				break
			}
			if len(n.In) > 2 {
				forms = append(forms, Form{BiasAfter: true})
			}
			if isTransposed(op) {
				forms = append(forms, Form{Taps: true})
			}
		case graph.LayerNorm, graph.GroupNorm, graph.InstanceNorm, graph.BatchNorm:
			forms = append(forms, Form{Affine: true})
		case graph.Attention:
			blocks := []int{0, 16, 32, 64, 128, 256, 512}
			if q.Narrow == fp16.Float32 { // which changes next to nothing
				blocks = blocks[:1]
			}
			for _, block := range blocks {
				forms = append(forms, Form{Online: true, BlockKeys: block})
			}
			if q.Narrow == fp16.Float32 {
				break
			}
			k := types[n.In[1]].Shape
			for _, block := range []int{0, 512} {
				for _, lanes := range []int{0, 8, 16} {
					if lanes == 0 || k[len(k)-2]%lanes > 0 {
						forms = append(forms, Form{Online: true, BlockKeys: block, CoarseExp: true, Lanes: lanes})
					}
				}
			}
		}
	}
	var all []Contract
	forms = distinct(forms)
	for _, f := range forms {
		if f.BlockKeys == 0 {
			all = append(all, Contract{Form: f})
		}
	}
	if q.Narrow == fp16.Float32 {
		return all
	}
	for _, f := range forms {
		if f.BlockKeys > 0 || f.CoarseExp { // which change little but where they are rounded
			for _, name := range expand(q.Graph, types, f, "", "").names() {
				if strings.HasSuffix(name, "probabilities_unnormalized") { // of a chain, with its operation's name
					all = append(all, Contract{f, []string{name}})
				}
			}
			continue
		}
		b := expand(q.Graph, types, f, "", "")
		names := b.names()
		if inner := b.inner; len(inner) > 1 && len(inner) < len(names) { // one operation after the other
			all = append(all, Contract{f, inner})
		}
		for _, n := range names {
			all = append(all, Contract{f, []string{n}})
		}
		if len(names) < 2 {
			continue
		}
		if all = append(all, Contract{f, names}); len(names) > pairedNames {
			continue
		}
		for i, a := range names {
			for _, b := range names[i+1:] {
				if len(names) > 2 {
					all = append(all, Contract{f, []string{a, b}})
				}
			}
		}
	}
	return all
}

// distinct leaves out what was there before.
func distinct(forms []Form) (all []Form) {
	for _, f := range forms {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// points returns the values of those names.
func (b *builder) values(names []string) ([]int, error) {
	var of []int
	for _, n := range names {
		found := false
		for _, p := range b.points {
			if p.name == n {
				of, found = append(of, p.value), true
			}
		}
		if !found {
			var known []string
			for _, p := range b.points {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("round: %.60q: want a step of %v", n, known)
		}
	}
	return of, nil
}

// try judges the output under a contract, and looks for faults in it or not.
func (q *Question) try(types []graph.Type, c Contract, faults bool) (*trial, error) {
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, "", "")}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round = t.b.rounds(values, q.Narrow)
	t.b.cores = c.Accumulate == "" && (q.Narrow != fp16.Float32 || c.Operands != "")
	f := q.Output.Format
	kernels := 2
	if faults {
		kernels = simulations(len(q.Output.Data))
	}
	if f == fp16.Float32 && !t.b.multiplies() {
		kernels = max(kernels, leastCompared)
	}
	flips := f == fp16.Float32 && len(t.round) > 0 // which a coarser store hides
	if err := q.simulate(types, t, kernels, flips); err != nil {
		return nil, err
	}
	t.stored = make([]float64, len(t.y))
	f.RoundSlice(t.stored, t.y)
	var flipped []float64
	if flips {
		flipped, t.right = t.right[kernels], t.right[:kernels]
	}
	t.expect(f, flipped)
	q.statistics(t)
	q.count(t)
	if faults {
		return t, q.faults(types, t)
	}
	return t, nil
}

// simulations is how many right kernels are simulated.
func simulations(elements int) int {
	switch {
	case elements <= 1<<12:
		return 32
	case elements <= 1<<16:
		return 8
	case elements <= 1<<19:
		return 4
	}
	return 2
}

// interval is where right kernels may be.
func (t *trial) interval(f fp16.Format, i int) (lo, hi float64) {
	y, r := t.y[i], t.r[i]
	if math.IsInf(r, 1) {
		return math.Inf(-1), math.Inf(1)
	}
	return f.Round(y - r), f.Round(y + r)
}

// expect sets the expected squares of errors: half from the simulations, element by element, those of the
// kind of kernel that has the larger ones, and half from the bound, scaled to them, which is smoother. They
// are no less than those of the kernel whose roundings go the other way, if there is one. Of float32 results
// it counts each simulated kernel's errors too, by what is expected without that one.
func (t *trial) expect(f fp16.Format, flipped []float64) {
	model := make([]float64, len(t.y))
	for i := range model {
		model[i] = t.model(f, i)
	}
	t.e = t.without(-1, model, flipped)
	if f == fp16.Float32 && len(t.right) >= leastCompared*t.kinds() && (len(t.y) <= mostCompared || !t.b.multiplies()) {
		for m, k := range t.right {
			t.others = append(t.others, t.counted(f, k, t.without(m, model, flipped)))
		}
	}
}

// leastCompared simulated kernels are compared with what is expected without them, where elements share an
// error, as those of a row do whose mean is off. Of more than mostCompared results that are products they are not.
const (
	leastCompared = 4
	mostCompared  = 1 << 16
)

// multiplies reports whether there are products, whose errors are each element's own.
func (b *builder) multiplies() bool {
	return slices.ContainsFunc(b.Nodes, func(n graph.Node) bool { return products[n.Op.Name()] })
}

// kinds are one for units that truncate, which every second kernel has, and one for others.
func (t *trial) kinds() int {
	if t.b.cores {
		return 2
	}
	return 1
}

// without are the squares that are expected without simulated kernel k; -1 is none of them.
func (t *trial) without(k int, model, flipped []float64) []float64 {
	e, kinds := make([]float64, len(t.y)), t.kinds()
	var all, most float64
	for i := range e {
		for kind := range kinds {
			mean, n := 0.0, len(t.right)/kinds
			if k >= 0 && k%kinds == kind {
				n--
			}
			for m := kind; m < len(t.right); m += kinds {
				if d := t.right[m][i] - t.stored[i]; m != k && d-d == 0 {
					mean += d * d / float64(n)
				}
			}
			e[i] = max(e[i], mean)
		}
		if s := model[i]; s-s == 0 {
			all += e[i]
			most += s
		}
	}
	for i := range e {
		if s := model[i]; s-s == 0 && most > 0 {
			e[i] = e[i]/2 + s*all/most/2
		}
		if flipped != nil {
			if d := flipped[i] - t.stored[i]; d-d == 0 {
				e[i] = max(e[i], d*d)
			}
		}
	}
	return e
}

// model is what an element's squared error is in proportion to: of errors far below the distance of
// stored numbers their chance to change one, and of others the error's square.
func (t *trial) model(f fp16.Format, i int) float64 {
	return t.r[i] * (t.r[i] + f.Ulp(t.stored[i]))
}
