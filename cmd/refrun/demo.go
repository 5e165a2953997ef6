package main

import (
	"embed"
	"io/fs"
	"runtime"
	"time"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// The demo's case: five realizations of eleven steps that Spinlock's engine
// recorded with PyTorch on a CPU, and the float64 truth of each step.
//
//go:embed demo/case.json demo/weights.safetensors demo/trajectory.safetensors demo/one_step_f64.safetensors
var demoFiles embed.FS

var demoVerb = verb{
	name:    "demo",
	summary: "a real recorded rollout, reproduced step by step",
	help: `Takes a rollout that PyTorch recorded, which is built into this program, and
shows why single steps are the thing to compare: each step from a recorded state
agrees to float32 accuracy, while two runs of the same arithmetic that start 1e-6
apart drift away from each other.

example: refrun demo`,
	run: demo,
}

// The demo passes if no step differs from PyTorch's by more than float32
// arithmetic explains: PyTorch's own distance to float64 truth on recorded
// cases like this one is up to 5e-6 (largest) and 4e-7 (RMS) of the
// trajectory's standard deviation.
const (
	demoLargest = 1e-5
	demoRMS     = 1e-6
)

// demoRow is one step of the demo's table, RMS over the trajectory's std.
type demoRow struct {
	Step    int           `json:"step"`
	OneStep oracle.Number `json:"one_step"` // refrun's step from the recorded state, to the recorded next state
	Path    oracle.Number `json:"path"`     // refrun's own rollout from the recorded start, to the recorded state
	Moved   oracle.Number `json:"moved"`    // the same rollout from a start moved by 1e-6, to refrun's own
}

func demo(c *command) error {
	if err := c.parse(0); err != nil {
		return err
	}
	sub, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		return err
	}
	cs, err := rollout.OpenCaseFS(sub, "demo")
	if err != nil {
		return err
	}
	return c.demonstrate(cs)
}

// demonstrate tells the demo's story about a case.
func (c *command) demonstrate(cs *rollout.Case) error {
	start := time.Now()
	r, err := c.oneStep(cs, "", "", 0)
	if err != nil {
		return err
	}
	traj, err := cs.ReadTrajectory()
	if err != nil {
		return err
	}
	own, err := demoRollout(cs, traj, 0)
	if err != nil {
		return err
	}
	moved, err := demoRollout(cs, traj, 1e-6)
	if err != nil {
		return err
	}
	std := oracle.Std(traj.Data)
	out := struct {
		OK     bool        `json:"ok"`
		Steps  int         `json:"steps"`
		Table  []demoRow   `json:"table"`
		Checks []demoCheck `json:"checks"`
		*runReport
	}{Steps: r.Steps, runReport: r}
	for t := 1; t < traj.T; t++ {
		path, apart := oracle.NewAccumulator(traj.Format, std), oracle.NewAccumulator(traj.Format, std)
		for m := range traj.M {
			path.Add(own.At(m, t), traj.At(m, t))
			apart.Add(moved.At(m, t), own.At(m, t))
		}
		out.Table = append(out.Table, demoRow{t, r.PerStep[t-1].RMSOverStd, path.Diff().RMSOverStd, apart.Diff().RMSOverStd})
	}
	out.Checks = []demoCheck{
		{"largest one-step difference", r.All.MaxOverStd, demoLargest, float64(r.All.MaxOverStd) <= demoLargest},
		{"RMS one-step difference", r.All.RMSOverStd, demoRMS, float64(r.All.RMSOverStd) <= demoRMS},
	}
	out.OK = true
	for _, k := range out.Checks {
		out.OK = out.OK && k.OK
	}
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	c.printf("A stochastic CNN operator (%d layers, instance norm, GELU, Gaussian noise), recorded by\n%s: %d realizations of %d steps on a %dx%d grid.\n",
		cs.Operator.NumLayers, cs.ProducedBy, traj.M, traj.T-1, traj.H, traj.W)
	c.printf("refrun computes every operation exactly and rounds it once, draws PyTorch's random\nnumbers bit for bit, and steps each recorded state once.\n\n")
	c.printf("RMS differences, as a fraction of the trajectory's standard deviation (%s):\n\n", num(oracle.Number(std)))
	c.printf("         one step from each    whole rollout      whole rollout, start\n")
	c.printf("  step   recorded state        from the start     moved by 1e-6\n")
	for _, row := range out.Table {
		c.printf("  %4d   %-20s  %-17s  %s\n", row.Step, num(row.OneStep), num(row.Path), num(row.Moved))
	}
	last := out.Table[len(out.Table)-1]
	c.printf("\nThe first column is the arithmetic of single steps: it stays where float32 is. The other two\ngrow %.0f-fold and %.0f-fold in %d steps although nothing is wrong, so an end-state error of a\nlong rollout says nothing about a kernel; the error of a single step does.\n\n",
		float64(last.Path/out.Table[0].Path), float64(last.Moved/out.Table[0].Moved), traj.T-2)
	if t := r.Truth; t != nil {
		c.printf("Distance to float64 steps from the same states: refrun %s, PyTorch %s (RMS, of the std).\n", num(t.Ours), num(t.Recorded))
	}
	for _, k := range out.Checks {
		verdict := "ok"
		if !k.OK {
			verdict = "FAILED"
		}
		c.printf("%-6s %s %s of the std, limit %s\n", verdict, k.What, num(k.Got), num(oracle.Number(k.Limit)))
	}
	c.printf("%.2g s on %s\n", time.Since(start).Seconds(), plural(runtime.GOMAXPROCS(0), "thread"))
	if !out.OK {
		return errFailed
	}
	return nil
}

// demoCheck is one condition of the demo.
type demoCheck struct {
	What  string        `json:"what"`
	Got   oracle.Number `json:"got"`
	Limit float64       `json:"limit"`
	OK    bool          `json:"ok"`
}

// demoRollout runs the case freely from its recorded start with every number
// of the start moved by delta, and keeps all states.
func demoRollout(cs *rollout.Case, traj *rollout.States, delta float64) (*rollout.States, error) {
	op, err := cs.NewOperator()
	if err != nil {
		return nil, err
	}
	stream, err := cs.OpenStream("", op)
	if err != nil {
		return nil, err
	}
	mode, err := operator.ParseMode(cs.Rollout.Precision)
	if err != nil {
		return nil, err
	}
	s := &rollout.Stepper{Operator: op, Config: cs.Rollout, Mode: mode}
	out := *traj
	out.Data = make([]float64, len(traj.Data))
	for k, b := range cs.Rollout.EngineBatches() {
		lo, hi := b[0], b[1]
		x := tensor.New(mode.Precision, hi-lo, traj.C, traj.H, traj.W)
		for m := lo; m < hi; m++ {
			for i, v := range traj.At(m, 0) {
				x.Samples(m-lo, m-lo+1).Data[i] = mode.Precision.Round(v + delta)
			}
		}
		for t := 0; ; t++ {
			for m := lo; m < hi; m++ {
				copy(out.At(m, t), x.Samples(m-lo, m-lo+1).Data)
			}
			if t == traj.T-1 {
				break
			}
			draws, err := stream.Draws(k, lo, hi, t+1)
			if err != nil {
				return nil, err
			}
			if x, err = s.Step(x, draws); err != nil {
				return nil, err
			}
		}
	}
	return &out, nil
}
