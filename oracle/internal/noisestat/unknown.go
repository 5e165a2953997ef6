package noisestat

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// unseen checks a trajectory whose noise nobody can repeat. A step without
// noise is exact; what the device has more than that must be noise, of the
// specified kind and size, mixed by the last layer as the model says, and
// nothing else: it may know nothing of the state, of other pixels, steps and
// realizations. What is smaller than the noise and does not add up over steps
// cannot be seen this way, and the report says so.
func (e *gate) unseen() error {
	m := NewModel(e.Evidence)
	if m == nil {
		e.Report.Notes = append(e.Report.Notes, "the noise is unknown and does not enter before a last 1x1 convolution: its statistics were not tested")
		return nil
	}
	if m.Kind == noise.Dropout {
		return nil // whose masks could not be read off
	}
	m.live(e.Evidence)
	u := &Unseen{E: e.Gate, M: m, Rounding: make([]float64, len(m.Rows))}
	if err := u.Calibrate(); err != nil {
		return err
	}
	m.few = m.scores(u.Rounding)
	batches := e.Case.Rollout.EngineBatches()
	s := e.States
	u.tests = newNoiseTests(e.Gate, m)
	for t := 1; t < s.T; t++ {
		if err := e.Ctx.Err(); err != nil {
			return err
		}
		for k := range batches {
			st, err := u.step(k, t)
			if err != nil {
				return err
			}
			u.tests.add(u, st)
		}
		e.Progress("noise", t, s.T-1)
	}
	u.tests.judge(u)
	return nil
}

// Unseen is a check with unknown noise under way.
type Unseen struct {
	E     *facts.Gate
	M     *Model
	tests *noiseTests

	claimed  bool      // the centre of the residuals is the step as claimed, not the exact one
	Rounding []float64 // variance of the claim's roundings about the centre, for each row of the model
	// Where roundings are not small, what they do to the statistics: the
	// variance of z for the claim's own roundings and for none, and the share of
	// z that roundings before the noise have, which may be the same at other
	// steps and realizations.
	Low, High, steady float64
	bias              float64        // the largest mean of z that the claim's roundings have at a step
	roundings         Sums           // of z, those before the noise
	own               []*FeatureSums // the same along features
}

// UnseenStep is one step of an engine batch seen as noise.
type UnseenStep struct {
	*evidence.BatchStep
	F       *Field
	Centre  []float64 // the step without noise, before post-processing
	Resid   []float64
	Outputs *tensor.Tensor // of the operator without noise
}

// step returns a step as noise.
func (u *Unseen) step(k, t int) (*UnseenStep, error) {
	e := u.E
	b, err := e.StepOf(k, t)
	if err != nil {
		return nil, err
	}
	d := &emulate.Device{Mode: e.Mode}
	if u.claimed {
		if d, err = e.ClaimAt(t); err != nil {
			return nil, err
		}
	}
	p, err := e.Apply(d, b.X, nil)
	if err != nil {
		return nil, err
	}
	st := &UnseenStep{BatchStep: b, Outputs: p.Out, Centre: e.Raw(d, b.X, p.Out).Data}
	ok := u.Residual(st, p.Hidden())
	st.F = u.M.Field(p.Hidden(), st.Resid, ok, u.Rounding)
	return st, nil
}

// Residual sets the residual before post-processing and returns which pixels
// have one: those that no clamp may have touched. A normalization is undone by
// the line that brings the device's states nearest to the step without noise.
func (u *Unseen) Residual(st *UnseenStep, hidden *tensor.Tensor) []bool {
	c := u.E.Case.Rollout
	b := st.BatchStep
	st.Resid = make([]float64, len(b.Got))
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
		got, centre := b.Got[g[0]*chw:g[1]*chw], st.Centre[g[0]*chw:g[1]*chw]
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
			st.Resid[g[0]*chw+i] = (v-offset)/slope - centre[i]
		}
		if c.Clamp == nil {
			continue
		}
		for n := g[0]; n < g[1]; n++ {
			for at := range hw {
				for _, o := range u.M.Rows {
					// Beyond six standard deviations nothing reaches the clamp.
					room := 6 * slope * u.M.spread(hidden, n, o, at)
					x := float64(slope*st.Centre[(n*b.X.C()+o)*hw+at]) + offset
					if x-room <= c.Clamp[0] || x+room >= c.Clamp[1] {
						ok[n*hw+at] = false
					}
				}
			}
		}
	}
	for i, v := range st.Resid {
		if !measure.Finite(v) {
			st.Resid[i], ok[i/chw*hw+i%hw] = 0, false
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
func (u *Unseen) swallowed(st *UnseenStep, hidden *tensor.Tensor, n, at int) bool {
	const reach = 12 // six standard deviations to either side
	layer, hw := u.E.Mode.Output(), hidden.H()*hidden.W()
	state := u.E.Case.Rollout.StateFormat(layer)
	all := true
	for _, o := range u.M.Rows {
		all = all && state.Ulp(st.Centre[(n*st.X.C()+o)*hw+at]) > reach*u.M.spread(hidden, n, o, at)
	}
	if all || u.M.Kind == noise.Dropout {
		return all
	}
	lost, sum := 0.0, 0.0
	for _, o := range u.M.Rows {
		for c, w := range u.M.W[o] {
			h := hidden.Data[(n*hidden.C()+c)*hw+at]
			s := u.M.sigma
			if u.M.Kind == noise.Multiplicative {
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
func (u *Unseen) weight(hidden *tensor.Tensor, n, o, at int) float64 {
	if u.M.Kind != noise.Multiplicative {
		return 1
	}
	s := u.M.spread(hidden, n, o, at)
	v := float64(s * s)
	if i := slices.Index(u.M.Rows, o); i >= 0 && i < len(u.Rounding) {
		v += u.Rounding[i]
	}
	return 1 / max(v, u.M.floor, 1e-6*float64(u.M.sigma*u.M.sigma))
}

// spread returns the standard deviation of the noise of output o at a pixel.
func (m *Model) spread(hidden *tensor.Tensor, n, o, at int) float64 {
	sum := 0.0
	for c, v := range m.W[o] {
		if m.Kind == noise.Multiplicative || m.Kind == noise.Dropout {
			v *= hidden.Data[(n*hidden.C()+c)*hidden.H()*hidden.W()+at]
		}
		sum += float64(v * v)
	}
	return m.sigma * math.Sqrt(sum)
}

// live restricts the model to the output that a clamp touches least, where more
// is left of it than of all outputs together.
func (m *Model) live(e *evidence.Evidence) {
	c, s := e.Case.Rollout.Clamp, e.States
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
				for _, o := range m.Rows {
					if v := x[o*hw+at]; v > c[0] && v < c[1] {
						own[o]++
						free++
					}
				}
				if free == len(m.Rows) {
					all += free
				}
			}
		}
	}
	best := m.Rows[0]
	for _, o := range m.Rows {
		if own[o] > own[best] {
			best = o
		}
	}
	if own[best] > all {
		m.Rows = []int{best}
	}
}

// line returns the line slope*x + offset nearest to y, by weighted squares.
func line(y, x []float64, weight func(i int) float64) (slope, offset float64) {
	var n, mx, my float64
	w := make([]float64, len(x))
	for i := range x {
		if measure.Finite(y[i]) {
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

// Calibrate finds what the claim's roundings do to the residuals, at a few steps
// and with some noise of the right kind; where they are small beside the noise
// there is nothing to find.
func (u *Unseen) Calibrate() error {
	const most = 3
	e, s := u.E, u.E.States
	u.Low, u.High = 1, 1
	if e.Mode.Output().Ulp(1) < 1e-4 { // float32 numbers between the operations
		if err := u.setFloor(); err != nil || e.Mode.Precision != fp16.TF32 {
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
		p, err := u.probe(i%s.M, t)
		if err != nil {
			return err
		}
		probes = append(probes, p)
		for j, sum := range []*float64{&aboutExact, &aboutClaim} {
			st := &UnseenStep{BatchStep: p.st.BatchStep, Centre: p.without[j]}
			u.Residual(st, p.hidden)
			v := measure.RMS(st.Resid)
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
			for r, o := range u.M.Rows {
				if at/hw%s.C == o && measure.Finite(d) {
					u.Rounding[r] += float64(d * d)
					n++
				}
			}
		}
	}
	for r := range u.Rounding {
		u.Rounding[r] /= n / float64(len(u.Rounding))
	}
	centre := 0
	if u.claimed {
		centre = 1
	}
	rows := len(u.M.Rows)
	for k, p := range probes {
		var levels [3]Sums // of a device as claimed, of an exact one, and of noise without any rounding
		for i, r := range [][]float64{Difference(p.with[1], p.without[centre]), Difference(p.with[0], p.without[centre]), Difference(p.with[0], p.without[0])} {
			for _, f := range u.M.Field(p.hidden, r, nil, u.Rounding).Sums {
				levels[i].Add(&f)
			}
		}
		// The draws of the three are the same, so their ratios are much better known
		// than their sizes, which they have by chance; but noise below the roundings of
		// operands is larger by more than that. Steps differ: a state that gets smaller
		// is rounded less.
		none := measure.Ratio(levels[2].gain, levels[2].pixels*float64(rows))
		chance := measure.Ratio(none, levels[2].Level(rows))
		if math.Abs(chance-1) > 4*math.Sqrt((2+u.M.excess())/(levels[2].pixels*float64(rows))) {
			chance = 1
		}
		if k == 0 {
			u.Low, u.High = none, none
		}
		u.Low, u.High = min(u.Low, none), max(u.High, none)
		for i := range 2 {
			l := chance * levels[i].Level(rows)
			u.Low, u.High = min(u.Low, l), max(u.High, l)
		}
		own := Difference(p.with[1], p.with[0])
		// A device that rounds less often has roundings of its own, as large as the
		// claim's at the most, beside those of the centre.
		var more Sums
		for _, f := range u.M.Field(p.hidden, own, nil, u.Rounding).Sums {
			more.Add(&f)
		}
		u.High = max(u.High, chance*(levels[1].Level(rows)+more.Level(rows)))
		if u.claimed {
			own = Difference(own, Difference(p.without[1], p.without[0]))
		}
		u.means(p, own)
		u.before(p, Difference(p.without[1], p.without[0]))
	}
	wide := 0.1*(u.High-u.Low) + 1e-3
	u.Low, u.High = max(u.Low-wide, u.Low/2), u.High+wide
	return nil
}

// truncated takes in what a device makes of the residuals that cuts the operands off
// where the claim rounds them to TF32: its errors are small, and all to one side.
func (u *Unseen) truncated() error {
	d := &emulate.Device{Mode: emulate.MustParse("tf32:truncate")}
	return u.ends(func(p *roundingProbe) error {
		cut, err := u.E.Apply(d, p.st.X, nil)
		if err != nil {
			return err
		}
		own := Difference(u.E.Raw(d, p.st.X, cut.Out).Data, p.without[0])
		u.means(p, own)
		u.before(p, own)
		return nil
	})
}

// ends probes the first step and the last.
func (u *Unseen) ends(do func(p *roundingProbe) error) error {
	for _, t := range []int{1, u.E.States.T - 1} {
		p, err := u.probe(0, t)
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
func (u *Unseen) means(p *roundingProbe, own []float64) {
	for _, f := range u.M.Field(p.hidden, own, nil, u.Rounding).Sums {
		if f.mean != nil && f.pixels > 0 {
			u.bias = max(u.bias, math.Sqrt(measure.Dot(f.mean, f.mean))/f.pixels, measure.Ratio(math.Abs(f.drift), math.Sqrt(f.drifts*f.pixels)))
		}
	}
}

// before takes in roundings before the noise.
func (u *Unseen) before(p *roundingProbe, own []float64) {
	f := u.M.Field(p.hidden, own, nil, u.Rounding)
	for i := range f.Sums {
		u.roundings.Add(&f.Sums[i])
	}
	u.steady = u.roundings.Level(len(u.M.Rows))
	for i, feat := range u.Features(p.st) {
		if i == len(u.own) {
			u.own = append(u.own, &FeatureSums{Name: feat.Name})
		}
		u.own[i].Against(f, u.M, p.st.Step, -1, feat.At)
	}
}

// setFloor sets the model's floor where roundings are small beside the noise: ten
// times the errors of sums, which are eight times those of numbers stored in float32
// (see roundings), or four times what other roundings of TF32 operands may make.
func (u *Unseen) setFloor() error {
	if u.M.Kind != noise.Multiplicative && u.M.Kind != noise.Dropout {
		return nil
	}
	e := u.E
	return u.ends(func(p *roundingProbe) error {
		r := 80 * measure.RMS(Difference(p.with[1], p.with[0]))
		if e.Mode.Precision == fp16.TF32 {
			r = max(r, 4*fp16.TF32.Ulp(1)/2*e.OutputShare()*measure.RMS(p.st.Outputs.Data))
		}
		if e.Case.Rollout.Normalization != "" { // and four times what the line that undoes it is off
			n := float64(len(p.st.Got))
			if e.Case.Rollout.EngineBatch == 0 {
				n /= float64(p.st.X.N())
			}
			r = max(r, 4*measure.RMS(Difference(p.with[0], p.without[0]))*math.Sqrt(2/n))
		}
		u.M.floor = max(u.M.floor, r*r)
		return nil
	})
}

// probe takes a step of realization m's engine batch with some noise and without, exactly
// and as claimed.
func (u *Unseen) probe(m, t int) (*roundingProbe, error) {
	e := u.E
	b, err := e.StepWith(m, t)
	if err != nil {
		return nil, err
	}
	claim, err := e.ClaimAt(t)
	if err != nil {
		return nil, err
	}
	r := &roundingProbe{st: &UnseenStep{BatchStep: b}}
	for i, d := range []*emulate.Device{{Mode: e.Mode}, claim} {
		p, err := e.Apply(d, b.X, nil)
		if err != nil {
			return nil, err
		}
		r.without[i] = e.Raw(d, b.X, p.Out).Data
		draws, err := evidence.SomeNoise(1, b.Lo, b.Hi, t)
		if err != nil {
			return nil, err
		}
		out, err := p.Again(draws)
		if err != nil {
			return nil, err
		}
		r.with[i] = e.Raw(d, b.X, out).Data
		r.hidden, r.st.Outputs = p.Hidden(), p.Out
	}
	return r, nil
}

// roundingProbe is a step with some noise and without it, before post-processing:
// exact, and as claimed.
type roundingProbe struct {
	st            *UnseenStep
	hidden        *tensor.Tensor
	with, without [2][]float64
}

// Difference returns a - b.
func Difference(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i, v := range a {
		d[i] = v - b[i]
	}
	return d
}
