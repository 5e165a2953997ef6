package replay

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/report"
)

// otherNoise reports whether what is wrong with a step is its noise, although no
// draws that could be tried explain it: another stream, or another distribution.
//
// A step that computes something else than the operator leaves a residual that
// goes with the state or the output. Wrong roundings do not, but they come on
// top of the noise: with right draws the noise still has slope 1 on the specified
// one. Other draws of the same size have a smaller slope, c, and the residual
// 2 - 2c of their variance.
func (e *Gate) otherNoise(w *wrong) (bool, error) {
	m := noisestat.NewModel(e.Evidence)
	if m == nil || w.Draws == nil {
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
	name, text := "noise.noise-differs-from-the-specified-draws", ""
	of := excess
	switch {
	case m.Kind == noise.Dropout:
		// Masks of elements have the size that masks of channels have, and little in
		// common with them.
		if of = st.F; math.Abs(size-1) > 0.2 || rest < 0.3 {
			return false, nil
		}
		name, text = "noise.dropout-of-elements-not-of-channels", "the dropped numbers are no whole channels"
	case rest < 0.02+4*(u.High-u.Low) || 1-slope < 0.15*rest:
		return false, nil
	case math.Abs(slope) < 0.1:
		name, text = "noise.another-noise-stream", "it has nothing of the specified noise"
	default:
		text = fmt.Sprintf("it has %.3g of the specified noise", slope)
	}
	features := u.Features(st)
	limit := measure.ZLimit(float64(len(features)))
	for i, feat := range features {
		s := &noisestat.FeatureSums{Name: feat.Name}
		s.Against(of, m, w.Step, 0, feat.At)
		slack, _ := u.Slack(i, s)
		if math.Abs(s.Coherent()) > limit+slack/math.Sqrt(max(level(of), 1e-300)) {
			return false, nil
		}
	}
	e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: w.Step, Realization: w.realization, ID: name, Weak: true, Excess: diff.Number(w.rms / w.floor),
		Text: fmt.Sprintf("step %d is what the operator makes of the state before but for its noise: %s, and what it has is %.3g times as large as specified", w.Step, text, math.Sqrt(size))})
	return true, nil
}

// level returns the variance of a field's numbers.
func level(f *noisestat.Field) float64 {
	var s noisestat.Sums
	for i := range f.Sums {
		s.Add(&f.Sums[i])
	}
	return s.Level(f.K)
}
