package steps

import (
	"slices"
	"testing"
)

// TestMemo: what a claim makes of a step that is looked at again is kept, and is what another gate makes of it; the
// draws are there whether or not it was; and no more is kept than there is room for.
func TestMemo(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "bfloat16", "", "instance", convex(.4))
	b.run()
	of := func(g *stepGate, step int) claimed {
		s, err := g.step(step)
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.claimed(s)
		if err != nil {
			t.Fatal(err)
		}
		if g.draws == nil || len(g.draws.Data) == 0 {
			t.Fatal("no draws")
		}
		return c
	}
	g, other := newStepGate(b.gate.e.Evidence, b.gate.e.Facts), newStepGate(b.gate.e.Evidence, b.gate.e.Facts)
	one := of(g, 2)
	if two := of(g, 2); two != one {
		t.Error("a step is computed again")
	}
	if c := of(other, 2); !slices.Equal(c.truth.Data, one.truth.Data) || !slices.Equal(c.emu.Data, one.emu.Data) ||
		!slices.Equal(c.o.Data, one.o.Data) {
		t.Error("another gate has other numbers")
	}
	if of(g, 1) == one {
		t.Error("a step has another one's numbers")
	}
	if full := newStepGate(b.gate.e.Evidence, b.gate.e.Facts); true {
		full.memo.room = 3*len(one.truth.Data) + 1
		first, second := of(full, 1), of(full, 2)
		if of(full, 1) != first || of(full, 2) == second {
			t.Error("room for one step: want the first one kept alone")
		}
	}
	if len(g.memo.steps) != stepBenchSteps {
		t.Errorf("steps that are looked at again: %v", g.memo.steps)
	}
}
