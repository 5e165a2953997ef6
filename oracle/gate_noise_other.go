package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/report"
)

// dropoutOfElements is the name of a dropout whose masks cannot be known.
const dropoutOfElements = "dropout of elements, not of channels"

// otherNoise reports whether what is wrong with a step is its noise, although no
// draws that could be tried explain it: another stream, or another distribution.
//
// A step that computes something else than the operator leaves a residual that
// goes with the state or the output. Wrong roundings do not, but they come on
// top of the noise: with right draws the noise still has slope 1 on the specified
// one. Other draws of the same size have a smaller slope, c, and the residual
// 2 - 2c of their variance.
func (e *rolloutGate) otherNoise(w *wrong) (bool, error) {
	m := newNoiseModel(e.evidence)
	if m == nil || w.Draws == nil {
		return false, nil
	}
	u := &unseen{e: e.gate, m: m, rounding: make([]float64, len(m.rows))}
	if err := u.calibrate(); err != nil {
		return false, err
	}
	p := w.claimed // whose roundings swallow as much of the noise as the device's do
	silent, err := p.again(nil)
	if err != nil {
		return false, err
	}
	st := &unseenStep{batchStep: w.batchStep, centre: e.raw(p.d, w.X, silent).Data, outputs: silent}
	ok := u.residual(st, p.hidden())
	st.f = m.field(p.hidden(), st.resid, ok, u.rounding)
	specified := difference(e.raw(p.d, w.X, p.out).Data, st.centre)
	spec := m.field(p.hidden(), specified, ok, u.rounding)
	excess := m.field(p.hidden(), difference(st.resid, specified), ok, u.rounding)

	size, rest := level(st.f), level(excess)
	slope := ratio(dot(st.f.z, spec.z), dot(spec.z, spec.z))
	name, text := "noise differs from the specified draws", ""
	of := excess
	switch {
	case m.kind == noise.Dropout:
		// Masks of elements have the size that masks of channels have, and little in
		// common with them.
		if of = st.f; math.Abs(size-1) > 0.2 || rest < 0.3 {
			return false, nil
		}
		name, text = dropoutOfElements, "the dropped numbers are no whole channels"
	case rest < 0.02+4*(u.high-u.low) || 1-slope < 0.15*rest:
		return false, nil
	case math.Abs(slope) < 0.1:
		name, text = "another noise stream", "it has nothing of the specified noise"
	default:
		text = fmt.Sprintf("it has %.3g of the specified noise", slope)
	}
	features := u.features(st)
	limit := zLimit(float64(len(features)))
	for i, feat := range features {
		s := &featureSums{name: feat.name}
		s.against(of, m, w.Step, 0, feat.at)
		slack, _ := u.slack(i, s)
		if math.Abs(s.coherent()) > limit+slack/math.Sqrt(max(level(of), 1e-300)) {
			return false, nil
		}
	}
	e.find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: w.Step, Realization: w.realization, Diagnosis: name, Excess: diff.Number(w.rms / w.floor),
		Text: fmt.Sprintf("step %d is what the operator makes of the state before but for its noise: %s, and what it has is %.3g times as large as specified", w.Step, text, math.Sqrt(size))})
	return true, nil
}

// level returns the variance of a field's numbers.
func level(f *noiseField) float64 {
	var s noiseSums
	for i := range f.sums {
		s.add(&f.sums[i])
	}
	return s.level(f.k)
}
