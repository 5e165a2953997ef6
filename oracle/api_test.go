package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
)

// recorder is a TB that keeps what it is told.
type recorder struct{ failed string }

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

// TestCheckIsCheckCase: a trajectory in memory is checked as the case it is of,
// and one wrong number fails at its step and place.
func TestCheckIsCheckCase(t *testing.T) {
	c := rig.OpenCase(t, "no_norm_no_noise")
	mode := graph.Mode{Precision: fp16.Float32}
	want, err := CheckCase(context.Background(), c, CheckOptions{Mode: mode})
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
	claim := Claim{Mode: mode, Rollout: c.Rollout, Noise: "none"}
	got, err := Check(context.Background(), op, states, claim)
	if err != nil {
		t.Fatal(err)
	}
	if got.Verdict != want.Verdict || got.Claim != want.Claim || got.Subject != want.Subject ||
		got.OneStep != want.OneStep || !slices.Equal(got.Steps, want.Steps) {
		t.Errorf("Check says %s of %s, %+v; CheckCase %s of %s, %+v",
			got.Verdict, got.Claim, got.OneStep, want.Verdict, want.Claim, want.OneStep)
	}
	var tb recorder
	if RequirePass(&tb, context.Background(), op, states, claim); tb.failed != "" || !got.Verdict.Passed() {
		t.Errorf("a right trajectory: %s, test failed with %q", got.Verdict, tb.failed)
	}

	states.At(0, 3)[5] += 0.25
	if RequirePass(&tb, context.Background(), op, states, claim); !strings.Contains(tb.failed, "VERDICT  FAIL-") ||
		!strings.Contains(tb.failed, "first at step 3, realization 0") {
		t.Errorf("a wrong number: test failed with %q", tb.failed)
	}
}

// TestCheckErrors: a claim that cannot be of the trajectory is one line.
func TestCheckErrors(t *testing.T) {
	op, err := operator.Init(operator.Config{
		BaseChannels: 2, InputChannels: 3, OutputChannels: 3, KernelSize: 3, NoiseType: "gaussian", NoiseScale: 0.1,
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	states := func(m, T, c int) *rollout.States {
		return &rollout.States{M: m, T: T, C: c, H: 4, W: 4, Format: fp16.Float32, Data: make([]float64, m*T*c*16)}
	}
	short := states(2, 3, 3)
	short.Data = short.Data[1:]
	odd := states(2, 3, 3)
	odd.Data[7] = 0.1
	for _, k := range []struct {
		states *rollout.States
		claim  Claim
		want   string
	}{
		{states(2, 3, 3), Claim{}, `claim: noise: missing: the operator draws random numbers: want a stream, or "unknown"`},
		{states(2, 3, 3), Claim{Noise: "pink"},
			`noise: "pink": want counter, tape, torch-cpu[:1.13|:2.x], torch-cuda:SMS or none, or unknown`},
		{states(2, 3, 4), Claim{Noise: "none"}, "trajectory: 2 realizations of 3 states of 4 channels: want 2 of 3 of 3"},
		{states(2, 3, 3), Claim{Noise: "none", Rollout: rollout.Config{Realizations: 5}},
			"trajectory: 2 realizations of 3 states of 3 channels: want 5 of 3 of 3"},
		{short, Claim{Noise: "none"}, "trajectory: 287 numbers: want 2*3*3*4*4"},
		{states(2, 1, 3), Claim{Noise: "none"}, "claim: trajectory: 1 state: want at least 2 to check a step"},
		{odd, Claim{Noise: "none"}, "claim: trajectory: element 7 is 0.1: want float32 numbers, as float32 claims"},
	} {
		k.claim.Mode = graph.Mode{Precision: fp16.Float32}
		if _, err := Check(context.Background(), op, k.states, k.claim); err == nil || err.Error() != k.want {
			t.Errorf("error %v, want %s", err, k.want)
		}
		var tb recorder
		if RequirePass(&tb, context.Background(), op, k.states, k.claim); tb.failed != k.want {
			t.Errorf("test failed with %q, want %s", tb.failed, k.want)
		}
	}
}
