package oracle

import (
	"context"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// keeper keeps the states of an engine.
type keeper struct{ s *rollout.States }

func (k keeper) State(t, m int, x, _ []float64) error {
	copy(k.s.At(m, t), x)
	return nil
}

// TestHalfStates: states that are kept in a half type are a claim. A right device of it
// passes, by that contract; the same states under a claim of float32 states do not, nor does
// a fault under the claim; and what is no such number is not claimed so.
func TestHalfStates(t *testing.T) {
	t.Parallel()
	op, err := operator.Init(operator.Config{NumLayers: 1, BaseChannels: 6, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, shape := context.Background(), rollout.Shape{C: 3, H: 24, W: 24}
	for i, c := range []struct{ precision, autocast, state string }{
		{"float16", "cuda", "float16"}, {"bfloat16", "cpu", "bfloat16"}, {"float32", "", "float16"},
	} {
		mode, err := graph.ParseMode(c.precision, c.autocast)
		if err != nil {
			t.Fatal(err)
		}
		for k, config := range []rollout.Config{
			{Policy: rollout.Convex, Alpha: 0.5}, {Policy: rollout.Residual, Dt: 0.5}, {
				Policy: rollout.Convex, Alpha: 0.25, Clamp: &[2]float64{-0.7, 0.7},
			}, {Policy: rollout.Convex, Alpha: 0.5, Normalization: rollout.MinMax},
		} {
			if c.precision == "float32" && config.Normalization != "" || !share.All() && (i+k)%2 == 1 {
				continue
			}
			config.Timesteps, config.Realizations, config.State = 4, 1, c.state
			s := &rollout.States{M: 1, T: 4, C: shape.C, H: shape.H, W: shape.W, Format: mode.Wide(),
				Data: make([]float64, 4*shape.Len())}
			stream, err := new(rollout.Case).OpenStream("none", op, mode)
			if err != nil {
				t.Fatal(err)
			}
			e := &rollout.Engine{Stepper: rollout.Stepper{Operator: op, Config: config, Mode: mode}, Stream: stream,
				Shape: shape, Sinks: []rollout.Sink{keeper{s}},
				Start: func(m int) []float64 {
					x := make([]float64, shape.Len())
					if err := rollout.White(uint64(m), shape, x); err != nil {
						t.Fatal(err)
					}
					return x
				}}
			if err := e.Run(ctx, nil); err != nil {
				t.Fatal(err)
			}
			check := func(state, want, contract string) {
				t.Helper()
				claim := config
				claim.State = state
				r, err := Check(ctx, op, s, Claim{Mode: mode, Rollout: claim, Noise: "none"})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(string(r.Verdict), want) || !strings.Contains(r.Contract+r.Diagnosis, contract) {
					t.Errorf("%v, %+v, claimed state %q: %s, contract %q, diagnosis %q: want %s, %s",
						mode, config, state, r.Verdict, r.Contract, r.Diagnosis, want, contract)
				}
			}
			check(c.state, "PASS-CONFORMING", "/state-"+c.state)
			check("", "FAIL-PRECISION", "state kept in "+c.state)
			row := s.At(0, 2)[:shape.W]
			for i, j := 0, len(row)-1; i < j; i, j = i+1, j-1 {
				row[i], row[j] = row[j], row[i]
			}
			check(c.state, "FAIL-LOGIC", "")
			s.At(0, 3)[5] = 0.1
			if _, err := Check(ctx, op, s, Claim{Mode: mode, Rollout: config, Noise: "none"}); err == nil ||
				!strings.Contains(err.Error(),
					"want "+c.state+" numbers, as "+mode.String()+"/state-"+c.state+" claims") {
				t.Errorf("a number that is none of %s: %v", c.state, err)
			}
		}
	}
}
