package steps

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// TestStepsLess: a device that rounds nothing but the state is found to, also
// where it is near enough to the claim's own ensemble.
func TestStepsLess(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"float16", "bfloat16"} {
		b := newStepBench(t, format, "cpu", "instance", rollout.Config{Policy: rollout.Autoregressive, Timesteps: 6})
		p := b.gate.claim
		want := b.gate.claim.Name(b.gate.format(), "counter", true)
		p.Points = 0
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || r.Contract != want+" with fewer roundings" {
			t.Errorf("%s: contract %q, findings %v: want %q with fewer roundings", format, r.Contract, r.Findings, want)
		}
		p = emulate.Pattern{Mode: graph.Mode{Precision: fp16.Float32}}
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || r.Contract != "float32/state-float32/noise-counter" {
			t.Errorf("%s: contract %q, findings %v: want float32", format, r.Contract, r.Findings)
		}
	}
}

// TestStepsFewer: a device that is near enough to the claim's own ensemble, but more
// accurate than its roundings allow, is found to store less, whatever it stores.
func TestStepsFewer(t *testing.T) {
	t.Parallel()
	b := newDeepStepBench(t, "float16", "cpu", "instance", 4,
		rollout.Config{Policy: rollout.Autoregressive, Timesteps: 6}).wide()
	p := b.gate.claim
	p.Points = emulate.AtConv | emulate.AtDraw | emulate.AtProduct
	b.device = func(int) *emulate.Device { return b.correct(p, 3) }
	b.run()
	g := b.gate
	all, bad, err := g.measureAll()
	if err != nil || bad != nil || !distant(all) {
		t.Fatalf("err %v, fault %v, distant %v: want a device that is right by the claim, and distant", err,
			bad, distant(all))
	}
	found, err := g.less(all)
	if err != nil {
		t.Fatal(err)
	}
	// The noise and the output are rounded with the state, or not at all.
	if has := g.use.Points &^ (emulate.AtNoise | emulate.AtOut); !found || has != p.Points {
		t.Errorf("found %v, %v: want %v", found, g.use.Points, p.Points)
	}
}
