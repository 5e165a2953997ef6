package steps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// TestMixed: a contract is a property of steps. Where some are float32 and the others as
// claimed, the fewer are named, from the first of them on, whichever was claimed; all of one
// kind are no mixture, and a step that is wrong by both is a fault of its own.
func TestMixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		float func(t int) bool
		first int
		want  string
	}{
		{"warm-up", func(t int) bool { return t == 1 }, 1, "float32 in place of the other steps' contract"},
		{"fallback", func(t int) bool { return t == 3 || t == 4 }, 3, "float32 in place of the other steps' contract"},
		{"most", func(t int) bool { return t != 2 }, 2, "bfloat16/autocast-cpu in place of the other steps' contract"},
		{"none", func(int) bool { return false }, 0, ""},
		{"all", func(int) bool { return true }, 0, ""},
	} {
		b := newStepBench(t, "bfloat16", "cpu", "instance", rollout.Config{Policy: rollout.Convex, Alpha: .4, Timesteps: 6})
		b.device = func(t int) *emulate.Device {
			if c.float(t) {
				return b.correct(emulate.Pattern{Mode: graph.Mode{Precision: fp16.Float32}}, 1)
			}
			return b.correct(b.gate.claim, 1)
		}
		r := b.check()
		if c.want == "" {
			if len(r.Findings) > 0 {
				t.Errorf("%s: findings %v: want none", c.name, r.Findings)
			}
			continue
		}
		f := append(r.Findings, report.Finding{})[0]
		if len(r.Findings) != 1 || f.Verdict != report.FailPrecision || f.Step != c.first || f.Diagnosis != c.want ||
			!strings.HasPrefix(f.Text, fmt.Sprintf("only step %d", c.first)) {
			t.Errorf("%s: findings %+v: want %q at step %d", c.name, r.Findings, c.want, c.first)
		}
	}
	wrong := []*stepFigures{{step: 1, wrong: 1}, {step: 2, wrong: 1}}
	if m := mixture(held{all: wrong}, held{all: wrong[1:]}); m != nil {
		t.Errorf("a step that is wrong by both: mixture of %v", m.steps)
	}
}
