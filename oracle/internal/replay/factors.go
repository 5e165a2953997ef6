package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// factorSuspects are steps in which each hidden channel has a factor of its own:
// a dropout with other masks or another factor, or noise whose scale differs by
// channel or realization. Which factors, the device's step itself says.
func (e *Gate) factorSuspects(w *wrong) []suspect {
	m := noisestat.NewModel(e.Evidence)
	if m == nil || w.X.H()*w.X.W()*len(m.Rows) < 4*len(m.W[0]) {
		return nil
	}
	silent, err := w.exact.Again(nil)
	if err != nil {
		return nil
	}
	hidden := w.exact.Hidden()
	part, rest := hidden, []float64(nil)
	if m.Kind == noise.Dropout {
		rest = m.Without(e.Evidence, w.exact, silent, hidden)
	} else {
		noisy, err := e.Machine.Plain(w.exact.D, w.exact.Noise, []*tensor.Tensor{hidden}, w.Draws.Rewind())
		if err != nil {
			return nil
		}
		part = noisy
		for i, h := range hidden.Data {
			part.Data[i] -= h
		}
		rest = e.Raw(w.exact.D, w.X, silent).Data
	}
	of := make([][]float64, w.Hi-w.Lo)
	for r := range of {
		for _, f := range m.Factors(e.Case.Rollout, part, rest, w.BatchStep, w.Lo+r) {
			of[r] = append(of[r], f.Shown())
		}
	}
	f := of[w.worst()-w.Lo]
	if !slices.ContainsFunc(f, func(v float64) bool { return !math.IsNaN(v) }) {
		return nil
	}
	if m.Kind == noise.Dropout && e.fewOthers(m, w, f) {
		return nil
	}
	if least, most := extremes(f); m.Kind != noise.Dropout && most-least < 0.02*math.Abs(most) {
		return nil // one factor for all is a scale
	}
	name, what, are := e.factorName(m, f)
	for _, f := range of {
		snap(f, are)
	}
	return []suspect{{name: name, what: what, verdict: report.FailRNG, gate: "noise", masks: m.Kind == noise.Dropout, odd: are == nil, step: func() ([]float64, error) {
		held := w.claimed.Hidden()
		noisy := tensor.Like(held)
		for r := range noisy.N() {
			for c := range noisy.C() {
				h, p, y := held.Plane(r, c), part.Plane(r, c), noisy.Plane(r, c)
				for i := range y {
					if m.Kind == noise.Dropout {
						y[i] = float64(of[r][c] * h[i])
					} else {
						y[i] = h[i] + float64(of[r][c]*p[i])
					}
				}
			}
		}
		w.claimed.D.Store[w.claimed.Noise].RoundSlice(noisy.Data, noisy.Data)
		return w.outOf(noisy)
	}}}
}

// fewOthers reports whether factors of a dropout are the specified ones but in so few channels that they are no
// other masks, which differ in 2p(1-p) of them: a channel is wrong before the dropout. A quarter of what is
// expected, of 12 or more, happens once in 100 times by chance (Chernoff).
func (e *Gate) fewOthers(m *noisestat.Model, w *wrong, f []float64) bool {
	p, others := e.Machine.Nodes[m.Node].Noise.Scale, 0.0
	expected := float64(2*p*(1-p)) * float64(len(f))
	keep := w.Draws.Data[0][(w.worst()-w.Lo)*len(f):]
	for c, v := range f {
		if math.Abs(v-keep[c]/(1-p)) > nearFactor {
			others++
		}
	}
	return expected >= 12 && others < expected/4
}

// extremes returns the least and the greatest of the factors of channels that show.
func extremes(f []float64) (least, most float64) {
	f = slices.DeleteFunc(slices.Clone(f), math.IsNaN)
	return slices.Min(f), slices.Max(f)
}

// nearFactor is how far a factor that the states show may be from what it is.
const nearFactor = 0.05

// snap makes factors what they are: one of some numbers that is near. A channel that does not show may
// have any.
func snap(f, are []float64) {
	for c, v := range f {
		if math.IsNaN(v) {
			f[c] = 1
		}
		for _, x := range are {
			if math.Abs(v-x) < nearFactor {
				f[c] = x
			}
		}
	}
}

// factorName names factors of channels, and returns the numbers that they are; nil if they may be any.
func (e *Gate) factorName(m *noisestat.Model, f []float64) (name, what string, are []float64) {
	near := func(of ...float64) bool {
		for _, v := range f {
			if !math.IsNaN(v) && !slices.ContainsFunc(of, func(x float64) bool { return math.Abs(v-x) < nearFactor }) {
				return false
			}
		}
		are = of
		return true
	}
	if m.Kind != noise.Dropout {
		if near(0) {
			return "noise.no-noise", "it has no noise", are
		}
		if near(0, 1) {
			return "noise.noise-missing-in-some-channels", "some channels have no noise", are
		}
		least, most := extremes(f)
		return "noise.noise-scale-differs-by-channel", fmt.Sprintf("the noise of its channels has factors of its own (from %.4g to %.4g)", least, most), nil
	}
	p := e.Machine.Nodes[m.Node].Noise.Scale
	switch {
	case near(1):
		return "noise.dropout-is-off", "no channel is dropped", are
	case near(0, 1/(1-p)):
		return "noise.other-dropout-masks", "other channels are dropped", are
	case near(0, 1):
		return "noise.dropout-not-rescaled", "kept channels lack the factor 1/(1-p)", are
	case near(0, 1/p):
		return "noise.dropout-with-p-and-1-p-swapped", "kept channels have the factor 1/p", are
	}
	return "noise.dropout-factors-wrong", "its channels have other factors than 0 and 1/(1-p)", nil
}
