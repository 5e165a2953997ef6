package oracle

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// TestNaNSaysNoError: of a step that holds NaN no error is said, as if it were small; a
// step with nothing finite has no error of 0.
func TestNaNSaysNoError(t *testing.T) {
	c, err := rollout.OpenCase(rig.Testdata("rollouts", "no_norm_no_noise"))
	if err != nil {
		t.Fatal(err)
	}
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	mode := graph.Mode{Precision: fp16.Float32}
	stream, err := c.OpenStream("", op, mode)
	if err != nil {
		t.Fatal(err)
	}
	check := func(edit func(s *rollout.States)) *report.Report {
		t.Helper()
		s, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		edit(s)
		r, err := examine(&evidence.Evidence{
			Ctx: context.Background(), Case: c, Op: op, Mode: mode, States: s, Stream: stream,
		}, 0, "x")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const says = "times what the claim makes one expect"
	r := check(func(s *rollout.States) { s.At(0, 4)[17] = math.NaN() })
	if r.Verdict != report.FailLogic || r.FirstStep != 4 || strings.Contains(r.Reason, says) ||
		!strings.Contains(r.Reason, "holds NaN") {
		t.Errorf("one NaN: %s at %d: %s", r.Verdict, r.FirstStep, r.Reason)
	}
	if row := r.Steps[4]; row.Step != 5 || !math.IsNaN(float64(row.MaxAbs)) || !math.IsNaN(float64(row.R64)) {
		t.Errorf("the step from a state with NaN, whose score has nothing finite: %+v", row)
	}
	r = check(func(s *rollout.States) {
		for i := range s.At(0, 4) {
			s.At(0, 4)[i] = fp16.Float32.Round(s.At(0, 4)[i] * 1.01)
		}
	})
	if !r.Verdict.Failed() || !strings.Contains(r.Reason, says) {
		t.Errorf("a state too large: %s: %s: want the size of the error", r.Verdict, r.Reason)
	}
}
