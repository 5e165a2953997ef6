package steps

import (
	"math"
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// TestSharedByStatistics: statistics of thousands of numbers that are added up one after another make errors as large
// as those of an inexact activation, and are right; what tells them apart is that they are one number for all that is
// normalized with them.
func TestSharedByStatistics(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0x1p-18} {
		b := newStepBenchOf(t, "float32", "", operator.Config{
			NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: "gelu",
			Normalization: "layer", NoiseType: "gaussian", NoiseScale: .05,
		}, rollout.Config{Policy: rollout.Autoregressive, Timesteps: 4})
		b.gate.e.States.H, b.gate.e.States.W = 40, 40
		b.device = func(int) *emulate.Device {
			l := &emulate.Legal{Machine: b.gate.e.Machine, U: b.gate.u, Lambda: 1, Whole: share == 0, Member: 1 << 30}
			if share == 0 {
				l.Tiles = emulate.NewTiles(b.gate.u)
			}
			d := b.gate.device(b.gate.claim, 1, l)
			offBy(b, d, share)
			return d
		}
		r := b.check()
		if failed(r) != (share > 0) || share > 0 && r.Findings[0].Step != 1 {
			t.Errorf("off by %.3g: %v, RMS %.3g", share, r.Findings, r.OneStep.RMSOverExpected)
		}
	}
}

// TestTogether: what is taken from a residual is all that its vectors say, of each realization for itself, and nothing
// else.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := &together{4, make([][][]float64, 2)}
	s.add([]float64{1, 1, 1, 1, 1, math.NaN(), 1, 1})
	s.add([]float64{1, 2, 3, 4, 0, 0, 0, 0})
	s.add([]float64{3, 5, 7, 9, 2, 0, 2, 2}) // of those before
	if len(s.of[0]) != 2 || len(s.of[1]) != 1 {
		t.Fatalf("%d and %d vectors: want 2 and 1", len(s.of[0]), len(s.of[1]))
	}
	r := []float64{5, 7, 9, 11 + 1, 4, math.NaN(), 4, 7}
	s.take(r)
	for k, want := range []float64{.2, -.1, -.4, .3, -1, math.NaN(), -1, 2} {
		if math.Abs(r[k]-want) > 1e-12 {
			t.Errorf("number %d: %v is left, want %v", k, r[k], want)
		}
	}
}
