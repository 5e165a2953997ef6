package steps

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// TestLone: a number that is alone in being wrong is found from a few more deviations on
// than single errors may have, at any step, in its place; and no correct device, however
// inexact its sums are, has one.
func TestLone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ precision, norm string }{{"float32", "group"}, {"float32", "layer"}, {"tf32", "group"}, {"bfloat16", "instance"}} {
		b := newStepBench(t, c.precision, "", c.norm, convex(.4))
		for _, at := range []int{0, stepBenchSteps} {
			b.after = func(step int, y *tensor.Tensor) {
				if step != at {
					return
				}
				s, err := b.gate.step(step)
				if err != nil {
					t.Fatal(err)
				}
				if one, err := b.gate.step(1); err != nil || !b.gate.claim.Discrete() && b.gate.calibrate(one) != nil {
					t.Fatal("not calibrated", err)
				}
				s.Got = append([]float64(nil), y.Data...)
				m, err := b.gate.measure(s)
				if err != nil {
					t.Fatal(err)
				}
				i := m.X.W()*3 + 6
				y.Data[i] = m.truth[i] + 30*m.s[i]
			}
			r := b.check()
			switch {
			case at == 0 && len(r.Findings) > 0:
				t.Errorf("%v: a correct device: %s", c, r.Findings[0].Text)
			case at == 0:
			case len(r.Findings) == 0:
				t.Errorf("%v: a number 30 deviations off at step %d: not found; its largest error is %.3g", c, at, float64(r.Steps[at-1].Peak))
			default:
				f := r.Findings[0]
				if f.Step != at || f.Verdict != report.FailLogic || !strings.HasPrefix(f.Slice, "element (3,6) of channel 0") {
					t.Errorf("%v: found %s at step %d in %q: want FAIL-LOGIC at %d in element (3,6) of channel 0", c, f.Verdict, f.Step, f.Slice, at)
				}
			}
		}
	}
	b := newStepBench(t, "float32", "", "group", convex(.4))
	b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, emulate.CoarseLambda) }
	if r := b.check(); len(r.Findings) > 0 {
		t.Errorf("sums that are %v times as inexact: %s", emulate.CoarseLambda, r.Findings[0].Text)
	}
}
