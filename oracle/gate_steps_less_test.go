package oracle

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// TestStepsLess: a device that rounds nothing but the state is found to, also
// where it is near enough to the claim's own ensemble.
func TestStepsLess(t *testing.T) {
	for _, format := range []string{"float16", "bfloat16"} {
		b := newStepBench(t, format, "cpu", "instance", rollout.Config{Policy: rollout.Autoregressive})
		p := b.gate.claim
		want := b.gate.claim.name(b.gate.format(), "counter", true)
		p.points = 0
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || r.Contract != want+" with fewer roundings" {
			t.Errorf("%s: contract %q, findings %v: want %q with fewer roundings", format, r.Contract, r.Findings, want)
		}
		p = pattern{mode: operator.Mode{Precision: fp16.Float32}}
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || r.Contract != "float32/state-float32/noise-counter" {
			t.Errorf("%s: contract %q, findings %v: want float32", format, r.Contract, r.Findings)
		}
	}
}
