package steps

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// TestStrained: a device whose sums are far worse than any right one's, and that the limits of a few devices let pass,
// is wrong; one whose sums are worse than those of most is right.
func TestStrained(t *testing.T) {
	t.Parallel()
	for _, precision := range []string{"tf32", "float16"} {
		for _, lambda := range []float64{1, emulate.CoarseLambda, 16, 64} {
			b := newStepBench(t, precision, "", "layer", convex(.4)).wide()
			b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, lambda) }
			b.unnamed = lambda == 64
			r := b.check()
			if got, want := len(r.Findings) > 0, lambda == 64; got != want {
				t.Errorf("%s, sums %g times as inexact: %d findings, Re %.3g",
					precision, lambda, len(r.Findings), float64(r.Steps[0].Re))
			} else if got && (r.Findings[0].Gate != "conformity" || r.Findings[0].Step > 2 ||
				!r.Steps[r.Findings[0].Step-1].Violation) {
				t.Errorf("%s: found %+v", precision, r.Findings[0])
			}
		}
	}
}

// TestStrainedPattern: a device of another pattern, which the limits of a few devices let pass by the claim, has its
// own.
func TestStrainedPattern(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "", "instance", convex(.3))
	p := b.gate.claim
	p.Points &^= emulate.AtAct
	b.device = func(int) *emulate.Device { return b.correct(p, 1) }
	r := b.check()
	if len(r.Findings) > 0 {
		t.Fatal(r.Findings[0].Text)
	}
	if !strings.HasSuffix(r.Contract, "with fewer roundings") {
		t.Errorf("contract %s, pattern %s, Re %.3g", r.Contract, r.Pattern, float64(r.Steps[0].Re))
	}
}

// TestStrictBeyond: steps that many devices were not asked of have been judged, and are not judged again.
func TestStrictBeyond(t *testing.T) {
	cuts := measure.Cut(1, 1, 2, 2, []float64{1, -1, 1, -1}, nil, nil)
	f := &stepFigures{batch: 1, step: 3, cuts: cuts}
	for _, c := range []struct {
		s    strict
		want bool
	}{{nil, false}, {strict{{1, 3}: 0.9}, true}, {strict{{1, 3}: 1.1}, false}, {strict{{0, 3}: 0.9, {1, 2}: 0.9}, false}} {
		if got := c.s.beyond(f); got != c.want {
			t.Errorf("a mean square of 1 by %v: %v, want %v", c.s, got, c.want)
		}
	}
}
