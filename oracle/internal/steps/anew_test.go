package steps

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// constantBench is a rollout in bfloat16 from a start without pattern.
func constantBench(t *testing.T, norm string) *stepBench {
	b := newStepBench(t, "bfloat16", "cuda", norm, rollout.Config{Policy: rollout.Autoregressive})
	b.build(operator.Config{NumLayers: 3, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "silu", Normalization: norm}, "none")
	b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, 1) }
	b.start = func(x []float64) {
		for i := range x {
			x[i] = .5
		}
	}
	return b
}

// TestConstantStates: the errors of a few numbers, which all pixels have, say little of how large
// errors are; steps rounded anew do. Numbers some ulps off are remarked then, and numbers that are
// farther off are wrong.
func TestConstantStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ulps       float64
		note, find bool
	}{{0, false, false}, {2, true, false}, {40, false, true}} {
		b := constantBench(t, "batch")
		b.after = func(step int, y *tensor.Tensor) {
			for k := range y.Data {
				if x := k % 24; step == 1 && x == 0 {
					y.Data[k] += c.ulps * fp16.BFloat16.Ulp(y.Data[k])
				}
			}
		}
		b.unnamed = c.find
		r := b.check()
		if m := b.measured(1); math.Sqrt(b.gate.newSpreads(b.gate.claim).at(m.alike, m.of).few(measure.InPeak, 1)) > 40 {
			t.Errorf("%.3g pixels alike, a scale of %.3g numbers: one number may be more than 40 deviations off", m.alike, m.of)
		}
		note := strings.Contains(strings.Join(r.Notes, "; "), "have the same surroundings and round alike")
		if note != c.note ||
			slices.ContainsFunc(r.Findings, func(f report.Finding) bool { return f.Verdict.Failed() }) != c.find {
			t.Errorf("a column %v ulps off, peak %.3g: notes %q, findings %v",
				c.ulps, float64(r.Steps[0].Peak), r.Notes, r.Findings)
		}
	}
}

// TestAnew: with the last roundings, steps rounded anew are as far from exact arithmetic as the
// claim's emulation, where that has as many independent numbers.
func TestAnew(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{"batch", "gelu"}, {"instance", "gelu"}, {"group", "gelu"}, {"group", "relu"},
		{"instance", "relu"}, {"batch", "gelu", "gaussian"}, {"instance", "relu", "multiplicative"}} {
		b := newStepBench(t, "bfloat16", "cuda", c[0], rollout.Config{Policy: rollout.Convex, Alpha: .3})
		b.build(operator.Config{
			NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: c[1],
			Normalization: c[0], NoiseType: c[2], NoiseScale: 3,
		}, map[bool]string{true: "none", false: "counter"}[c[2] == ""])
		b.run()
		m := b.measured(1)
		g := b.gate
		of := func(y []float64) float64 {
			var squares float64
			for k, v := range y {
				squares += (v - m.truth[k]) * (v - m.truth[k])
			}
			return squares / float64(len(y))
		}
		last, lasts := g.last(), 0.0
		_, o, err := g.emulation(m.BatchStep, g.claim)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range m.truth {
			lasts += last(v, o.Data[k]) / float64(len(m.truth))
		}
		y, err := g.anew(m.BatchStep, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := of(y.Data)+lasts, of(m.emu); !(got > 0.8*want && got < 1.25*want) {
			t.Errorf("%s: a mean square error of %.3g: want about %.3g", c, got, want)
		}
	}
}
