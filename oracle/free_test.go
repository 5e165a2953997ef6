package oracle

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/rig"
)

// TestFreeRunning rolls every float32 case out freely. The distance to the
// recorded path is what the distance of single steps becomes under the growth
// that the operator gives any small difference, measured on a pair of our own
// that starts 1e-6 apart: below ten times (one step)*(growth)^t until it
// saturates.
func TestFreeRunning(t *testing.T) {
	dirs, err := filepath.Glob(rig.Testdata("rollouts", "*"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range dirs {
		c := rig.OpenCase(t, filepath.Base(dir))
		if c.Rollout.Precision != "float32" {
			continue
		}
		seen++
		traj, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		one, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: fp16.Float32}, Noise: "torch-cpu"})
		if err != nil {
			t.Fatal(err)
		}
		own, moved := rig.FreeRun(t, c, traj, 0), rig.FreeRun(t, c, traj, 1e-6)
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
