package operator

import (
	"slices"
	"sync"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
)

// plans are compiled plans that are not in use, the latest last.
type plans struct {
	mu   sync.Mutex
	idle []*Compiled
}

// mostPlans bounds the plans that an operator keeps.
const mostPlans = 8

// Borrow returns a plan for inputs [n,input_channels,h,w] and the instruction set in
// use, which nobody else uses until it is given back: one of those that were, or a
// new one.
func (op *Operator) Borrow(mode graph.Mode, n, h, w int) *Compiled {
	c := &op.plans
	c.mu.Lock()
	for i, p := range c.idle {
		if p.mode == mode && p.n == n && p.h == h && p.w == w && p.isa == asm.ISA() {
			c.idle = slices.Delete(c.idle, i, i+1)
			c.mu.Unlock()
			return p
		}
	}
	c.mu.Unlock()
	return op.Compile(mode, n, h, w)
}

// Return gives a plan back. The operator keeps the latest eight.
func (op *Operator) Return(p *Compiled) {
	c := &op.plans
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == mostPlans {
		c.idle = slices.Delete(c.idle, 0, 1)
	}
	c.idle = append(c.idle, p)
}

// PlanBytes returns the memory of the images and draws of the plans that were given
// back.
func (op *Operator) PlanBytes() int64 {
	c := &op.plans
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for _, p := range c.idle {
		n += p.Arena()
	}
	return n
}

// Forget drops the plans that were given back, and what modes and plans have made of
// the weights. What is needed is made again, so that a program may forget whenever it
// has no use for them for a while.
func (op *Operator) Forget() {
	op.plans.mu.Lock()
	op.plans.idle = nil
	op.plans.mu.Unlock()
	op.kept.Forget()
}
