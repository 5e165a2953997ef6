package oracle

import (
	"testing"

	"github.com/refrun/refrun/internal/emulate"
)

// TestStepsSecond: where the pattern that has most numbers in common with a device
// explains nothing, the nearest in the mean square may.
func TestStepsSecond(t *testing.T) {
	b := newDeepStepBench(t, "float16", "cpu", "layer", 4, convex(.3))
	p := b.gate.claim
	p.points = atConv | atNorm | atSum | atOut | atShare
	b.device = func(int) *emulate.Device { return b.correct(p, 30) }
	b.run()
	g := b.gate
	all, _, err := g.pass()
	if err != nil {
		t.Fatal(err)
	}
	m := b.measured(1)
	best, nearest, err := g.search(m)
	if err != nil {
		t.Fatal(err)
	}
	found, err := g.other(&verdictOn{&stepFault{gate: "conformity"}, all[0]})
	if err != nil {
		t.Fatal(err)
	}
	if best.pattern == nearest.pattern || !found || g.use != nearest.pattern {
		t.Errorf("found %v: %v; want %v, not %v", found, g.use.points, nearest.points, best.points)
	}
}
