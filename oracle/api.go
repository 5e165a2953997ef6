package oracle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/probe"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// Claim says what a device is claimed to have computed, for [Check].
type Claim struct {
	Mode graph.Mode
	// Rollout has the policy and its parameters, the post-processing, the
	// seed of the noise and the engine batch. Its Timesteps and Realizations
	// may be 0 and are those of the trajectory.
	Rollout rollout.Config
	// Noise names the stream of the draws: "counter", "none", "unknown",
	// "torch-cpu:1.13" or "torch-cpu:2.x", "torch-cuda:SMS[:THREADS]".
	// An operator with noise needs it, unless Stream is given.
	Noise string
	// Stream, if not nil, has the draws, such as a recorded tape's.
	Stream *rollout.Stream
	// Budget is the time after which gates that need not run on every step are
	// left out (and listed); 0 for none.
	Budget time.Duration
}

// Check checks a trajectory that a device computed with the operator: whether
// each of its steps is what the claim makes of the state before it. A claim
// that cannot belong to the trajectory is an error of one line; whatever is
// wrong with the numbers is in the report.
func Check(
	ctx context.Context, op *operator.Operator, trajectory *rollout.States, claim Claim,
) (*report.Report, error) {
	s, ro := trajectory, claim.Rollout
	ro.Policy = cmp.Or(ro.Policy, rollout.Convex)
	ro.Timesteps, ro.Realizations = cmp.Or(ro.Timesteps, s.T), cmp.Or(ro.Realizations, s.M)
	c := &rollout.Case{File: "claim", Operator: op.Config, Rollout: ro}
	in, out := op.Config.InputChannels, op.Config.OutputChannels
	switch {
	case in != out:
		return nil, fmt.Errorf(
			"claim: operator.output_channels: %d: want %d, as many as input_channels, to step a state", out, in,
		)
	case s.M != ro.Realizations || s.T != ro.Timesteps || s.C != in:
		return nil, fmt.Errorf("trajectory: %d realizations of %d states of %d channels: want %d of %d of %d",
			s.M, s.T, s.C, ro.Realizations, ro.Timesteps, in)
	case len(s.Data) != s.M*s.T*s.CHW() || len(s.Data) == 0:
		return nil, fmt.Errorf("trajectory: %d numbers: want %d*%d*%d*%d*%d", len(s.Data), s.M, s.T, s.C, s.H, s.W)
	}
	e := &evidence.Evidence{Ctx: ctx, Case: c, Op: op, Mode: claim.Mode, States: s, Stream: claim.Stream}
	if e.Stream == nil {
		if claim.Noise == "" && op.HasNoise() {
			return nil, fmt.Errorf("claim: noise: missing: the operator draws random numbers: want a stream, or %q",
				words.UnknownNoise)
		}
		var err error
		if e.Stream, err = claimedNoise(c, op, CheckOptions{Mode: claim.Mode, Noise: claim.Noise}); err != nil {
			return nil, err
		}
	}
	return examine(e, claim.Budget, "claim")
}

// TB is the part of testing.TB that [Require] needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Require fails a test, with the report as text, unless the report's verdict
// is a pass.
func Require(t TB, r *report.Report) {
	t.Helper()
	if r.Verdict.Code() != 0 {
		t.Fatalf("%s", render.Text(r))
	}
}

// RequirePass is [Check] and [Require] in one.
func RequirePass(t TB, ctx context.Context, op *operator.Operator, trajectory *rollout.States, claim Claim) {
	t.Helper()
	r, err := Check(ctx, op, trajectory, claim)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	Require(t, r)
}

// WriteProbes writes directed inputs for the operator of a case to folders
// below dir, and returns the names of the files. Each folder is a case without a
// trajectory, of two states under the autoregressive policy, so that the second
// one is the operator's output: a device runs it, from initial_condition and
// with the draws of noise.safetensors, and stores its trajectory (and, if it
// can, its layers) there; a check of the folder judges the answer.
//
//	ladders    the operator as it is; inputs at sizes and of shapes that its
//	           own states may not have
//	integers   integer weights and inputs: every sum is exact in every
//	           format, so that each wrong index is a wrong number
//	nonfinite  a NaN and an infinity in one pixel; for operators whose norms
//	           spread them over a known set
//
// Images have the size of the case's states, or of its grid_size.
func WriteProbes(dir string, c *rollout.Case) (files []string, err error) {
	return probe.Write(dir, c)
}
