package rollout

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/refrun/refrun/noise"
)

// pairFunc is a sink of a function that also sees the state before, nil at the first.
type pairFunc func(t, m int, x, prev []float64)

func (f pairFunc) State(t, m int, x, prev []float64) error { f(t, m, x, prev); return nil }

// TestStoresBesideSteps: while sinks take the states of a step, the next step begins, and no
// more than that: the states that a sink is reading stay as they are.
func TestStoresBesideSteps(t *testing.T) {
	j := job(t, "", nil)
	begun := make(chan int, 100)
	s := j.Stream
	j.Stream = NewStream(s.Name, func(k, lo, hi, step int) (noise.Draws, error) {
		begun <- step
		return s.at(k, lo, hi, step)
	})
	last, failure := j.Config.Timesteps-1, errors.New("full")
	states := 0
	j.Sinks = []Sink{pairFunc(func(step, m int, x, prev []float64) {
		now, before := slices.Clone(x), slices.Clone(prev)
		if m == 0 && step < last {
			select {
			case <-begun:
			case <-time.After(10 * time.Second):
				t.Errorf("step %d does not begin before its states are stored", step+1)
			}
			time.Sleep(time.Millisecond) // in which the step ends
		}
		if states++; !slices.Equal(now, x) || !slices.Equal(before, prev) {
			t.Errorf("step %d, realization %d: states changed while they were read", step, m)
		}
	})}
	if err := j.Engine.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if states != 5*7 {
		t.Errorf("%d states, want %d", states, 5*7)
	}
	j.Sinks = []Sink{sinkFunc(func(step, _ int) error {
		if step == last {
			return failure
		}
		return nil
	})}
	if err := j.Engine.Run(context.Background(), nil); !errors.Is(err, failure) {
		t.Errorf("a sink that fails at the last step: %v", err)
	}
}
