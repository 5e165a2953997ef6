package oracle

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// freeRun rolls a case out from its recorded start, moved by delta, with the
// framework's random numbers, and returns the trajectory [M,T,C,H,W].
func freeRun(t *testing.T, c *rollout.Case, traj *rollout.States, delta float64) []float64 {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.OpenStream("torch-cpu", op, operator.Mode{Precision: fp16.Float32})
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
		Stepper: rollout.Stepper{Operator: op, Config: c.Rollout, Mode: operator.Mode{Precision: fp16.Float32}},
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

// TestFreeRunning rolls every float32 case out freely. The distance to the
// recorded path is what the distance of single steps becomes under the growth
// that the operator gives any small difference, measured on a pair of our own
// that starts 1e-6 apart: below ten times (one step)*(growth)^t until it
// saturates.
func TestFreeRunning(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/rollouts/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range dirs {
		c := openCase(t, filepath.Base(dir))
		if c.Rollout.Precision != "float32" {
			continue
		}
		seen++
		traj, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		one, err := CheckOneStep(c, OneStepOptions{Mode: operator.Mode{Precision: fp16.Float32}, Noise: "torch-cpu"})
		if err != nil {
			t.Fatal(err)
		}
		own, moved := freeRun(t, c, traj, 0), freeRun(t, c, traj, 1e-6)
		chw := traj.CHW()
		twin := diff.PerStep(moved, own, traj.M, traj.T, chw, fp16.Float32)
		growth := 1.0
		for s := 1; s < traj.T; s++ {
			growth = max(growth, math.Pow(float64(twin[s].MaxAbs/twin[0].MaxAbs), 1/float64(s)))
		}
		path := diff.PerStep(own, traj.Data, traj.M, traj.T, chw, fp16.Float32)
		worst := 0.0
		for s := 1; s < traj.T && path[s].RMSOverStd < diff.Saturation; s++ {
			limit := 10 * float64(one.All.MaxAbs) * math.Pow(growth, float64(s))
			worst = max(worst, float64(path[s].MaxAbs)/limit)
			if !(float64(path[s].MaxAbs) <= limit) {
				t.Errorf("%s: step %d: %.3g from the recorded path, limit %.3g", dir, s, path[s].MaxAbs, limit)
			}
		}
		t.Logf("%s: growth %.3f a step, largest share of the limit %.2f", filepath.Base(dir), growth, worst)
	}
	if seen < 6 {
		t.Fatalf("only %d cases", seen)
	}
}
