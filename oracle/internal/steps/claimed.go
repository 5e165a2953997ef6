package steps

import (
	"slices"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/tensor"
)

// A memo keeps what the claim makes of steps that are looked at more than once.
type memo struct {
	steps []int
	room  int // numbers that may still be kept
	of    map[place]claimed
}

// place is a step of some realizations.
type place struct{ step, lo, n int }

func placeOf(b *evidence.BatchStep) place { return place{b.Step, b.Lo, b.X.N()} }

// claimed is what the claim makes of a step. Nobody may change it.
type claimed struct {
	truth *tensor.Tensor // the states that follow in exact arithmetic, see stepGate.truth,
	emu   *tensor.Tensor // and in its own;
	o     *tensor.Tensor // the operator's output by that
}

// mostKept is how many numbers a memo has at the most: 32 MiB.
const mostKept = 1 << 22

func newMemo(steps []int) memo {
	return memo{steps, mostKept, map[place]claimed{}}
}

// claimed begins a step and returns what the claim makes of it. The first of its arithmetic takes the draws.
func (g *stepGate) claimed(b *evidence.BatchStep) (c claimed, err error) {
	at := placeOf(b)
	if c, ok := g.memo.of[at]; ok {
		return c, g.begin(b)
	}
	g.draws = b.Draws
	if c.truth, err = g.truth(b, g.claim.Mode); err != nil {
		return c, err
	}
	if c.emu, c.o, err = g.emulation(b, g.claim); err != nil {
		return c, err
	}
	if n := 3 * len(c.truth.Data); n <= g.memo.room && slices.Contains(g.memo.steps, b.Step) {
		g.memo.room -= n
		g.memo.of[at] = c
	}
	return c, nil
}
