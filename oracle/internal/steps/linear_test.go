package steps

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestLinear: normalized states that are shifted or scaled all together, beyond what the rounding of a least number, of
// a mean or of a deviation makes, are found, also where all realizations are normalized together; and no correct device
// has such.
func TestLinear(t *testing.T) {
	t.Parallel()
	const said = "are shifted or scaled together"
	for i, c := range []struct {
		precision, autocast string
		n                   rollout.Normalization
		batch               int
		scale, shift        float64
	}{
		{"float16", "cuda", rollout.ZScore, 0, 1, .002}, {"float16", "cuda", rollout.MinMax, 0, 1.0006, 0},
		{"float32", "", rollout.ZScore, 0, 1, 3e-6},
		{"float16", "cuda", rollout.ZScore, 2, 1, .002}, {"bfloat16", "cpu", rollout.MinMax, 0, 1, .004},
	} {
		if !share.All() && i%2 == 0 { // the same in other formats
			continue
		}
		for _, wrong := range []bool{false, true} {
			ro := convex(.5)
			ro.Normalization, ro.EngineBatch = c.n, c.batch
			b := newStepBench(t, c.precision, c.autocast, "group", ro).wide()
			b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, emulate.CoarseLambda) }
			b.after = func(_ int, y *tensor.Tensor) {
				for i, v := range y.Data {
					if wrong {
						y.Data[i] = v*c.scale + c.shift
					}
				}
			}
			r := b.check()
			if wrong != (len(r.Findings) > 0) {
				t.Errorf("%+v, wrong %v: %v", c, wrong, r.Findings)
			}
			if !wrong {
				continue
			}
			f, of := r.Findings[0], "realization 0"
			if c.batch > 0 {
				of = "the state"
			}
			if want := fmt.Sprintf("step 1: all numbers of %s %s", of, said); f.Verdict != report.FailRollout ||
				f.Step != 1 || !strings.Contains(f.Text, want) {
				t.Errorf("%+v: %s at step %d, %q: want FAIL-ROLLOUT at 1, %q", c, f.Verdict, f.Step, f.Text, want)
			}
			if len(r.Filters) > 0 || len(r.Findings) > 1 {
				t.Errorf("%+v: what is right number by number is named: %v, %v", c, r.Findings, r.Filters)
			}
		}
	}
}

// TestLinearEnsemble: what the members of a fine claim's ensemble have together is in their lines, however large it is.
func TestLinearEnsemble(t *testing.T) {
	t.Parallel()
	ro := convex(.5)
	ro.Normalization = rollout.MinMax
	b := newStepBench(t, "float32", "", "group", ro).wide()
	b.start = func(x []float64) { x[8*24+9] = 1200 }
	b.run()
	m := b.measured(1)
	all, err := b.gate.ensemble(m, b.gate.claim, 0, members)
	if err != nil {
		t.Fatal(err)
	}
	most := 0.0
	for _, c := range all {
		for k, line := range c.Lines {
			most = max(most, line)
			if rest := c.Of[measure.InSample].Mean(k); rest > line/4 && line > 144 {
				t.Errorf("a line of mean square %.3g leaves %.3g", line, rest)
			}
		}
	}
	if most < 144 {
		t.Errorf("the largest line is %.3g: want one that would stay", most)
	}
}

// TestLinearLimits: a line is judged in its step, by the ensemble and by what the sums of a normalization add, and all
// lines by their mean: then the first step that has its share is named.
func TestLinearLimits(t *testing.T) {
	t.Parallel()
	g := &stepGate{h0: &spreads{}}
	for _, v := range []float64{.2, 1.8, .5, 1.5, 1, 1} {
		g.h0.lines.add(v)
	}
	for _, c := range []struct {
		name    string
		q       func(step int) float64
		common  float64
		step    int // 0 for none
		average bool
	}{
		{"right", func(int) float64 { return 1 }, 0, 0, false},
		{"one step", func(step int) float64 { return map[bool]float64{true: 150}[step == 4] }, 0, 4, false},
		{"one step, by its sums", func(step int) float64 { return map[bool]float64{true: 150}[step == 4] }, 10, 0, false},
		{"all steps from the third on", func(step int) float64 { return map[bool]float64{true: 20}[step > 2] }, 0, 3, true},
	} {
		var all []*stepFigures
		for step := 1; step <= 20; step++ {
			all = append(all,
				&stepFigures{step: step, cuts: &measure.Cuts{Lines: []float64{c.q(step)}}, common: []float64{c.common}})
		}
		switch x := g.linear(all, 1); {
		case x == nil && c.step > 0, x != nil && x.figures.step != c.step:
			t.Errorf("%s: %+v, want step %d", c.name, x, c.step)
		case x != nil && (x.value < math.Sqrt(c.q(c.step))) != c.average:
			t.Errorf("%s: by %.3g: want the mean's %v", c.name, x.value, c.average)
		}
	}
}
