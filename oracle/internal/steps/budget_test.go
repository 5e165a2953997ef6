package steps

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/tensor"
)

// TestBudgetSpent: when the time is up, every step is still looked at and a fault
// found at its step, without a name; what is left out is listed.
func TestBudgetSpent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		factor  float64
		skipped []string
	}{
		{1, []string{"the ensemble of step 2", "the hypotheses at step 1"}},
		{1.01, []string{"the ensemble of step 2", "the hypotheses at step 1"}},
	} {
		b := newStepBench(t, "float32", "", "instance", convex(0.4))
		b.after = func(s int, y *tensor.Tensor) {
			for i := range y.Data {
				if s == 2 {
					y.Data[i] *= c.factor
				}
			}
		}
		b.gate.e.Until = time.Now().Add(-time.Second)
		r := b.check()
		if len(r.Steps) != stepBenchSteps || len(r.Filters) > 0 || !slices.Equal(r.Skipped, c.skipped) {
			t.Errorf("factor %v: %d steps, filters %v, skipped %q: want %d, none and %q",
				c.factor, len(r.Steps), r.Filters, r.Skipped, stepBenchSteps, c.skipped)
		}
		if found := len(r.Findings) > 0 && r.Findings[0].Step == 2 &&
			r.Findings[0].Diagnosis == ""; found != (c.factor != 1) {
			t.Errorf("factor %v: findings %v", c.factor, r.Findings)
		}
	}
}

// TestBudgetEnds: hypotheses end where the time does.
func TestBudgetEnds(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float32", "", "instance", convex(0.4))
	e := b.gate.e
	tried := 0
	e.Watch = func(stage string, done, total int) {
		if stage == "hypotheses" && e.Until.IsZero() {
			if tried++; done > total/2 {
				e.Until = time.Now().Add(-time.Second)
			}
		} else if stage == "hypotheses" {
			tried++
		}
	}
	r := b.check()
	small, first := 0, 0 // hypotheses, and of them those before the end
	for k, h := range fault.Library() {
		if h.Small && h.Many == "" { // the others are of coarse claims
			small++
		}
		if k < len(fault.Library())/2 {
			first = small
		}
	}
	if tried != first+1 {
		t.Errorf("%d hypotheses of %d came up, the time was up after %d", tried, small, first+1)
	}
	if len(r.Filters) == 0 || len(r.Skipped) == 0 ||
		!strings.HasPrefix(r.Skipped[0], "small faults that the budget did not reach") {
		t.Errorf("%d rows of filters, skipped %q", len(r.Filters), r.Skipped)
	}
}
