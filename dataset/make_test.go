package dataset

import (
	"context"
	"testing"
)

// TestLarge: units of which each takes all processors are made to the same bytes whether the next
// one begins before the file of one is whole or not, and after an interruption.
func TestLarge(t *testing.T) {
	const text = `{"seed":1,"operator":{"base_channels":16,"grid_size":128,"num_layers":2,"noise_type":"gaussian",
	"noise_scale":0.05},
"rollout":{"num_timesteps":3,"num_realizations":2},"operators":4,"space":{"rollout.alpha":{"real":[0.1,0.9]}}}`
	alone, p := plan(t, text, 1), plan(t, text, 1)
	if p.perStep(0) < side {
		t.Fatalf("%g GFLOP a step: want %g or more", p.perStep(0), side)
	}
	for i := range alone.Lines {
		if _, err := alone.Make(context.Background(), Run{Units: []int{i}, Version: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := Run{Units: []int{0, 1, 2, 3}, Version: "test", Progress: func(g Progress) {
		if g.Done == 1 {
			cancel()
		}
	}}
	if m, err := p.Make(ctx, r); err == nil || m.Made == 4 {
		t.Errorf("interrupted: %v, %v", m, err)
	}
	if m, err := p.Make(context.Background(), r); err != nil || m.Made+m.Were != 4 || m.Were == 0 {
		t.Errorf("%v, %v: want 4 units", m, err)
	}
	if got, want := sums(t, p), sums(t, alone); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
