package emulate

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestContract holds the machine to the exact engine: in float64 mode to 10^-12,
// and in the others, storing what the contract stores, at every element
// but those few whose rounding a float64 error decides.
func TestContract(t *testing.T) {
	for _, name := range []string{"seed_small", "residual_k5_group_silu", "no_norm_no_noise", "autoregressive_batch_relu", "convex_layer_tanh_mult"} {
		c, err := rollout.OpenCase("../../testdata/rollouts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		states, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		m := New(op, c.Rollout)
		for _, p := range []string{"float64", "float32", "tf32", "tf32:truncate", "float16", "bfloat16"} {
			mode, err := operator.ParseMode(p, "")
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Of(mode.Wide(), states.At(0, 0), 1, states.C, states.H, states.W)
			stream, err := c.OpenStream("counter", op, mode)
			if err != nil {
				t.Fatal(err)
			}
			from, err := stream.Draws(0, 0, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			draws := Keep(from)
			s := rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode}
			want, err := s.Step(x, draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			d := &Device{Mode: mode, State: want.Format}
			if d.Store, err = m.Formats(mode, x.Format); err != nil {
				t.Fatal(err)
			}
			got, err := m.Step(d, x, draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			differ := 0
			for i := range got.Data {
				if d := got.Data[i] - want.Data[i]; p == "float64" && math.Abs(d) > 1e-12 || p != "float64" && d != 0 {
					differ++
				}
			}
			// Without ties a layer of 1e4 numbers of 24 bits has none; a
			// number rounded otherwise spreads.
			if allowed := map[bool]int{true: 0, false: len(got.Data) / 100}[mode.Precision == fp16.Float64]; differ > allowed {
				t.Errorf("%s, %s: %d of %d numbers differ from the engine's: want at most %d", name, p, differ, len(got.Data), allowed)
			}
		}
	}
}
