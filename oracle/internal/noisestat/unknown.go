package noisestat

import (
	"math"
	"slices"

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
		e.Report.Notes = append(e.Report.Notes,
			"the noise is unknown and does not enter before a last 1x1 convolution: its statistics were not tested")
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

// Difference returns a - b.
func Difference(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i, v := range a {
		d[i] = v - b[i]
	}
	return d
}
