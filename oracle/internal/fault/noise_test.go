package fault

import (
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestTurned: numbers some places on, of rings that are shorter than that too.
func TestTurned(t *testing.T) {
	ring := []float64{1, 2, 3}
	for k, want := range map[int][]float64{1: {2, 3, 1}, -1: {3, 1, 2}, 8: {3, 1, 2}, -8: {2, 3, 1}, 3: nil, -6: nil} {
		if got := turned(ring, k); !slices.Equal(got, want) {
			t.Errorf("%v turned by %d is %v, want %v", ring, k, got, want)
		}
	}
}

// TestClaimsDraws: draws that are rounded as the claim rounds them are no fault, whatever pattern a device is
// held against; draws that are rounded to another format are.
func TestClaimsDraws(t *testing.T) {
	for _, precision := range []string{"float32", "float16", "bfloat16"} {
		mode, err := graph.ParseMode(precision, "")
		if err != nil {
			t.Fatal(err)
		}
		op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 2, InputChannels: 2, OutputChannels: 2,
			KernelSize: 3, Activation: "silu", Normalization: "none", NoiseType: "gaussian", NoiseScale: 0.1}, 7)
		if err != nil {
			t.Fatal(err)
		}
		c := &rollout.Case{Operator: op.Config,
			Rollout: rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: 2, Realizations: 1}}
		m := emulate.New(op, c.Rollout)
		kinds, channels := op.Draws()
		draws := make([]float64, channels*6*7)
		x := tensor.New(fp16.Float64, 1, 2, 6, 7)
		for i := range draws {
			draws[i] = float64(measure.Mix64(uint64(i)<<20)%1000)/500 - 1
			x.Data[i%len(x.Data)] = draws[i] / 3
		}
		v := &trial.View{Evidence: &evidence.Evidence{Op: op, Machine: m, Case: c, Mode: mode}, Machine: m,
			Device: &emulate.Device{Mode: mode, State: fp16.Float64},
			X:      x, Draws: &emulate.Draws{Kinds: kinds, Data: [][]float64{draws}},
			Drawn: func(int) *emulate.Draws { return nil }}
		if err := v.Compute(); err != nil {
			t.Fatal(err)
		}
		for _, h := range Library() {
			if f, ok := strings.CutPrefix(h.ID, "noise.noise-in:"); ok {
				y, err := v.Run(h, trial.Everywhere, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := y != nil, f != precision; got != want {
					t.Errorf("%s: draws in %s are a fault: %v, want %v", precision, f, got, want)
				}
			}
		}
	}
}
