package judge

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/graph"
)

// A contract is looked for by what it stores: the right one is the nearest to an output, in places of its format. The
// search begins with patterns of whole networks, in each form of the operations, and goes on from the nearest of them,
// one or two roundings at a time, as long as that plainly brings it nearer. Two, for a value and what reads it may
// belong together: where the reader is rounded, not to store the value may change nothing, and the other way round.

// finder compares contracts by a part of a question.
type finder struct {
	q, few *Question
	also   []*Question // of other outputs of the same graph, which the contract is to explain, too
	types  []graph.Type
	forms  []Form
	all    []Contract
	off    []Distance      // of each
	some   map[string]bool // the steps of which only some elements are rounded, as those of a row's last, partial vector
}

// finder returns one that has compared all candidates; of fewer than three it need not.
func (q *Question) finder(types []graph.Type, also ...*Question) (*finder, error) {
	s := &finder{
		q: q, few: q.few(types), also: also, types: types, forms: q.forms(types), all: q.candidates(types),
		some: map[string]bool{},
	}
	for _, p := range s.expand(Form{written: q.Written}).points {
		if p.some {
			s.some[p.name] = true
		}
	}
	if len(s.all) < 3 {
		return s, nil
	}
	return s, s.compare()
}

// compare compares all candidates.
func (s *finder) compare() error {
	for _, c := range s.all {
		off, err := s.distance(c)
		if err != nil {
			return err
		}
		s.off = append(s.off, off)
	}
	return nil
}

// likely are the contracts that explain an output best.
func (q *Question) likely(types []graph.Type, also ...*Question) ([]Contract, error) {
	s, err := q.finder(types, also...)
	if err != nil {
		return nil, err
	}
	if s.off == nil {
		return s.all, nil
	}
	first := s.starts()[0]
	contracts, err := s.from(first)
	if err != nil || first == 0 {
		return contracts, err
	}
	plain, err := s.from(0) // what is nearest may be so by chance, where numbers share all their errors
	return append(contracts, plain...), err
}

// found is the best trial of a contract that is looked for.
func (q *Question) found(types []graph.Type) (best *trial, err error) {
	s, err := q.finder(types)
	if err != nil {
		return nil, err
	}
	if s.off == nil {
		if best, err = q.best(types, s.all, nil); err != nil {
			return nil, err
		}
		return s.inParts(best)
	}
	starts := s.starts()
	if q.built.id != "" { // of which there are many
		starts = starts[:1]
	}
	var tried []Contract
	for _, i := range starts {
		contracts, err := s.from(i)
		if err != nil {
			return nil, err
		}
		contracts = slices.DeleteFunc(contracts, func(c Contract) bool { return slices.ContainsFunc(tried, c.equal) })
		tried = append(tried, contracts...)
		if best, err = q.best(types, contracts, best); err != nil || best.passes() {
			return best, err
		}
	}
	if plain := (Contract{Form: Form{written: q.Written}}); q.Operands == "" && !slices.ContainsFunc(tried, plain.equal) {
		best, err = q.best(types, []Contract{plain}, best) // a fault may explain more than roundings do
	}
	if err == nil {
		best, err = s.beside(best)
	}
	if err != nil {
		return nil, err
	}
	return s.inParts(best)
}

// distance is how far an output is from what a contract stores. Of a step of which only some elements are rounded,
// which they are is not known: each is as near as it is with the rounding or without.
func (s *finder) distance(c Contract) (far Distance, err error) {
	for _, q := range append([]*Question{s.few}, s.also...) {
		y, err := q.made(c)
		if err != nil {
			return far, err
		}
		made := [][]float64{y}
		if slices.ContainsFunc(c.Round, func(name string) bool { return s.some[name] }) {
			all := *q
			all.everywhere = true
			if y, err = all.made(c); err != nil {
				return far, err
			}
			made = append(made, y)
		}
		far = far.and(q.distance(made...))
	}
	return far, nil
}

// starts are the candidates from which the search goes on, the nearest first, no two of which differ by their form
// alone, but for the way in which operands are rounded. What is nearest by chance leads astray: before it comes the
// one of the fewest roundings than which it is not plainly nearer.
func (s *finder) starts() (starts []int) {
	ranked := s.ranked()
	first := slices.IndexFunc(s.off, func(o Distance) bool { return !s.off[ranked[0]].Plainly(o) })
	for _, i := range append([]int{first}, ranked...) {
		again := func(k int) bool {
			return slices.Equal(s.all[k].Round, s.all[i].Round) && s.all[k].Operands == s.all[i].Operands
		}
		if len(starts) < mostStarts && !slices.ContainsFunc(starts, again) {
			starts = append(starts, i)
		}
	}
	return starts
}

// ranked are the candidates, the nearest first.
func (s *finder) ranked() []int {
	ranked := make([]int, len(s.all))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(s.off[a].Mean, s.off[b].Mean) })
	return ranked
}

// from are the contracts to try from a candidate on, those of the fewest roundings first.
func (s *finder) from(i int) ([]Contract, error) {
	c, off, err := s.climb(s.all[i], s.off[i])
	if err != nil {
		return nil, err
	}
	if off.Mean < s.off[i].Mean {
		return []Contract{{Form: Form{written: s.q.Written}}, c, s.all[i]}, nil
	}
	return s.nearest(i), nil
}

// few is the part of a question by which contracts are compared.
func (q *Question) few(types []graph.Type) *Question {
	if q.built.whole() {
		return q
	}
	if p := q.queries(mostScores); p != nil {
		return &p[len(p)-1] // which sees all keys
	}
	if q.built.id != "" { // which may mix rows
		return q
	}
	if p := q.cut(types, mostRanked); p != nil {
		return &p[0]
	}
	return q
}

// nearest are the candidates that are about as near as one of them, mostTried of them, in their order.
func (s *finder) nearest(to int) (near []Contract) {
	ranked := s.ranked()
	most := Nearly*s.off[to].Mean + fewPlaces/float64(max(1, len(s.few.Output.Data)))
	ranked = slices.DeleteFunc(ranked[:min(len(ranked), mostTried)], func(i int) bool { return s.off[i].Mean > most })
	if !slices.Contains(ranked, to) {
		ranked = append(ranked, to)
	}
	slices.Sort(ranked)
	for _, i := range ranked {
		near = append(near, s.all[i])
	}
	return near
}

// change is one move of the search: some steps are rounded that were not, or the other way round, or operations have
// another form.
type change struct {
	round []string
	form  Form
}

// change returns a contract with a change.
func (s *finder) change(c Contract, by change) Contract {
	to := Contract{c.Form, slices.Clone(c.Round)}
	for _, name := range by.round {
		if i := slices.Index(to.Round, name); i >= 0 {
			to.Round = slices.Delete(to.Round, i, i+1)
		} else {
			to.Round = append(to.Round, name)
		}
	}
	if to.Form = c.Form.with(by.form); to.Form != c.Form { // which may lack a step
		names := s.expand(to.Form).names()
		to.Round = slices.DeleteFunc(to.Round, func(name string) bool { return !slices.Contains(names, name) })
	}
	return to
}

// names are those of steps that may be rounded to a half format.
func (s *finder) names(b *builder) []string {
	if !s.q.Narrow.Half() {
		return nil
	}
	return b.names()
}

func (s *finder) expand(f Form) *builder { return expand(s.q.Graph, s.types, f, s.q.built) }

// single are the changes of one step, and of the form: by itself, and with each of the steps that only it has.
func (s *finder) single(b *builder) (all []change) {
	names := s.names(b)
	for _, name := range some(names, len(b.Nodes)) {
		all = append(all, change{round: []string{name}})
	}
	for _, f := range s.forms {
		to := b.form.with(f)
		if to == b.form {
			continue
		}
		all = append(all, change{form: f})
		for _, name := range some(s.names(s.expand(to)), len(b.Nodes)) {
			if !slices.Contains(names, name) {
				all = append(all, change{round: []string{name}, form: f})
			}
		}
	}
	also := func(f Form) {
		if !slices.ContainsFunc(all, func(o change) bool { return o.form == f }) {
			all = append(all, change{form: f})
		}
	}
	for i := range s.q.Graph.Nodes {
		n := &s.q.Graph.Nodes[i]
		if _, is := b.form.narrow(n.Op); is && s.q.hasScalars(n, s.q.Narrow) {
			also(Form{Scalars: but(b.form.Scalars, n.Op.Name())})
		}
	}
	for _, name := range s.q.multiplying() {
		if _, is := b.form.operand(name, len(s.q.Graph.Nodes)); is {
			also(Form{Operands: but(b.form.Operands, name)})
		}
	}
	for _, f := range s.q.singles(b.form) {
		also(f)
	}
	return all
}

// pairs are the changes of a step and of the next that reads it.
func (s *finder) pairs(b *builder) (all []change) {
	if !s.q.Narrow.Half() {
		return nil
	}
	for _, pair := range some(b.pairs(), len(b.Nodes)) {
		all = append(all, change{round: pair[:]})
	}
	return all
}

// climb goes from a contract to nearer ones.
func (s *finder) climb(c Contract, off Distance) (Contract, Distance, error) {
	// of which all are candidates
	small := len(s.q.Graph.Nodes) < 2 && c.Scaled == "" && len(s.expand(c.Form).names()) <= pairedNames
	for moved := !small && (s.q.Narrow.Half() || c.Operands != ""); moved && off.Mean > 0; {
		moved = false
		b := s.expand(c.Form)
		for _, changes := range [][]change{s.single(b), s.pairs(b)} {
			to, o, err := s.step(c, off, changes)
			if err != nil {
				return c, off, err
			}
			if o.Mean < off.Mean {
				c, off, moved = to, o, true
				break
			}
		}
	}
	return c, off, nil
}

// step makes those of some changes that bring a contract nearer, the one that does most first, and each of the others
// if it does so still.
func (s *finder) step(c Contract, off Distance, changes []change) (Contract, Distance, error) {
	alone := make([]Distance, len(changes))
	ranked := []int{}
	for i, by := range changes {
		var err error
		if alone[i], err = s.distance(s.change(c, by)); err != nil {
			return c, off, err
		}
		if alone[i].Plainly(off) {
			ranked = append(ranked, i)
		}
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(alone[a].Mean, alone[b].Mean) })
	for k, i := range ranked {
		to := s.change(c, changes[i])
		o := alone[i]
		if k > 0 {
			if !s.knows(to) {
				continue
			}
			var err error
			if o, err = s.distance(to); err != nil {
				return c, off, err
			}
		}
		if o.Plainly(off) {
			c, off = to, o
		}
	}
	return c, off, nil
}

// knows reports whether the steps of a contract's form are all there.
func (s *finder) knows(c Contract) bool {
	_, err := s.expand(c.Form).values(c.Round)
	return err == nil
}

// pairs are the names of steps that may be rounded with those of the next such steps that read them, in order.
func (b *builder) pairs() (all [][2]string) {
	names := map[int]string{}
	for _, p := range b.points {
		if p.legal && !p.moved {
			names[p.value] = p.name
		}
	}
	before := make([][]string, len(b.Values)) // the last such steps of which a value is made
	seen := map[[2]string]bool{}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		var of []string
		for _, v := range n.In {
			for _, name := range before[v] {
				if len(of) < mostBefore && !slices.Contains(of, name) {
					of = append(of, name)
				}
			}
		}
		for _, v := range n.Out {
			before[v] = of
			name, is := names[v]
			if !is {
				continue
			}
			before[v] = []string{name}
			for _, a := range of {
				if pair := [2]string{a, name}; a != name && !seen[pair] {
					seen[pair] = true
					all = append(all, pair)
				}
			}
		}
	}
	return all
}

// patterns are what whole networks store: the results of products; those, and what products read, as where a compiler
// makes one kernel of all between them; what products read, and products but those that are only added to or multiplied
// further, as kernels of attention keep them; of all operations but those of one number; of all that autocast does not
// compute in float32; and of all.
func (q *Question) patterns(b *builder) (all [][]string) {
	known := map[string]bool{}
	for _, name := range b.names() {
		known[name] = true
	}
	read := make([]bool, len(q.Graph.Values))    // by a product, as it is or moved
	further := make([]bool, len(q.Graph.Values)) // in one that takes it number by number
	for i := len(q.Graph.Nodes) - 1; i >= 0; i-- {
		n := &q.Graph.Nodes[i]
		if multiplied(n.Op) || moves[n.Op.Name()] && read[n.Out[0]] {
			for _, v := range n.In {
				read[v] = true
			}
		}
		if _, is := n.Op.(graph.Binary); is {
			for _, v := range n.In {
				further[v] = true
			}
		}
	}
	for _, stored := range []func(n *graph.Node) bool{
		func(n *graph.Node) bool { return multiplied(n.Op) },
		func(n *graph.Node) bool { return multiplied(n.Op) || read[n.Out[0]] },
		func(n *graph.Node) bool { return multiplied(n.Op) && !further[n.Out[0]] || read[n.Out[0]] },
		func(n *graph.Node) bool { return !ofOne(n.Op) },
		func(n *graph.Node) bool { return multiplied(n.Op) || ofOne(n.Op) },
		func(n *graph.Node) bool { return true },
	} {
		var names []string
		for i := range q.Graph.Nodes {
			n := &q.Graph.Nodes[i]
			if name := q.Graph.Values[n.Out[0]].Name; stored(n) && known[name] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 && !slices.ContainsFunc(all, func(o []string) bool { return slices.Equal(o, names) }) {
			all = append(all, names)
		}
	}
	return all
}

// multiplied reports whether an operation is one of libraries of products.
func multiplied(op graph.Op) bool {
	_, is := op.(graph.Attention)
	return is || products[op.Name()]
}

// ofOne reports whether each result of an operation is of one number of each input.
func ofOne(op graph.Op) bool {
	switch op.(type) {
	case graph.Unary, graph.Act, graph.Binary, graph.Cast:
		return true
	}
	return moves[op.Name()]
}
