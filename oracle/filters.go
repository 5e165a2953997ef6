package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// What a filter must reach to be a diagnosis.
const (
	leastT       = 8    // in standard deviations of the amplitude
	amplitudeTol = 0.1  // of an amplitude that must be 1
	sameAngle    = 0.95 // cosine from which two signatures are one
	leastSize    = 50   // the limit over the root mean square of a signature that could matter
	filterRows   = 12   // in the report
)

// filters holds the hypotheses of the library against the residual of a step.
//
// A fault h has the signature d_h = step_h(X) - step(X), the difference that it
// makes without any rounding. In a half precision the step is better taken
// around the emulation, whose roundings the device shares: what is left of its
// residual is much smaller there, and a fault of rounding has no other signature.
//
// Faults that may hide below the rounding errors are looked for in every check.
// The others, and each layer by itself, only where another gate found this step
// to be wrong, or the residual says so: then that one is named which leaves a
// residual that a correct device could have. If none does, the cause is unknown.
func (e *exam) filters(s *fullStep) error {
	if e.pool == nil {
		e.pool = &pool{of: map[poolKey]*pooled{}}
	}
	if e.pool.searched {
		return nil // later steps follow from the wrong one, or are wrong in the same way
	}
	f, err := e.newFilter(s)
	if f == nil || err != nil {
		return err
	}
	if err := f.certify(); err != nil {
		return err
	}
	if f.wrong() && !e.late("the hypotheses of the library") {
		e.pool.searched = true
		if err := f.search(); err != nil {
			return err
		}
	}
	f.report()
	return nil
}

// pool collects over the steps of a check what they say about the faults that
// are looked for in each.
type pool struct {
	of       map[poolKey]*pooled
	searched bool
}

type poolKey struct {
	prior int
	near  bool
}

type pooled struct{ rq, qq, variance float64 }

// add adds a match of a step, and returns amplitude and standard deviation over
// all steps so far: the amplitudes of steps weigh as their <q,q>.
func (p *pooled) add(m match) (c, sigma float64) {
	p.rq += m.rq
	p.qq += m.qq
	p.variance += float64(m.qq*m.sigma) * float64(m.qq*m.sigma)
	return p.rq / p.qq, math.Sqrt(p.variance) / p.qq
}

// filter is the work of one call of filters.
type filter struct {
	e *exam
	s *fullStep

	got     []float64 // of the samples that are looked at
	size    []float64 // S of them
	cluster []int32
	of      int // clusters
	exact   *view
	near    *view // the emulation; nil where rounding is too fine to matter
	one     *view // exact, of the worst sample alone
	alone   bool  // other samples are right
	large   bool  // the residual is far above what rounding can make
	strong  bool  // it is a fault's for the most part
	levels  bool  // a normalization of the states maps all of them by one rounding
	node    int   // of which alone the residual is, or negative
	h0      map[*view][][]float64

	change float64 // of the states, relative to what the operator's output does to them
	tried  []tried
}

// tried is a hypothesis that was held against the residual.
type tried struct {
	h     *hypothesis
	scope scope
	v     *view
	match match
	q     []float64
	fits  bool
	prior int // the place of the hypothesis in the library
}

// newFilter prepares the views of a step; nil if nothing can be said about it.
func (e *exam) newFilter(s *fullStep) (*filter, error) {
	if e.op.HasNoise() && e.stream == nil {
		return nil, nil
	}
	f := &filter{e: e, s: s, node: -1, h0: map[*view][][]float64{}}
	if s.Draws != nil && len(s.Draws.Data) == 0 { // not drawn yet
		if _, err := e.machine.Operator(&emulate.Device{Mode: s.Device.Mode}, s.X, s.Draws.Rewind()); err != nil {
			return nil, err
		}
	}
	f.got, f.size = s.Got, s.S
	for i, v := range f.got {
		if !finite(v) || !finite(s.Truth[i]) || !(f.size[i] > 0) {
			return nil, nil
		}
	}
	f.divide(s.X.N, s.X.C, s.X.H, s.X.W)
	base := view{e: e, m: e.machine, at: s.Step, x: s.X, draws: s.Draws}
	if s.Step > 1 {
		base.before = tensor.Like(s.X)
		for k := range s.X.N {
			copy(base.before.Samples(k, k+1).Data, e.states.At(s.Lo+k, s.Step-2))
		}
	}
	base.drawn = f.otherDraws
	exact := base
	exact.d = &emulate.Device{Mode: s.Device.Mode, WideInput: true, State: fp16.Float64}
	if s.Device.Mode.Precision == fp16.TF32 {
		exact.d.WideInput = false
	}
	f.exact = &exact
	if err := f.exact.compute(); err != nil {
		return nil, err
	}
	if p := s.Device.Mode.Precision; p != fp16.Float32 && p != fp16.Float64 {
		near := base
		near.d = s.Device
		near.contract = s.Device.Replace == nil
		f.near = &near
		if err := f.near.compute(); err != nil {
			return nil, err
		}
		// The policy as its contract rounds it, where the device does so too: then
		// a fault of the policy differs from it by the fault alone.
		contract := *near.d
		contract.Update, contract.State = nil, e.c.Rollout.StateFormat(contract.Mode.Output())
		next := near.m.Advance(&contract, near.x, near.of[len(near.of)-1])
		if near.d.Update != nil {
			near.fused = rootMeanDiff(f.got, next.Data) > 1.05*rootMeanDiff(f.got, near.next.Data)
		}
		if !near.fused {
			near.d, near.next = &contract, next
		}
	}
	if err := f.single(); err != nil {
		return nil, err
	}
	f.levels = e.c.Rollout.Normalization != ""
	// What the operator's output does to the states, against what is wrong with them.
	near := f.exact
	if f.near != nil {
		near = f.near
	}
	f.strong = rootMean(f.residual(near, near.next)) > 3*f.limit(near)
	out := f.exact.of[len(f.exact.of)-1]
	flat := tensor.Like(out)
	for k := range out.N * out.C {
		m, _ := meanVariance(out.Plane(k/out.C, k%out.C))
		for i, p := 0, flat.Plane(k/out.C, k%out.C); i < len(p); i++ {
			p[i] = m
		}
	}
	without := f.exact.m.Advance(f.exact.d, f.exact.x, flat)
	f.change = rootMeanDiff(f.got, near.next.Data) / rootMeanDiff(f.exact.next.Data, without.Data)
	return f, nil
}

// single finds the worst sample and whether it is the only one that is wrong,
// and makes a view of it alone, in which a fault is quickly tried.
func (f *filter) single() error {
	v := f.exact
	r := f.residual(v, v.next)
	f.large = rootMean(r) > 4*f.limit(v)
	chw, worst := len(r)/v.x.N, 0
	of := make([]float64, v.x.N)
	for k := range of {
		of[k] = rootMean(r[k*chw : (k+1)*chw])
		if of[k] > of[worst] {
			worst = k
		}
	}
	f.alone = v.x.N > 1 && of[worst] > 3*f.limit(v)
	for k, u := range of {
		if k != worst && u > 1.1*f.limit(v) {
			f.alone = false
		}
	}
	f.one = v
	v.worst = worst
	if f.near != nil {
		f.near.worst = worst
	}
	if c := v.m.Config; v.x.N == 1 || c.Normalization != "" && c.EngineBatch > 0 {
		return nil
	}
	one := *v
	one.lo = worst * chw
	one.x, one.draws = v.x.Samples(worst, worst+1), part(v.draws, worst, worst+1, v.x.N)
	if v.before != nil {
		one.before = v.before.Samples(worst, worst+1)
	}
	one.drawn = func(t int) *emulate.Draws { return part(v.drawn(t), worst, worst+1, v.x.N) }
	f.one = &one
	return f.one.compute()
}

// divide makes 4 by 4 clusters of each plane.
func (f *filter) divide(n, c, h, w int) {
	f.cluster, f.of = make([]int32, n*c*h*w), n*c*16
	for i := range f.cluster {
		x, y, p := i%w, i/w%h, i/(w*h)
		f.cluster[i] = int32(p*16 + y*4/h*4 + x*4/w)
	}
}

// part returns the draws of samples from to to-1 of n.
func part(d *emulate.Draws, from, to, n int) *emulate.Draws {
	if d == nil || from == 0 && to == n {
		return d
	}
	p := &emulate.Draws{Kinds: d.Kinds}
	for _, data := range d.Data {
		per := len(data) / n
		p.Data = append(p.Data, data[from*per:to*per])
	}
	return p
}

// otherDraws returns the draws of t steps later.
func (f *filter) otherDraws(t int) *emulate.Draws {
	s := f.s
	if f.e.stream == nil || s.Draws == nil || s.Step+t < 1 || s.Step+t >= f.e.states.T {
		return nil
	}
	batch := f.e.c.Rollout.EngineBatches()[s.Batch]
	n := batch[1] - batch[0]
	d, err := f.e.stream.Draws(s.Batch, batch[0], batch[1], s.Step+t)
	if err != nil || d == nil {
		return nil
	}
	all := &emulate.Draws{Kinds: s.Draws.Kinds}
	for k, kind := range s.Draws.Kinds {
		shape := f.exact.drawShape(kind)
		shape[0] = n
		other := make([]float64, len(s.Draws.Data[k])/s.X.N*n)
		if err := d.Draw(kind, f.exact.probability(), shape[:], other); err != nil {
			return nil
		}
		all.Data = append(all.Data, other)
	}
	first := s.Lo - batch[0]
	return part(all, first, first+s.X.N, n)
}

// units returns (a-b)/s for states of a view.
func (f *filter) units(v *view, a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range r {
		r[i] = a[i] - b[i]
	}
	if f.levels { // see stepGate.level
		(&stepGate{e: f.e}).level(r, f.exact.next.Data[v.lo:v.lo+len(r)], f.size[v.lo:v.lo+len(r)], v.x.N)
	}
	for i := range r {
		r[i] /= f.size[v.lo+i]
	}
	return r
}

// residual returns (got-x)/s for states x of a view.
func (f *filter) residual(v *view, x *tensor.Tensor) []float64 {
	return f.units(v, f.got[v.lo:v.lo+len(x.Data)], x.Data)
}

// held holds a signature against the residual that x leaves.
func (f *filter) held(v *view, x *tensor.Tensor, q []float64, family bool) match {
	return held(f.residual(v, x), q, f.cluster[v.lo:v.lo+len(q)], f.of, family)
}

// wrong reports whether the step is known to be wrong.
func (f *filter) wrong() bool {
	for _, g := range f.e.r.Findings {
		if g.Step == f.s.Step && g.Verdict.failed() {
			return true
		}
	}
	return f.before() > 1
}

// before returns the residual over its limit.
func (f *filter) before() float64 {
	var sum float64
	for i, v := range f.s.Got {
		r := (v - f.s.Emulated[i]) / f.s.S[i]
		sum += float64(r * r)
	}
	return math.Sqrt(sum/float64(len(f.s.Got))) / f.s.Limit
}

// step returns the states after a step with a fault, or, if the filter is of one
// node, that node's output.
func (f *filter) step(v *view, h *hypothesis, s scope, local func(now, was *tensor.Tensor) bool) (*tensor.Tensor, error) {
	if f.node < 0 {
		return v.step(h, s, local)
	}
	y, err := v.local(h, f.node)
	if y == nil || err != nil || local != nil && !local(y, v.of[f.node]) {
		return nil, err
	}
	return y, nil
}

// try holds a hypothesis against the residual; nil if it changes nothing, or
// cannot have made this residual.
func (f *filter) try(h *hypothesis, s scope, v *view, far float64) (*tried, error) {
	next, err := f.step(v, h, s, func(now, was *tensor.Tensor) bool {
		// A fault changes the operator's output by about as much as the output
		// of the node where it is.
		local := relativeChange(now, was)
		return !(local > far*f.change) && !(f.strong && local*far < f.change)
	})
	if next == nil || err != nil {
		return nil, err
	}
	q := f.units(v, next.Data, v.next.Data)
	for _, u := range q {
		if !finite(u) {
			return nil, nil
		}
	}
	t := &tried{h: h, scope: s, v: v, q: q, prior: h.prior, match: f.held(v, v.next, q, h.family)}
	if f.levels && !h.family {
		t.match.after = rootMean(f.residual(v, next))
	}
	if h.family && math.Abs(t.match.t) > leastT && t.match.c != 0 {
		return t, f.tune(t)
	}
	return t, nil
}

// tune finds the amplitude of a family of faults, which need not be linear, and
// takes the signature of that amplitude.
func (f *filter) tune(t *tried) error {
	one, c := slices.Clone(t.q), t.match.c
	for range 8 {
		v := *t.v
		v.k = c
		next, err := f.step(&v, t.h, t.scope, nil)
		if next == nil || err != nil {
			return err
		}
		rest := f.held(t.v, next, one, false)
		q := f.units(t.v, next.Data, t.v.next.Data)
		m := &t.match
		t.q, m.c, m.sigma, m.t, m.after = q, c, rest.sigma, c/rest.sigma, math.Sqrt(rest.rr/float64(rest.n))
		m.gain = 1 - rest.rr/m.rr
		if math.Abs(rest.c) < 1e-5*math.Abs(c) {
			break
		}
		for i, u := range q { // the slope there
			one[i] = u / c
		}
		c += rest.c
	}
	return nil
}

// views returns those in which a hypothesis is held against the residual, the
// sharper one first.
func (f *filter) views(h *hypothesis) []*view {
	switch {
	case f.near == nil:
		return []*view{f.exact}
	case f.near.d.Mode.Precision == fp16.TF32:
		return []*view{f.near}
	case h.advance != nil && f.near.fused && !h.rounding:
		return []*view{f.exact}
	case h.rounding || f.s.Limit < 0.5 && !f.large:
		return []*view{f.near} // sharp enough
	}
	return []*view{f.near, f.exact}
}

// certify looks for the faults that may hide below the rounding errors, and
// says which of them could not have been seen.
func (f *filter) certify() error {
	var blind []Blind
	for _, h := range library() {
		if !h.small {
			continue
		}
		least, fits, none := math.Inf(1), false, true
		for _, v := range f.views(h) {
			t, err := f.try(h, everywhere, v, math.Inf(1))
			if err != nil {
				return err
			}
			if t == nil || t.match.qq == 0 {
				if v == f.near {
					break // the claim itself does that
				}
				continue
			}
			none = false
			if f.near == nil && h.rounding && rootMean(t.q) < 1e-3 {
				none = true // none that could matter
				continue
			}
			if !h.rounding {
				if t.fits, err = f.hidden(t); err != nil {
					return err
				}
			}
			f.tried = append(f.tried, *t)
			least, fits = min(least, leastT*f.right(t)), fits || t.fits
		}
		if least > 1 && !fits && !none {
			blind = append(blind, Blind{Name: h.name, Least: Number(least), Probe: h.probe})
		}
	}
	if f.e.r.Blind == nil {
		f.e.r.Blind = blind
	}
	return nil
}

// right returns the standard deviation of an amplitude in a step that is right:
// a wrong one has a residual that says nothing about that, and the residual of
// a device that happens to equal the emulation is not the scatter of all.
func (f *filter) right(t *tried) float64 {
	rest := rootMean(f.residual(t.v, t.v.next))
	least := f.limit(t.v) / 4 * math.Sqrt(float64(t.match.n)/t.match.qq)
	return max(least, t.match.sigma*min(1, f.limit(t.v)/rest))
}

// named reports whether the amplitude is that of the fault as it is known, and
// not by chance.
func (f *filter) named(t *tried) bool {
	m := &t.match
	return math.Abs(m.t) > leastT && (t.h.family || math.Abs(m.c-1) < amplitudeTol) &&
		float64(m.n)*f.limit(t.v)*f.limit(t.v) < m.qq*leastSize*leastSize
}

// steady reports whether parts of the data agree with the amplitude: three
// sets of planes. What correlates by accident does so in some of them.
func (f *filter) steady(t *tried) bool {
	r := f.residual(t.v, t.v.next)
	var rq, qq [3]float64
	for i, v := range r {
		k := f.cluster[t.v.lo+i] / 16 % 3
		rq[k] += float64(v * t.q[i])
		qq[k] += float64(t.q[i] * t.q[i])
	}
	want := 1.0
	for k := range rq {
		if qq[k] < 0.05*t.match.qq {
			continue
		}
		c := rq[k] / qq[k]
		sigma := t.match.sigma * math.Sqrt(t.match.qq/qq[k])
		if t.h.family {
			sigma /= math.Abs(t.match.c) // the signature has that amplitude already
		}
		if math.Abs(c-want) > amplitudeTol+4*sigma {
			return false
		}
	}
	return true
}

// hidden reports whether a fault is there that need not show otherwise. What it
// explains nearly all of is no accident; for less, the scatter of correct
// devices counts, and all steps so far.
func (f *filter) hidden(t *tried) (bool, error) {
	if f.named(t) && t.match.gain > 0.9 {
		return f.steady(t) && f.conforms(t), nil
	}
	if math.Abs(t.match.t) > leastT/2 && !f.wrong() {
		if err := f.spread(t); err != nil {
			return false, err
		}
	}
	if !f.wrong() && !t.h.family {
		key := poolKey{t.h.prior, t.v == f.near}
		p := f.e.pool.of[key]
		if p == nil {
			p = &pooled{}
			f.e.pool.of[key] = p
		}
		t.match.c, t.match.sigma = p.add(t.match)
		t.match.t = t.match.c / t.match.sigma
	}
	return f.named(t) && f.steady(t) && f.conforms(t), nil
}

// spread widens the standard deviation of an amplitude to that which it has in
// correct devices.
func (f *filter) spread(t *tried) error {
	if f.h0[t.v] == nil {
		for k := range 6 {
			next, err := t.v.perturbed(&hypothesis{}, everywhere, uint64(k+1))
			if err != nil {
				return err
			}
			f.h0[t.v] = append(f.h0[t.v], f.units(t.v, next.Data, t.v.next.Data))
		}
	}
	t.match.spread(f.h0[t.v], t.q)
	return nil
}

// limit returns the residual that correct devices have at most in a view.
func (f *filter) limit(v *view) float64 {
	if v != f.near && f.near != nil {
		return max(1.3, f.s.Limit)
	}
	return f.s.Limit
}

// conforms reports whether what a hypothesis leaves of the residual is what a
// correct device could leave.
func (f *filter) conforms(t *tried) bool { return t.match.after <= f.limit(t.v) }

// confirm reports whether the device does what the hypothesis says: whether its
// states are as far from that as a correct device's are from the claim. The
// fault may itself make errors grow, so the limit is found by perturbing the
// faulty step. Without rounding a residual is large anyway: there most of it
// must be explained.
func (f *filter) confirm(t *tried) (bool, error) {
	if f.near != nil && t.v != f.near && t.match.gain < 0.9 {
		return false, nil
	}
	if f.conforms(t) {
		return true, nil
	}
	if t.match.gain < 0.9 {
		return false, nil
	}
	v := *t.v
	if t.h.family {
		v.k = t.match.c
	}
	next, err := v.step(t.h, t.scope, nil)
	if err != nil {
		return false, err
	}
	most := 0.0
	for k := range 3 {
		p, err := v.perturbed(t.h, t.scope, uint64(k+1))
		if err != nil {
			return false, err
		}
		most = max(most, rootMean(f.units(t.v, p.Data, next.Data)))
	}
	return t.match.after <= 2*most, nil
}

// far is how many times more or less than a node's output the operator's may
// change.
const far = 30

// search looks for the hypothesis that explains a step that is known to be wrong.
func (f *filter) search() error {
	all := library()
	slices.SortStableFunc(all, func(a, b *hypothesis) int { return cmp.Compare(order(a), order(b)) })
	found := func() bool {
		return slices.ContainsFunc(f.tried, func(t tried) bool { return t.fits })
	}
	for _, single := range []bool{false, true} {
		for _, h := range all {
			if single && h.slow {
				break
			}
			if found() && (single || h.slow) {
				return nil
			}
			for _, s := range f.scopes(h, single) {
				if err := f.hold(h, s); err != nil {
					return err
				}
				if err := f.e.ctx.Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// order puts slow hypotheses last.
func order(h *hypothesis) int {
	if h.slow {
		return 1
	}
	return 0
}

// scopes returns where a hypothesis can act: on all nodes, and on the windows
// among its convolutions if there are others, or on each node alone.
func (f *filter) scopes(h *hypothesis, single bool) []scope {
	if !single {
		s := []scope{everywhere}
		if h.on() && !h.whole && slices.ContainsFunc(f.e.machine.Nodes, func(n operator.Node) bool { return isConv(&n) && !isWindow(&n) && h.at(&n) }) {
			s = append(s, windows)
		}
		return s
	}
	var s []scope
	for i := range f.e.machine.Nodes {
		if h.on() && !h.whole && h.at(&f.e.machine.Nodes[i]) {
			s = append(s, scope(i))
		}
	}
	if len(s) < 2 {
		return nil // tried already
	}
	return s
}

// hold tries one hypothesis in the search: where the residual is large first
// without rounding and on one sample.
func (f *filter) hold(h *hypothesis, s scope) error {
	if h.slow && f.large || f.alone && !h.batch {
		return nil // they do far less, or to all samples
	}
	if f.large && !h.rounding {
		v := f.one
		if h.batch {
			v = f.exact
		}
		t, err := f.try(h, s, v, far)
		if t == nil || err != nil {
			return err
		}
		if !(t.match.gain > 0.8) || !h.family && math.Abs(t.match.c-1) > 2*amplitudeTol {
			f.tried = append(f.tried, *t)
			return nil
		}
	}
	for _, v := range f.views(h) {
		t, err := f.try(h, s, v, far)
		if t == nil || err != nil {
			return err
		}
		if f.named(t) && t.match.gain > 0.5 {
			if t.fits, err = f.confirm(t); err != nil {
				return err
			}
		}
		f.tried = append(f.tried, *t)
		if t.fits {
			break
		}
	}
	return nil
}

// report adds the rows of what was tried, and the finding.
func (f *filter) report() {
	r := f.e.r
	slices.SortStableFunc(f.tried, func(a, b tried) int {
		switch {
		case a.fits && b.fits:
			return cmp.Compare(a.match.after/f.limit(a.v), b.match.after/f.limit(b.v))
		case a.fits != b.fits:
			return map[bool]int{true: -1, false: 1}[a.fits]
		}
		return cmp.Compare(b.match.gain, a.match.gain)
	})
	// Of those that leave about as little the first in the library's order.
	best := 0
	for i, t := range f.tried {
		if t.fits && t.match.after/f.limit(t.v) < 1.1*f.tried[0].match.after/f.limit(f.tried[0].v) && t.prior < f.tried[best].prior {
			best = i
		}
	}
	if best > 0 {
		t := f.tried[best]
		f.tried = slices.Insert(slices.Delete(f.tried, best, best+1), 0, t)
	}
	var rows []FilterRow
	seen := map[string]bool{}
	for _, t := range f.tried {
		if key := f.name(&t) + f.layer(&t); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		row := FilterRow{Name: f.name(&t), Verdict: t.h.verdict, Layer: f.layer(&t), Amplitude: Number(t.match.c), T: Number(t.match.t), Gain: Number(t.match.gain), Found: t.fits}
		rows = append(rows, row)
	}
	if len(f.tried) > 0 && f.tried[0].fits {
		f.find(rows)
	}
	if len(r.Filters) == 0 || len(rows) > 0 && rows[0].Found && !r.Filters[0].Found {
		r.Filters = rows[:min(len(rows), filterRows)]
	}
}

func (f *filter) find(rows []FilterRow) {
	best := &f.tried[0]
	names := []string{rows[0].Name}
	for i := range f.tried[1:] {
		t := &f.tried[i+1]
		if name := f.name(t); t.fits && t.v == best.v && len(names) < 2 && !slices.Contains(names, name) && math.Abs(cosine(t.q, best.q)) > sameAngle {
			names = append(names, name)
		}
	}
	m := best.match
	text := fmt.Sprintf("%s explains %.3g of the residual of step %d: amplitude %.4g, t = %.3g; what is left is what a correct device leaves",
		rows[0].Name, m.gain, f.s.Step, m.c, m.t)
	f.e.find(Finding{Verdict: best.h.verdict, Gate: "filter", Step: f.s.Step, Realization: -1, Layer: rows[0].Layer,
		Diagnosis: strings.Join(names, " or "), Excess: Number(math.Abs(m.t) / leastT), Text: text})
}

// name returns the name of a hypothesis with its amplitude.
func (f *filter) name(t *tried) string {
	if t.h.called != nil {
		return t.h.called(t.v, t.match.c)
	}
	return t.h.name
}

// layer returns where a hypothesis acts, "" if not at one node alone.
func (f *filter) layer(t *tried) string {
	if t.scope >= 0 {
		return f.e.machine.Nodes[t.scope].Name
	}
	name := ""
	for i := range f.e.machine.Nodes {
		if n := &f.e.machine.Nodes[i]; t.scope.acts(t.h, i, n) && !t.h.whole {
			if name != "" {
				return ""
			}
			name = n.Name
		}
	}
	return name
}
