package noisestat

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

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
		for i, r := range [][]float64{Difference(p.with[1], p.without[centre]),
			Difference(p.with[0], p.without[centre]), Difference(p.with[0], p.without[0])} {
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
			u.bias = max(u.bias, math.Sqrt(measure.Dot(f.mean, f.mean))/f.pixels,
				measure.Ratio(math.Abs(f.drift), math.Sqrt(f.drifts*f.pixels)))
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
