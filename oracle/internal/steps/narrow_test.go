package steps

import (
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestNarrowScale: a device of PyTorch 1.13's autocast, which rounds the scale of noise, is right by that contract where
// another is claimed: its noise is held against noise of that scale.
func TestNarrowScale(t *testing.T) {
	t.Parallel()
	ro := convex(.4)
	ro.Clamp = &[2]float64{-.75, .75}
	b := newStepBench(t, "bfloat16", "cpu", "batch", ro)
	e := b.gate.e
	config := e.Op.Config
	config.NoiseScale, config.NoiseType = .01824, "laplace" // 0.3 per cent from the half number
	op, err := operator.Init(config, 7)
	if err != nil {
		t.Fatal(err)
	}
	e.Op, e.Machine, e.Case.Operator = op, emulate.New(op, ro), op.Config
	if e.Stream, err = e.Case.OpenStream("counter", op, e.Mode); err != nil {
		t.Fatal(err)
	}
	b.gate = newStepGate(e.Evidence, e.Facts)
	mode, err := operator.ParseMode("bfloat16", "cpu:1.13")
	if err != nil {
		t.Fatal(err)
	}
	s := rollout.Stepper{Operator: op, Config: e.Case.Rollout, Mode: mode}
	b.device = func(step int) *emulate.Device {
		return &emulate.Device{Mode: e.Mode, Update: func(x, _ *tensor.Tensor) *tensor.Tensor {
			y, err := s.Step(tensor.Of(mode.Wide(), x.Data, x.Shape...), b.gate.draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			return y
		}}
	}
	r := b.check()
	if len(r.Findings) > 0 {
		t.Fatal(r.Findings[0].Text)
	}
	if r.Contract != "bfloat16/autocast-cpu:1.13/state-float32/noise-counter" {
		t.Errorf("contract %s, pattern %s", r.Contract, r.Pattern)
	}
}
