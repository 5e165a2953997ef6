package oracle

import (
	"context"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// peakOf checks a right rollout of so many steps and returns the greatest size of
// the live heap on the way, without the states.
func peakOf(t *testing.T, steps int) int64 {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 16, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.05}, 7)
	if err != nil {
		t.Fatal(err)
	}
	ro := rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: steps + 1, Realizations: 1}
	s := &rollout.States{
		M: 1, T: steps + 1, C: 3, H: 32, W: 32, Format: fp16.Float32, Data: make([]float64, (steps+1)*3*32*32),
	}
	x := tensor.Of(fp16.Float32, s.At(0, 0), 1, 3, 32, 32)
	for k := range x.Data {
		x.Data[k] = fp16.Float32.Round(float64(measure.Mix64(uint64(k))%1000)/250 - 2)
	}
	mode := graph.Mode{Precision: fp16.Float32}
	step := rollout.Stepper{Operator: op, Config: ro, Mode: mode}
	for i := 1; i <= steps; i++ {
		d, err := noise.Counter{}.At(i, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		y, err := step.Step(tensor.Of(fp16.Float32, s.At(0, i-1), 1, 3, 32, 32), d)
		if err != nil {
			t.Fatal(err)
		}
		copy(s.At(0, i), y.Data)
	}
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var peak int64
	before := live()
	c := &rollout.Case{File: "test", Operator: op.Config, Rollout: ro}
	e := &evidence.Evidence{Ctx: context.Background(), Case: c, Op: op, States: s, Mode: mode,
		Watch: func(stage string, done, _ int) {
			if stage == "steps" || done%16 == 0 {
				peak = max(peak, live()-before)
			}
		}}
	if e.Stream, err = c.OpenStream("counter", op, mode); err != nil {
		t.Fatal(err)
	}
	r, err := examine(e, 0, "test")
	if err != nil || r.Verdict != report.PassConforming {
		t.Fatal(err, r.Verdict)
	}
	return peak
}

// TestMemoryOfOneStep: what a check keeps on its way does not grow with the number
// of steps, but for their rows of figures: a tensor more for each step, of draws or of
// an output, would be 12 MB.
func TestMemoryOfOneStep(t *testing.T) {
	peakOf(t, 2) // fills pools
	few, many := peakOf(t, 6), peakOf(t, 24)
	if grown := many - few; grown > 4<<20 { // what workers hold at a moment differs by some
		t.Errorf("live heap of %d bytes for 6 steps, %d for 24: %d more", few, many, grown)
	}
}
