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
	var all []suspect
	for _, k := range e.factorKinds(m, f) {
		snapped := make([][]float64, len(of))
		for r, f := range of {
			snapped[r] = snap(f, k.are)
		}
		all = append(all, suspect{name: k.name, what: k.what, verdict: report.FailRNG, gate: "noise",
			masks: m.Kind == noise.Dropout, odd: k.are == nil,
			step: func() ([]float64, error) { return w.multiplied(m.Kind, part, snapped) }})
	}
	return all
}

// multiplied returns the states of a step whose hidden channels have factors of their own: of what they hold in a
// dropout, otherwise of their noise.
func (w *wrong) multiplied(kind noise.Type, part *tensor.Tensor, of [][]float64) ([]float64, error) {
	held := w.claimed.Hidden()
	noisy := tensor.Like(held)
	for r := range noisy.N() {
		for c := range noisy.C() {
			h, p, y := held.Plane(r, c), part.Plane(r, c), noisy.Plane(r, c)
			for i := range y {
				if kind == noise.Dropout {
					y[i] = float64(of[r][c] * h[i])
				} else {
					y[i] = h[i] + float64(of[r][c]*p[i])
				}
			}
		}
	}
	w.claimed.D.Store[w.claimed.Noise].RoundSlice(noisy.Data, noisy.Data)
	return w.outOf(noisy)
}

// fewOthers reports whether factors of a dropout are the specified ones but in so few channels that they are no
// other masks, which differ in 2p(1-p) of those that show: a channel is wrong before the dropout. A quarter of what is
// expected, of 12 or more, happens once in 100 times by chance (Chernoff).
func (e *Gate) fewOthers(m *noisestat.Model, w *wrong, f []float64) bool {
	p, others, expected := e.Machine.Nodes[m.Node].Noise.Scale, 0.0, 0.0
	keep := w.Draws.Data[0][(w.worst()-w.Lo)*len(f):]
	for c, v := range f {
		if math.IsNaN(v) {
			continue
		}
		if expected += float64(2 * p * (1 - p)); math.Abs(v-keep[c]/(1-p)) > nearFactor {
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

// snap returns factors as what they are: the nearest of some numbers, where one is near. A channel that does
// not show has none: it is zero everywhere, or another one has its share.
func snap(f, are []float64) []float64 {
	y := slices.Clone(f)
	for c, v := range f {
		if math.IsNaN(v) {
			y[c] = 0
		}
		nearest := nearFactor
		for _, x := range are {
			if d := math.Abs(v - x); d < nearest {
				y[c], nearest = x, d
			}
		}
	}
	return y
}

// factorKind is what factors of channels may be: some numbers, any if there are none.
type factorKind struct {
	name, what string
	are        []float64
}

// factorKinds returns what factors of channels may be: what they are near to, and any.
func (e *Gate) factorKinds(m *noisestat.Model, f []float64) (kinds []factorKind) {
	may := func(name, what string, of ...float64) {
		for _, v := range f {
			if !math.IsNaN(v) && !slices.ContainsFunc(of, func(x float64) bool { return math.Abs(v-x) < nearFactor }) {
				return
			}
		}
		kinds = append(kinds, factorKind{name, what, of})
	}
	if m.Kind != noise.Dropout {
		may("noise.no-noise", "it has no noise", 0)
		may("noise.noise-missing-in-some-channels", "some channels have no noise", 0, 1)
		least, most := extremes(f)
		return append(kinds, factorKind{"noise.noise-scale-differs-by-channel",
			fmt.Sprintf("the noise of its channels has factors of its own (from %.4g to %.4g)", least, most), nil})
	}
	p := e.Machine.Nodes[m.Node].Noise.Scale
	may("noise.dropout-is-off", "no channel is dropped", 1)
	may("noise.other-dropout-masks", "other channels are dropped", 0, 1/(1-p))
	may("noise.dropout-not-rescaled", "kept channels lack the factor 1/(1-p)", 0, 1)
	may("noise.dropout-with-p-and-1-p-swapped", "kept channels have the factor 1/p", 0, 1/p)
	if !otherFactor(f, p) {
		return kinds
	}
	return append(kinds,
		factorKind{"noise.dropout-factors-wrong", "its channels have other factors than 0 and 1/(1-p)", nil})
}

// otherFactor reports whether most channels that are kept have another factor than 1/(1-p), by more than a number of 12
// bits that is near to it. What is less is a fault of the operator before it, which factors of channels make up for.
func otherFactor(f []float64, p float64) bool {
	var off []float64
	for _, v := range f {
		if d := math.Abs(v*(1-p) - 1); v > 0.5 { // NaN is none
			off = append(off, d)
		}
	}
	slices.Sort(off)
	return len(off) == 0 || off[len(off)/2] > leastOtherFactor
}

const leastOtherFactor = 0x1p-13
