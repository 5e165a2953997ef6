package oracle

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// unseen checks a trajectory whose noise nobody can repeat. A step without
// noise is exact; what the device has more than that must be noise, of the
// specified kind and size, mixed by the last layer as the model says, and
// nothing else: it may know nothing of the state, of other pixels, steps and
// realizations. What is smaller than the noise and does not add up over steps
// cannot be seen this way, and the report says so.
func (e *noiseGate) unseen() error {
	m := newNoiseModel(e.evidence)
	if m == nil {
		e.r.Notes = append(e.r.Notes, "the noise is unknown and does not enter before a last 1x1 convolution: its statistics were not tested")
		return nil
	}
	if m.kind == noise.Dropout {
		return nil // whose masks could not be read off
	}
	m.live(e.evidence)
	u := &unseen{e: e.gate, m: m, rounding: make([]float64, len(m.rows))}
	if err := u.calibrate(); err != nil {
		return err
	}
	m.few = m.scores(u.rounding)
	batches := e.c.Rollout.EngineBatches()
	s := e.states
	u.tests = newNoiseTests(e.gate, m)
	for t := 1; t < s.T; t++ {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		for k, b := range batches {
			st, err := u.step(k, b[0], b[1], t)
			if err != nil {
				return err
			}
			u.tests.add(u, st)
		}
		e.progress("noise", t, s.T-1)
	}
	u.tests.judge(u)
	return nil
}

// unseen is a check with unknown noise under way.
type unseen struct {
	e     *gate
	m     *noiseModel
	tests *noiseTests

	claimed  bool      // the centre of the residuals is the step as claimed, not the exact one
	rounding []float64 // variance of the claim's roundings about the centre, for each row of the model
	// Where roundings are not small, what they do to the statistics: the
	// variance of z for the claim's own roundings and for none, and the share of
	// z that roundings before the noise have, which may be the same at other
	// steps and realizations.
	low, high, steady float64
	bias              float64        // the largest mean of z that the claim's roundings have at a step
	roundings         noiseSums      // of z, those before the noise
	own               []*featureSums // the same along features
}

// unseenStep is one step of an engine batch seen as noise.
type unseenStep struct {
	*batchStep
	f       *noiseField
	centre  []float64 // the step without noise, before post-processing
	resid   []float64
	outputs *tensor.Tensor // of the operator without noise
}

// raw returns the states that follow before post-processing.
func (e *evidence) raw(d *emulate.Device, x, out *tensor.Tensor) *tensor.Tensor {
	c := e.c.Rollout
	c.Normalization, c.Clamp = "", nil
	mode := d.Mode
	if d.Store == nil {
		mode.Precision, mode.Autocast, mode.TF32 = fp16.Float64, 0, 0
		y := c.Advance(x, out, fp16.Float64, mode)
		return y
	}
	return c.Advance(x, tensor.Of(d.Store[len(d.Store)-1], out.Data, out.N(), out.C(), out.H(), out.W()), d.State, mode)
}

// step returns a step as noise.
func (u *unseen) step(k, lo, hi, t int) (*unseenStep, error) {
	e := u.e
	b, err := e.step(k, lo, hi, t)
	if err != nil {
		return nil, err
	}
	d := &emulate.Device{Mode: e.mode}
	if u.claimed {
		if d, err = e.claimAt(t); err != nil {
			return nil, err
		}
	}
	p, err := e.apply(d, b.X, nil)
	if err != nil {
		return nil, err
	}
	st := &unseenStep{batchStep: b, outputs: p.out, centre: e.raw(d, b.X, p.out).Data}
	ok := u.residual(st, p.hidden())
	st.f = u.m.field(p.hidden(), st.resid, ok, u.rounding)
	return st, nil
}

// residual sets the residual before post-processing and returns which pixels
// have one: those that no clamp may have touched. A normalization is undone by
// the line that brings the device's states nearest to the step without noise.
func (u *unseen) residual(st *unseenStep, hidden *tensor.Tensor) []bool {
	c := u.e.c.Rollout
	b := st.batchStep
	st.resid = make([]float64, len(b.Got))
	hw, chw := b.X.H()*b.X.W(), b.X.C()*b.X.H()*b.X.W()
	ok := make([]bool, b.X.N()*hw)
	for i := range ok {
		ok[i] = true
	}
	groups := [][2]int{{0, b.X.N()}}
	if c.EngineBatch == 0 {
		groups = nil
		for n := range b.X.N() {
			groups = append(groups, [2]int{n, n + 1})
		}
	}
	for _, g := range groups {
		got, centre := b.Got[g[0]*chw:g[1]*chw], st.centre[g[0]*chw:g[1]*chw]
		slope, offset := 1.0, 0.0
		if c.Normalization != "" {
			slope, offset = line(got, centre, func(i int) float64 {
				if c.Clamp != nil && (got[i] <= c.Clamp[0] || got[i] >= c.Clamp[1]) {
					return 0
				}
				return u.weight(hidden, g[0]+i/chw, i%chw/hw, i%hw)
			})
		}
		for i, v := range got {
			st.resid[g[0]*chw+i] = (v-offset)/slope - centre[i]
		}
		if c.Clamp == nil {
			continue
		}
		for n := g[0]; n < g[1]; n++ {
			for at := range hw {
				for _, o := range u.m.rows {
					// Beyond six standard deviations nothing reaches the clamp.
					room := 6 * slope * u.m.spread(hidden, n, o, at)
					x := float64(slope*st.centre[(n*b.X.C()+o)*hw+at]) + offset
					if x-room <= c.Clamp[0] || x+room >= c.Clamp[1] {
						ok[n*hw+at] = false
					}
				}
			}
		}
	}
	for i, v := range st.resid {
		if !finite(v) {
			st.resid[i], ok[i/chw*hw+i%hw] = 0, false
		}
	}
	for i := range ok {
		ok[i] = ok[i] && !u.swallowed(st, hidden, i/hw, i%hw)
	}
	return ok
}

// swallowed reports whether a pixel's numbers are so large that their formats hold none
// as near as noise reaches, as in a rollout that grows without bound: all of the state's,
// or those that have most of the noise.
func (u *unseen) swallowed(st *unseenStep, hidden *tensor.Tensor, n, at int) bool {
	const reach = 12 // six standard deviations to either side
	layer, hw := u.e.mode.Output(), hidden.H()*hidden.W()
	state := u.e.c.Rollout.StateFormat(layer)
	all := true
	for _, o := range u.m.rows {
		all = all && state.Ulp(st.centre[(n*st.X.C()+o)*hw+at]) > reach*u.m.spread(hidden, n, o, at)
	}
	if all || u.m.kind == noise.Dropout {
		return all
	}
	lost, sum := 0.0, 0.0
	for _, o := range u.m.rows {
		for c, w := range u.m.w[o] {
			h := hidden.Data[(n*hidden.C()+c)*hw+at]
			s := u.m.sigma
			if u.m.kind == noise.Multiplicative {
				s *= math.Abs(h)
			}
			v := float64(w * s * w * s)
			sum += v
			if layer.Ulp(h) > reach*s {
				lost += v
			}
		}
	}
	return lost > sum/2
}

// weight returns what a number counts for in the line that undoes a normalization: the
// inverse of its variance, where noise is not the same everywhere.
func (u *unseen) weight(hidden *tensor.Tensor, n, o, at int) float64 {
	if u.m.kind != noise.Multiplicative {
		return 1
	}
	s := u.m.spread(hidden, n, o, at)
	v := float64(s * s)
	if i := slices.Index(u.m.rows, o); i >= 0 && i < len(u.rounding) {
		v += u.rounding[i]
	}
	return 1 / max(v, u.m.floor, 1e-6*float64(u.m.sigma*u.m.sigma))
}

// spread returns the standard deviation of the noise of output o at a pixel.
func (m *noiseModel) spread(hidden *tensor.Tensor, n, o, at int) float64 {
	sum := 0.0
	for c, v := range m.w[o] {
		if m.kind == noise.Multiplicative || m.kind == noise.Dropout {
			v *= hidden.Data[(n*hidden.C()+c)*hidden.H()*hidden.W()+at]
		}
		sum += float64(v * v)
	}
	return m.sigma * math.Sqrt(sum)
}

// live restricts the model to the output that a clamp touches least, where more
// is left of it than of all outputs together.
func (m *noiseModel) live(e *evidence) {
	c, s := e.c.Rollout.Clamp, e.states
	if c == nil {
		return
	}
	hw := s.H * s.W
	own := make([]int, s.C)
	all := 0
	for r := range s.M {
		for t := 1; t < s.T; t++ {
			x := s.At(r, t)
			for at := range hw {
				free := 0
				for _, o := range m.rows {
					if v := x[o*hw+at]; v > c[0] && v < c[1] {
						own[o]++
						free++
					}
				}
				if free == len(m.rows) {
					all += free
				}
			}
		}
	}
	best := m.rows[0]
	for _, o := range m.rows {
		if own[o] > own[best] {
			best = o
		}
	}
	if own[best] > all {
		m.rows = []int{best}
	}
}

// line returns the line slope*x + offset nearest to y, by weighted squares.
func line(y, x []float64, weight func(i int) float64) (slope, offset float64) {
	var n, mx, my float64
	w := make([]float64, len(x))
	for i := range x {
		if finite(y[i]) {
			w[i] = weight(i)
		}
		if w[i] > 0 {
			n += w[i]
			mx += float64(w[i] * x[i])
			my += float64(w[i] * y[i])
		}
	}
	mx, my = mx/n, my/n
	var xx, xy float64
	for i := range x {
		if w[i] > 0 {
			xx += float64(w[i] * float64((x[i]-mx)*(x[i]-mx)))
			xy += float64(w[i] * float64((x[i]-mx)*(y[i]-my)))
		}
	}
	slope = xy / xx
	return slope, my - float64(slope*mx)
}

// calibrate finds what the claim's roundings do to the residuals, at a few steps
// and with some noise of the right kind; where they are small beside the noise
// there is nothing to find.
func (u *unseen) calibrate() error {
	const most = 3
	e, s := u.e, u.e.states
	u.low, u.high = 1, 1
	if e.mode.Output().Ulp(1) < 1e-4 { // float32 numbers between the operations
		if err := u.setFloor(); err != nil || e.mode.Precision != fp16.TF32 {
			return err
		}
		return u.truncated()
	}
	var probes []*roundingProbe
	var aboutExact, aboutClaim float64 // mean squares of the device's residuals
	every := max(1, (s.T-1)/most)
	var steps []int
	for t := 1; t < s.T-1; t += every {
		steps = append(steps, t)
	}
	for i, t := range append(steps, s.T-1) {
		k, lo, hi := batchOf(e.c.Rollout, i%s.M)
		p, err := u.probe(k, lo, hi, t)
		if err != nil {
			return err
		}
		probes = append(probes, p)
		for j, sum := range []*float64{&aboutExact, &aboutClaim} {
			st := &unseenStep{batchStep: p.st.batchStep, centre: p.without[j]}
			u.residual(st, p.hidden)
			v := rmsOf(st.resid)
			*sum += float64(v * v)
		}
	}
	u.claimed = aboutClaim < aboutExact
	// Roundings about the centre: of a device as claimed.
	hw, n := s.H*s.W, 0.0
	for _, p := range probes {
		for at := range p.with[0] {
			d := p.with[1][at] - p.with[0][at]
			if u.claimed {
				d -= p.without[1][at] - p.without[0][at]
			}
			for r, o := range u.m.rows {
				if at/hw%s.C == o && finite(d) {
					u.rounding[r] += float64(d * d)
					n++
				}
			}
		}
	}
	for r := range u.rounding {
		u.rounding[r] /= n / float64(len(u.rounding))
	}
	centre := 0
	if u.claimed {
		centre = 1
	}
	rows := len(u.m.rows)
	for k, p := range probes {
		var levels [3]noiseSums // of a device as claimed, of an exact one, and of noise without any rounding
		for i, r := range [][]float64{difference(p.with[1], p.without[centre]), difference(p.with[0], p.without[centre]), difference(p.with[0], p.without[0])} {
			for _, f := range u.m.field(p.hidden, r, nil, u.rounding).sums {
				levels[i].add(&f)
			}
		}
		// The draws of the three are the same, so their ratios are much better known
		// than their sizes, which they have by chance; but noise below the roundings of
		// operands is larger by more than that. Steps differ: a state that gets smaller
		// is rounded less.
		none := ratio(levels[2].gain, levels[2].pixels*float64(rows))
		chance := ratio(none, levels[2].level(rows))
		if math.Abs(chance-1) > 4*math.Sqrt((2+u.m.excess())/(levels[2].pixels*float64(rows))) {
			chance = 1
		}
		if k == 0 {
			u.low, u.high = none, none
		}
		u.low, u.high = min(u.low, none), max(u.high, none)
		for i := range 2 {
			l := chance * levels[i].level(rows)
			u.low, u.high = min(u.low, l), max(u.high, l)
		}
		own := difference(p.with[1], p.with[0])
		// A device that rounds less often has roundings of its own, as large as the
		// claim's at the most, beside those of the centre.
		var more noiseSums
		for _, f := range u.m.field(p.hidden, own, nil, u.rounding).sums {
			more.add(&f)
		}
		u.high = max(u.high, chance*(levels[1].level(rows)+more.level(rows)))
		if u.claimed {
			own = difference(own, difference(p.without[1], p.without[0]))
		}
		u.means(p, own)
		u.before(p, difference(p.without[1], p.without[0]))
	}
	wide := 0.1*(u.high-u.low) + 1e-3
	u.low, u.high = max(u.low-wide, u.low/2), u.high+wide
	return nil
}

// truncated takes in what a device makes of the residuals that cuts the operands off
// where the claim rounds them to TF32: its errors are small, and all to one side.
func (u *unseen) truncated() error {
	d := &emulate.Device{Mode: mustParse("tf32:truncate")}
	return u.ends(func(p *roundingProbe) error {
		cut, err := u.e.apply(d, p.st.X, nil)
		if err != nil {
			return err
		}
		own := difference(u.e.raw(d, p.st.X, cut.out).Data, p.without[0])
		u.means(p, own)
		u.before(p, own)
		return nil
	})
}

// ends probes the first step and the last.
func (u *unseen) ends(do func(p *roundingProbe) error) error {
	for _, t := range []int{1, u.e.states.T - 1} {
		k, lo, hi := batchOf(u.e.c.Rollout, 0)
		p, err := u.probe(k, lo, hi, t)
		if err != nil {
			return err
		}
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

// means takes in the means that roundings have at a step: of the outputs, and along
// that of the draws.
func (u *unseen) means(p *roundingProbe, own []float64) {
	for _, f := range u.m.field(p.hidden, own, nil, u.rounding).sums {
		if f.mean != nil && f.pixels > 0 {
			u.bias = max(u.bias, math.Sqrt(dot(f.mean, f.mean))/f.pixels, ratio(math.Abs(f.drift), math.Sqrt(f.drifts*f.pixels)))
		}
	}
}

// before takes in roundings before the noise.
func (u *unseen) before(p *roundingProbe, own []float64) {
	f := u.m.field(p.hidden, own, nil, u.rounding)
	for i := range f.sums {
		u.roundings.add(&f.sums[i])
	}
	u.steady = u.roundings.level(len(u.m.rows))
	for i, feat := range u.features(p.st) {
		if i == len(u.own) {
			u.own = append(u.own, &featureSums{name: feat.name})
		}
		u.own[i].against(f, u.m, p.st.Step, -1, feat.at)
	}
}

// setFloor sets the model's floor where roundings are small beside the noise: ten
// times the errors of sums, which are eight times those of numbers stored in float32
// (see roundings), or four times what other roundings of TF32 operands may make.
func (u *unseen) setFloor() error {
	if u.m.kind != noise.Multiplicative && u.m.kind != noise.Dropout {
		return nil
	}
	e := u.e
	return u.ends(func(p *roundingProbe) error {
		r := 80 * rmsOf(difference(p.with[1], p.with[0]))
		if e.mode.Precision == fp16.TF32 {
			r = max(r, 4*fp16.TF32.Ulp(1)/2*e.outputShare()*rmsOf(p.st.outputs.Data))
		}
		if e.c.Rollout.Normalization != "" { // and four times what the line that undoes it is off
			n := float64(len(p.st.Got))
			if e.c.Rollout.EngineBatch == 0 {
				n /= float64(p.st.X.N())
			}
			r = max(r, 4*rmsOf(difference(p.with[0], p.without[0]))*math.Sqrt(2/n))
		}
		u.m.floor = max(u.m.floor, r*r)
		return nil
	})
}

// probe takes a step with some noise and without, exactly and as claimed.
func (u *unseen) probe(k, lo, hi, t int) (*roundingProbe, error) {
	e := u.e
	b, err := e.step(k, lo, hi, t)
	if err != nil {
		return nil, err
	}
	claim, err := e.claimAt(t)
	if err != nil {
		return nil, err
	}
	r := &roundingProbe{st: &unseenStep{batchStep: b}}
	for i, d := range []*emulate.Device{{Mode: e.mode}, claim} {
		p, err := e.apply(d, b.X, nil)
		if err != nil {
			return nil, err
		}
		r.without[i] = e.raw(d, b.X, p.out).Data
		draws, err := someNoise(1, lo, hi, t)
		if err != nil {
			return nil, err
		}
		out, err := p.again(draws)
		if err != nil {
			return nil, err
		}
		r.with[i] = e.raw(d, b.X, out).Data
		r.hidden, r.st.outputs = p.hidden(), p.out
	}
	return r, nil
}

// roundingProbe is a step with some noise and without it, before post-processing:
// exact, and as claimed.
type roundingProbe struct {
	st            *unseenStep
	hidden        *tensor.Tensor
	with, without [2][]float64
}

func difference(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i, v := range a {
		d[i] = v - b[i]
	}
	return d
}
