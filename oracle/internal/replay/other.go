package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// otherNoise reports whether what is wrong with a step is its noise, although no
// draws that could be tried explain it: another stream, or another distribution.
//
// A step that computes something else than the operator leaves a residual that
// goes with the state or the output. Wrong roundings do not, but they come on
// top of the noise: with right draws the noise still has slope 1 on the specified
// one, to sqrt(v/n) where they have the variance v at n numbers. Other draws of the same
// size have a smaller slope, c, and the residual 2 - 2c of their variance; where roundings
// hide that, half of the slope must be missing. Draws of few digits are nearly the
// specified ones: then the residual is large where the draws are (see goesWithDraws).
//
// Of a step whose residual right steps may have nothing is said but that it is largest where the draws
// are (see withExtremes).
func (e *Gate) otherNoise(w *wrong) (bool, error) {
	m := noisestat.NewModel(e.Evidence)
	if m == nil || w.Draws == nil {
		return false, nil
	}
	found, err := e.noiseLeft(w, m)
	if found || err != nil || m.Kind == noise.Dropout || !withExtremes(w, m.Kind) {
		return found, err
	}
	e.Find(report.Finding{
		Verdict: report.FailRNG, Gate: "noise", Step: w.Step, Realization: w.realization,
		ID: "noise.noise-differs-from-the-specified-draws", Weak: true, Excess: diff.Number(w.rms / w.floor),
		Text: fmt.Sprintf("step %d is farthest from the claim's where the specified draws are largest: "+
			"the device has others there", w.Step),
	})
	return true, nil
}

// noiseLeft is otherNoise by what the step has in place of the specified noise.
func (e *Gate) noiseLeft(w *wrong, m *noisestat.Model) (bool, error) {
	if w.rms <= w.floor {
		return false, nil
	}
	u := &noisestat.Unseen{E: e.Gate, M: m, Rounding: make([]float64, len(m.Rows))}
	if err := u.Calibrate(); err != nil {
		return false, err
	}
	p := w.claimed // whose roundings swallow as much of the noise as the device's do
	silent, err := p.Again(nil)
	if err != nil {
		return false, err
	}
	st := &noisestat.UnseenStep{BatchStep: w.BatchStep, Centre: e.Raw(p.D, w.X, silent).Data, Outputs: silent}
	ok := u.Residual(st, p.Hidden())
	st.F = m.Field(p.Hidden(), st.Resid, ok, u.Rounding)
	specified := noisestat.Difference(e.Raw(p.D, w.X, p.Out).Data, st.Centre)
	spec := m.Field(p.Hidden(), specified, ok, u.Rounding)
	excess := m.Field(p.Hidden(), noisestat.Difference(st.Resid, specified), ok, u.Rounding)

	size, rest := level(st.F), level(excess)
	slope := measure.Ratio(measure.Dot(st.F.Z, spec.Z), measure.Dot(spec.Z, spec.Z))
	chance := math.Sqrt(rest / measure.Dot(spec.Z, spec.Z)) // of a slope
	name, text := "noise.noise-differs-from-the-specified-draws", ""
	of, unsure := excess, 4*(u.High-u.Low) // what roundings may be of it
	if w.rms > 3*w.floor {
		unsure = 0 // a ninth of it at most
	}
	switch {
	case m.Kind == noise.Dropout:
		// Masks of elements have the size that masks of channels have, and little in
		// common with them.
		if of = st.F; math.Abs(size-1) > 0.2 || rest < 0.3 {
			return false, nil
		}
		name, text = "noise.dropout-of-elements-not-of-channels", "the dropped numbers are no whole channels"
	case !(rest >= 0.02+unsure && 1-slope >= max(0.15*rest, 3*chance) ||
		slope < 0.5 && 1-slope > measure.ZLimit(1)*chance):
		if !goesWithDraws(m, w, excess, p.Hidden()) {
			return false, nil
		}
		text = "what it has more is larger where the specified draws are"
	case math.Abs(slope) < 0.1:
		if size > 2 && st.F.Coloured() { // far more than the specified noise, and no noise
			return false, nil
		}
		name, text = "noise.another-noise-stream", "it has nothing of the specified noise"
	default:
		text = fmt.Sprintf("it has %.3g of the specified noise", slope)
	}
	if goesWithState(u, st, of, w.Step) {
		return false, nil
	}
	e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: w.Step, Realization: w.realization, ID: name,
		Weak: true, Excess: diff.Number(w.rms / w.floor), Text: fmt.Sprintf(
			"step %d is what the operator makes of the state before but for its noise: "+
				"%s, and what it has is %.3g times as large as specified", w.Step, text, math.Sqrt(size),
		)})
	return true, nil
}

// goesWithState reports whether a field of what is left goes with a feature of the step's state: noise does not.
func goesWithState(u *noisestat.Unseen, st *noisestat.UnseenStep, of *noisestat.Field, step int) bool {
	features := u.Features(st)
	limit := measure.ZLimit(float64(len(features)))
	for i, feat := range features {
		s := &noisestat.FeatureSums{Name: feat.Name}
		s.Against(of, u.M, step, 0, feat.At)
		slack, _ := u.Slack(i, s)
		if math.Abs(s.Coherent()) > limit+slack/math.Sqrt(max(level(of), 1e-300)) {
			return true
		}
	}
	return false
}

// goesWithDraws reports whether what a step has beyond the specified noise is larger where
// the draws of the pixel are: of that an operator knows nothing, and draws that were made
// otherwise, such as of uniform numbers of few bits, do. What follows the noise, the last
// convolution, has errors that go with the noisy numbers themselves, and so more with these.
//
// Of P pixels the correlation of two unrelated figures has the deviation 1/sqrt(P). Of the
// squared residual the logarithm is taken, as a few large ones would decide else.
func goesWithDraws(m *noisestat.Model, w *wrong, excess *noisestat.Field, hidden *tensor.Tensor) bool {
	var of, draws, noisy []float64
	k, c, hw := excess.K, hidden.C(), hidden.H()*hidden.W()
	block, to := evidence.NoiseScale(w.claimed.Machine.Nodes), make([]float64, c) // what a channel gives the outputs
	for _, o := range m.Rows {
		for j, v := range m.W[o] {
			to[j] += float64(v * v)
		}
	}
	for at := range hidden.N() * hw {
		q := measure.Dot(excess.Z[at*k:(at+1)*k], excess.Z[at*k:(at+1)*k])
		if !(q > 0) { // a pixel that says nothing
			continue
		}
		var d, y, all float64
		for j := range c {
			i := at/hw*c*hw + j*hw + at%hw
			h, x := hidden.Data[i], w.Draws.Data[0][i]
			scale := block
			if m.Kind == noise.Multiplicative {
				scale *= h
			}
			share := float64(to[j] * scale * scale)
			all += share
			d += float64(share * x * x)
			y += float64(to[j] * (h + float64(scale*x)) * (h + float64(scale*x)))
		}
		of = append(of, elem.Log(q))
		draws, noisy = append(draws, measure.Ratio(d, all)), append(noisy, elem.Log(y+0x1p-1000))
	}
	z := correlation(of, draws) * math.Sqrt(float64(len(of)))
	return z > measure.ZLimit(1) && z > math.Abs(correlation(of, noisy))*math.Sqrt(float64(len(of)))
}

// withExtremes reports whether the pixels that are farthest from the claim's states are those with the largest
// draws. Draws that are made of uniform numbers of few bits are wrong there first. An operator knows nothing of
// draws; what follows the noise knows the noisy numbers, and must go less with these.
func withExtremes(w *wrong, kind noise.Type) bool {
	hidden, scale := w.claimed.Hidden(), evidence.NoiseScale(w.claimed.Machine.Nodes)
	hw, c, outs := hidden.H()*hidden.W(), hidden.C(), w.X.C()
	if w.X.H()*w.X.W() != hw || len(w.Draws.Data[0]) != len(hidden.Data) {
		return false
	}
	n := hidden.N() * hw
	off, draws, noisy := make([]float64, n), make([]float64, n), make([]float64, n)
	for at := range n {
		for k := range outs {
			i := at/hw*outs*hw + k*hw + at%hw
			d := w.Got[i] - w.want[i]
			off[at] += float64(d * d)
		}
		for j := range c {
			i := at/hw*c*hw + j*hw + at%hw
			h, x := hidden.Data[i], w.Draws.Data[0][i]
			add := float64(scale * x)
			if kind == noise.Multiplicative {
				add *= h
			}
			draws[at], noisy[at] = max(draws[at], math.Abs(x)), max(noisy[at], math.Abs(h+add))
		}
	}
	chance := together(off, draws)
	return chance > 50 && chance > together(off, noisy)
}

// together is Fisher's statistic of the ranks by b of the farthest numbers by a, -2 sum of ln p, p the share of numbers
// whose b is as large. If a and b have nothing to do with each other it is chi-square with twice as many degrees of
// freedom, and of 8 numbers above 50 once in 40,000 times.
func together(a, b []float64) float64 {
	const farthest = 8
	if len(a) < 16*farthest {
		return 0
	}
	order := make([]int, len(a))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(a[j], a[i]) })
	sum := 0.0
	for _, i := range order[:farthest] {
		above := 0
		for _, v := range b {
			if v >= b[i] {
				above++
			}
		}
		sum -= 2 * elem.Log(float64(above)/float64(len(b)))
	}
	return sum
}

// correlation of two lists, 0 if one of them is constant.
func correlation(a, b []float64) float64 {
	ma, va := measure.Moments(a)
	mb, vb := measure.Moments(b)
	sum := 0.0
	for i, x := range a {
		sum += float64((x - ma) * (b[i] - mb))
	}
	return measure.Ratio(sum, float64(len(a))*math.Sqrt(va*vb))
}

// level returns the variance of a field's numbers.
func level(f *noisestat.Field) float64 {
	var s noisestat.Sums
	for i := range f.Sums {
		s.Add(&f.Sums[i])
	}
	return s.Level(f.K)
}
