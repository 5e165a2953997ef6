package steps

import (
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// TestScaleOfBlocks: a start of alike pixels says of a product of matrices what it makes one expect: a right device's
// reported error is about as large, whatever a norm divides by.
func TestScaleOfBlocks(t *testing.T) {
	t.Parallel()
	for member := range uint64(2) {
		ro := rollout.Config{Policy: rollout.Autoregressive, Timesteps: 3}
		b := newStepBenchOf(t, "float32", "", operator.Config{NumLayers: 3, BaseChannels: 8, InputChannels: 3,
			OutputChannels: 3, KernelSize: 1, Activation: "relu", Normalization: "group"}, ro)
		b.start = func(x []float64) {
			for k := range x {
				x[k] = 2
			}
		}
		b.device = func(int) *emulate.Device {
			return b.gate.device(b.gate.claim, 1,
				&emulate.Legal{Machine: b.gate.e.Machine, U: b.gate.u, Lambda: 1, Blocks: true, Member: 1<<30 + member})
		}
		r := b.check()
		if level := float64(r.OneStep.RMSOverExpected); failed(r) || !(level < mostUsual) {
			t.Errorf("device %d: %.3g times the expected errors, %v", member, level, r.Findings)
		}
	}
}
