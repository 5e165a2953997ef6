package judge

import (
	"errors"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Faults looks for what lies along a fault, at some evaluations: sum(e d w) over sum(d d w), of all of them together,
// is how much of it there is. It sets Cause, and Blind. If all is set, faults of single operations are tried too, and
// those that leave something open, such as an eps: that takes time, and only says why an output is wrong.
func (m *Many) Faults(j *Joint, at []int, all bool) error {
	s := &search{Many: m, j: j, all: all, left: mostRemembered}
	for _, i := range at {
		if err := s.add(i); err != nil {
			return err
		}
	}
	if e := &j.Each[at[0]]; e.Violations > 0 && e.Excess <= 1 { // all but numbers that should be none, or are none
		return nil
	}
	if err := s.operations(); err != nil {
		return err
	}
	for _, o := range outputs {
		if f := named(o.id); f != nil {
			if err := s.consider(*f, false, func(p *probe) ([]float64, error) { return o.make(p.q, p.t), nil }); err != nil {
				return err
			}
		}
	}
	for _, o := range m.Others {
		if err := s.other(o, nil); err != nil {
			return err
		}
	}
	if err := s.small(); err != nil {
		return err
	}
	if err := s.rewrites(); err != nil {
		return err
	}
	return s.date()
}

// small considers what may hide below the errors of right evaluations.
func (s *search) small() error {
	if s.Small == nil || s.all || s.at[0].kept == nil {
		return nil
	}
	all, err := s.Small()
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := s.other(o, nil); err != nil {
			return err
		}
	}
	return nil
}

// other considers another answer.
func (s *search) other(o Other, local func(now, was *tensor.Tensor) bool) error {
	was := s.j.Cause
	err := s.consider(o.Fault, o.Any, func(p *probe) ([]float64, error) {
		y, err := s.Many.other(p, o, s.j.Contract, local)
		if o.Still && p == &s.at[0] {
			s.still = y
		}
		return y, err
	})
	switch now := s.j.Cause; {
	case now == was:
	case o.Power:
		s.j.Cause = was
	case o.Called != nil:
		now.Title = o.Called(now.Amount)
	}
	return err
}

// stopped reports whether there is no time to look for more. What right evaluations would not show is looked for in any
// case.
func (s *search) stopped() bool { return s.all && s.Stop != nil && s.Stop() }

// explained reports whether the cause leaves what right kernels' errors are, and next to nothing of what is wrong.
func (s *search) explained() bool {
	left := s.squares - s.gain
	return s.all && left <= leftEach*float64(s.n) && left <= leftLess*s.squares
}

// rewrites considers graphs with faults. A fault changes the output by about as much, in proportion, as the first
// result that it changes: of one that does far more or far less there, what follows is not evaluated.
func (s *search) rewrites() error {
	if s.Rewrites == nil || !s.all || s.stopped() {
		return nil
	}
	groups, err := s.Rewrites()
	if err != nil {
		return err
	}
	change := s.change()
	for i, group := range groups {
		if i > 0 && s.j.Cause != nil || s.explained() {
			return nil
		}
		for _, o := range group {
			if s.stopped() {
				return nil
			}
			least := change / far
			if o.Everywhere { // the first of many changes may be a small part of all
				least /= far
			}
			local := func(now, was *tensor.Tensor) bool {
				local := relativeChange(now, was)
				return !(local > far*change || local < least)
			}
			if o.Given {
				local = nil
			}
			if err := s.other(o, local); err != nil || s.explained() {
				return err
			}
			if k := s.at[0].kept; k != nil && k.numbers > mostRewritten {
				return nil
			}
		}
	}
	return nil
}

// change is how much the first evaluation is off, in proportion to what the steps do to it.
func (s *search) change() float64 {
	p := &s.at[0]
	if s.still == nil {
		return relativeChange(p.q.Output, tensor.Of(fp16.Float64, p.t.y, p.q.Output.Shape...))
	}
	var off, does float64
	for i, y := range p.t.y {
		off += float64((p.q.Output.Data[i] - y) * (p.q.Output.Data[i] - y))
		does += float64((s.still[i] - y) * (s.still[i] - y))
	}
	return math.Sqrt(off / does)
}

// relativeChange is the root mean square of what has changed over that of what there was, about the mean of each plane.
func relativeChange(now, was *tensor.Tensor) float64 {
	plane := planeOf(was.Shape)
	var off, size float64
	for lo := 0; lo < len(was.Data); lo += plane {
		x, y, mean := now.Data[lo:lo+plane], was.Data[lo:lo+plane], 0.0
		for _, v := range y {
			mean += v / float64(plane)
		}
		for i, v := range y {
			off += float64((x[i] - v) * (x[i] - v))
			size += float64((v - mean) * (v - mean))
		}
	}
	return math.Sqrt(off / size)
}

// search is that for causes.
type search struct {
	*Many
	j       *Joint
	all     bool // faults of single operations too, of an evaluation that is wrong
	at      []probe
	left    int     // the numbers that may still be kept
	squares float64 // of all errors
	n       int
	gain    float64   // of the cause
	still   []float64 // what a step that does nothing makes of the first evaluation; nil if that is not known
	// made makes the cause, any says that of any amount, and limit is what it takes to be found.
	made  func(p *probe) ([]float64, error)
	any   bool
	limit float64
}

// probe is an evaluation at which faults are looked for.
type probe struct {
	i      int
	q      *Question
	t      *trial
	w      []float64
	kept   *remembered // nil if that is too much
	ed, dd float64     // of the fault at work
}

func (s *search) add(i int) error {
	p, err := s.probe(i, func(q *Question, types []graph.Type) (*trial, error) {
		return q.tryThin(types, s.j.Contract, s.Cores, s.Bounds)
	})
	if err != nil {
		return err
	}
	if p.kept, err = p.q.keep(p.t.b, p.t.round, s.left); err != nil {
		return err
	}
	if p.kept == nil && len(s.at) > 0 { // of a large graph one is enough
		return nil
	} else if p.kept != nil {
		s.left -= p.kept.size
	}
	s.at = append(s.at, p)
	s.squares += p.q.squares(p.t, p.w, p.q.Output.Data)
	s.n += len(p.t.y)
	return nil
}

// probe is an evaluation, by the trial that is kept of it or by another one.
func (s *search) probe(i int, try func(q *Question, types []graph.Type) (*trial, error)) (probe, error) {
	q, types, err := s.question(i, s.At)
	if err != nil {
		return probe{}, err
	}
	t := s.j.of.trials[i]
	if t == nil {
		if t, err = try(q, types); err != nil {
			return probe{}, err
		}
	}
	if t.turns = s.j.Each[i].flips; t.turns != nil {
		less := *q
		less.Output = tensor.Of(q.Output.Format, slices.Clone(q.Output.Data), q.Output.Shape...)
		if err := q.less(types, t, &less); err != nil {
			return probe{}, err
		}
		q = &less
	}
	return probe{i: i, q: q, t: t, w: t.weights(q.Output.Format)}, nil
}

// operations considers the faults of operations.
func (s *search) operations() error {
	first := &s.at[0]
	for _, f := range Faults {
		if f.ID == onePassID || narrowsOperands(f.ID) && first.q.Narrow.Half() {
			continue
		}
		var figures [][]float64
		if f.figures == nil || f.plain {
			figures = [][]float64{nil}
		}
		if f.figures != nil && s.all {
			figures = append(figures, f.figures(first.q, first.t)...)
		}
		for _, x := range figures {
			for _, node := range s.nodes(built{id: f.ID, figures: x}) {
				if s.stopped() {
					return nil
				}
				b := built{f.ID, node, x}
				title, advice := first.q.called(b)
				if err := s.consider(Fault{ID: f.ID, Title: title, Advice: advice}, false, func(p *probe) ([]float64, error) {
					types, err := p.q.types()
					if err != nil {
						return nil, err
					}
					if p.kept != nil {
						return p.kept.effect(p.q, types, s.j.Contract, b)
					}
					return p.q.effect(types, s.j.Contract, b)
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// nodes are where a fault can be: everywhere, and in each node alone.
func (s *search) nodes(f built) []string {
	q := s.at[0].q
	types, err := q.types()
	if err != nil || !expand(q.Graph, types, s.j.Form, f).broken {
		return nil
	}
	nodes := []string{""}
	for i := range q.Graph.Nodes {
		f.at = q.Graph.Name(&q.Graph.Nodes[i])
		if s.all && len(q.Graph.Nodes) <= mostNamed && expand(q.Graph, types, s.j.Form, f).broken {
			nodes = append(nodes, f.at)
		}
	}
	if len(nodes) == 2 { // the one that can have it
		return nodes[1:]
	}
	return nodes
}

// other evaluates another question, if local goes on from the first result that is another one; nil if it may.
func (m *Many) other(p *probe, o Other, c Contract, local func(now, was *tensor.Tensor) bool) ([]float64, error) {
	q, types, err := m.question(p.i, o.At)
	if errors.Is(err, ErrNotJudged) {
		return nil, nil
	}
	if q == nil || err != nil {
		return nil, err
	}
	b := expand(q.Graph, types, c.Form, built{})
	values, err := b.values(c.Round)
	if err != nil {
		return nil, nil
	}
	if p.kept != nil {
		y, err := p.kept.made(q, b, b.rounds(values, q.Narrow), local)
		if errors.Is(err, errNotJudged) {
			return nil, nil
		}
		return y, err
	}
	return q.made(c)
}

// consider notes a fault as the cause if the errors lie along it, or that this data would not show it.
func (s *search) consider(f Fault, any bool, made func(p *probe) ([]float64, error)) error {
	var right []float64
	for k := range s.at {
		p := &s.at[k]
		p.ed, p.dd = 0, 0
		faulty, err := made(p)
		if err != nil {
			return err
		}
		if len(faulty) != len(p.t.y) {
			continue
		}
		amount, power := p.q.amount(p.t, p.w, faulty, p.q.Output.Data)
		p.ed, p.dd = amount*power*power, power*power
		if s.all && !any && k == 0 && math.Abs(amount-1) > mostOffCause { // a cause is there from the first wrong one on
			return nil
		}
		for _, y := range p.t.right {
			a, d := p.q.amount(p.t, p.w, faulty, y)
			right = append(right, a*d)
		}
	}
	_, dd := s.sum(0)
	if dd == 0 {
		return nil
	}
	limit := alongOf(right).limit(atOdds(float64(len(Faults) + len(s.Others))))
	if math.Sqrt(dd) < limit {
		if !slices.ContainsFunc(s.j.Blind, func(b Blind) bool { return b.ID == f.ID }) {
			s.j.Blind = append(s.j.Blind, Blind{f.ID, limit / math.Sqrt(dd)})
		}
		return nil
	}
	from := s.onset(any)
	ed, dd := s.sum(from)
	amount, power := ed/dd, math.Sqrt(dd)
	if math.Abs(amount)*power <= limit || !any && math.Abs(amount-1) >= max(nearAmount, amountFar/power) {
		return nil
	}
	gain, each := dd*(2*amount-1), float64(leftEach)
	if any { // what is fitted has to be all of it
		gain, each = ed*amount, usualSlack
	}
	left := s.squares - gain
	more := gain >= left-float64(s.n) // than it leaves of what right devices' errors are not
	if more && left <= max(each*float64(s.n), leftOfSteps*s.squares) && gain > s.gain+s.lead(f, limit) {
		s.gain, s.made, s.any, s.limit = gain, made, any, limit
		s.j.Cause = &Cause{Fault: f, First: s.at[from].i, Amount: amount, Power: power}
	}
	return nil
}

// lead is by how much a fault has to explain more than the cause so far to be it. A vague fault's figure, such as a
// factor, is fitted to the output: by that alone it explains more than the fault that is there, by the square of what
// right devices' errors have along a fault.
func (s *search) lead(f Fault, limit float64) float64 {
	vague := func(id string) bool { f := named(id); return f != nil && f.vague }
	switch c := s.j.Cause; {
	case c == nil || vague(f.ID) == vague(c.ID):
		return s.gain * lastDigits
	case vague(f.ID):
		return limit * limit
	}
	return -limit * limit
}

// sum adds up from an evaluation on.
func (s *search) sum(from int) (ed, dd float64) {
	for _, p := range s.at[from:] {
		ed, dd = ed+p.ed, dd+p.dd
	}
	return ed, dd
}
