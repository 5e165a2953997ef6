package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestTinyOperators: operators and images as small as they get, with a device that
// is wrong, so that every gate and every hypothesis meets them: an answer, and
// never a pass.
func TestTinyOperators(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	conv := func(name string, out, k int) operator.NodeConfig {
		return operator.NodeConfig{Op: "conv", Name: name, OutChannels: out, KernelSize: k, NoBias: out <= 1}
	}
	norm := operator.NodeConfig{Op: "norm", Name: "n", Normalization: "layer"}
	gelu := operator.NodeConfig{Op: "act", Name: "a", Activation: "gelu"}
	for i, s := range []struct {
		channels, h, w, steps, m int
		nodes                    []operator.NodeConfig
	}{
		{1, 1, 1, 2, 1, []operator.NodeConfig{conv("c", 1, 1)}},
		{1, 2, 3, 2, 1, []operator.NodeConfig{conv("c", 1, 3)}},
		{2, 24, 20, 4, 2, []operator.NodeConfig{conv("c", 4, 1), norm, gelu, conv("o", 2, 1)}},
		{3, 8, 8, 3, 1, []operator.NodeConfig{conv("c", 2, 3), norm, gelu, conv("o", 3, 1)}},
		{1, 6, 6, 4, 1, []operator.NodeConfig{norm}},
		{2, 7, 3, 3, 1, []operator.NodeConfig{gelu}},
	} {
		op, err := operator.Init(operator.Config{InputChannels: s.channels, OutputChannels: s.channels, Nodes: s.nodes},
			uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		for k, name := range []string{"float32", "tf32", "float16", "bfloat16", "float32", "float16"} {
			if !share.All() && (i+k)%2 == 1 {
				continue
			}
			size := []float64{1, 0.01}[k/4] // of the errors
			t.Run(fmt.Sprintf("%d/%s/%v", i, name, size), func(t *testing.T) {
				mode, err := graph.ParseMode(name, "")
				if err != nil {
					t.Fatal(err)
				}
				x := &rollout.States{M: s.m, T: s.steps, C: s.channels, H: s.h, W: s.w,
					Data: make([]float64, s.m*s.steps*s.channels*s.h*s.w)}
				x.Format = fp16.Float32
				c := rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: s.steps, Realizations: s.m}
				step := rollout.Stepper{Operator: op, Config: c, Mode: mode}
				sample := s.channels * s.h * s.w
				for i := range s.m * s.steps {
					now := x.Data[i*sample:][:sample]
					if i%s.steps > 0 {
						y, err := step.Step(tensor.Of(fp16.Float32, x.Data[(i-1)*sample:][:sample], 1, s.channels, s.h, s.w), nil)
						if err != nil {
							t.Fatal(err)
						}
						copy(now, y.Data)
					}
					for k := range now {
						now[k] = fp16.Float32.Round(now[k] + size*r.NormFloat64())
					}
				}
				got, err := Check(context.Background(), op, x, Claim{Mode: mode, Rollout: c})
				if err != nil {
					t.Fatal(err)
				}
				if got.Verdict.Code() == 0 {
					t.Errorf("%s on random numbers", got.Verdict)
				}
			})
		}
	}
}
