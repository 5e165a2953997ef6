package rig

import (
	"context"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// FreeRun rolls a case out from its recorded start, moved by delta, with the
// framework's random numbers, and returns the trajectory [M,T,C,H,W].
func FreeRun(t *testing.T, c *rollout.Case, traj *rollout.States, delta float64) []float64 {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.OpenStream("torch-cpu", op, graph.Mode{Precision: fp16.Float32})
	if err != nil {
		t.Fatal(err)
	}
	x0, _, err := c.ReadStart()
	if err != nil {
		t.Fatal(err)
	}
	for i := range x0 {
		x0[i] += delta * math.Sin(float64(i)) // not a constant, which a norm takes out
	}
	out := *traj
	out.Data = make([]float64, len(traj.Data))
	e := &rollout.Engine{
		Stepper: rollout.Stepper{Operator: op, Config: c.Rollout, Mode: graph.Mode{Precision: fp16.Float32}},
		Stream:  stream, Shape: rollout.Shape{C: traj.C, H: traj.H, W: traj.W},
		Start: func(int) []float64 { return x0 }, Sinks: []rollout.Sink{keep{&out}},
	}
	if err := e.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return out.Data
}

// keep is a sink that keeps every state.
type keep struct{ s *rollout.States }

func (k keep) State(t, m int, x, _ []float64) error {
	copy(k.s.At(m, t), x)
	return nil
}
