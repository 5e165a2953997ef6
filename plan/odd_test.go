package plan_test

import (
	"fmt"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestOddShapes: every operation, of inputs of odd shapes, has an answer or an error in every mode,
// and a plan has the same one.
func TestOddShapes(t *testing.T) {
	modes := randgraph.Modes()
	for _, name := range randgraph.Names() {
		answered := 0
		for seed := uint64(0); answered < 50 && seed < 4000; seed++ {
			c := randgraph.Odd(name, seed)
			if c == nil {
				continue
			}
			answered++
			mode := modes[seed%uint64(len(modes))]
			if err := same(c, mode); err != nil {
				t.Errorf("%s, seed %d, %v of %v: %v", name, seed, mode, c.Types, err)
			}
		}
		if answered < 50 {
			t.Errorf("%s: %d odd shapes: want 50", name, answered)
		}
	}
}

// same says how a plan and Run differ, or what one of them panics with.
func same(c *randgraph.Case, mode graph.Mode) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
	}()
	program, err := c.Graph.Infer(mode, c.Types...)
	if err != nil {
		return nil
	}
	in := c.Inputs(0)
	want, err := program.Run(&graph.Run{}, in...)
	if mode.Precision == fp16.Float64 {
		return nil
	}
	p, err2 := plan.NewFor(2, c.Graph, mode, c.Types...)
	if err2 != nil {
		return fmt.Errorf("no plan: %w", err2)
	}
	var out []*tensor.Tensor
	for i := range c.Graph.Outputs {
		out = append(out, tensor.New(p.Type(i).Format, p.Type(i).Shape...))
	}
	if err2 = p.Run(nil, noise.Time{}, out, in); (err == nil) != (err2 == nil) {
		return fmt.Errorf("run says %v, a plan %w", err, err2)
	}
	if err == nil && string(randgraph.Digest(out, nil)) != string(randgraph.Digest(want, nil)) {
		return fmt.Errorf("a plan has other bits")
	}
	return nil
}
