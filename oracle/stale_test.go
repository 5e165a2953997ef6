package oracle

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/replay"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestStaleTile: one tile of 8x8 pixels that keeps its old content at one of 120
// steps of a chaotic rollout is found at that step and in that place. The end of
// the rollout could not tell: every rounding grows until nothing is left of the
// start.
func TestStaleTile(t *testing.T) {
	const last, once = 120, 58
	for _, precision := range []string{"float32", "float16"} {
		t.Run(precision, func(t *testing.T) {
			t.Parallel()
			mode, err := graph.ParseMode(precision, "")
			if err != nil {
				t.Fatal(err)
			}
			op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3,
				KernelSize: 3, Activation: "gelu", Normalization: "instance"}, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range op.Params() {
				if strings.HasPrefix(p.Name, "output_layer") && strings.HasSuffix(p.Name, "weight") {
					for k := range p.Data {
						p.Data[k] *= 8 // an output that is large stretches small differences
					}
				}
			}
			ro := rollout.Config{Policy: rollout.Convex, Alpha: 0.3, Timesteps: last + 1, Realizations: 1}
			c := &rollout.Case{File: "stale", Operator: op.Config, Rollout: ro}
			e := &evidence.Evidence{Ctx: context.Background(), Case: c, Op: op, Machine: emulate.New(op, ro), Mode: mode}
			if e.Stream, err = c.OpenStream("none", op, mode); err != nil {
				t.Fatal(err)
			}
			s := &rollout.States{M: 1, T: ro.Timesteps, C: 3, H: 16, W: 24, Format: fp16.Float32}
			s.Data = make([]float64, s.T*s.CHW())
			r := rand.New(rand.NewPCG(3, 4))
			for k := range s.At(0, 0) {
				s.Data[k] = fp16.Float32.Round(math.Sin(float64(k%s.W)/3+float64(k/s.W)/5) + .3*r.NormFloat64())
			}
			e.States = s
			device, err := e.ClaimAt(1)
			if err != nil {
				t.Fatal(err)
			}
			l := &emulate.Legal{Machine: e.Machine, U: emulate.Accumulator(mode), Lambda: 1, Member: 1 << 30}
			device.Perturb, device.Sum = l.Disturb, l.Sum
			for step := 1; step < s.T; step++ {
				x := tensor.Of(fp16.Float64, s.At(0, step-1), 1, s.C, s.H, s.W)
				y, err := e.Machine.Step(device, x, nil)
				if err != nil {
					t.Fatal(err)
				}
				fp16.Float32.RoundSlice(s.At(0, step), y.Data)
				if step != once {
					continue
				}
				for c := range s.C {
					for row := 8; row < 16; row++ {
						at := (c*s.H+row)*s.W + 8
						copy(s.At(0, step)[at:at+8], s.At(0, step-1)[at:at+8])
					}
				}
			}
			found, err := examine(e, 0, "stale")
			if err != nil {
				t.Fatal(err)
			}
			if found.GrowthPerStep == nil || *found.GrowthPerStep < 1.05 {
				t.Errorf("growth %v: want a chaotic rollout", found.GrowthPerStep)
			}
			if found.Verdict != report.FailRollout || found.FirstStep != once ||
				!strings.Contains(found.Slice, "tile of 8x8 at (8,8)") || found.Findings[0].ID != replay.Stale {
				t.Errorf("%s at step %d, %q, %q: want a stale part of the state at step %d in the tile at (8,8)",
					found.Verdict, found.FirstStep, found.Slice, found.Diagnosis, once)
			}
		})
	}
}
