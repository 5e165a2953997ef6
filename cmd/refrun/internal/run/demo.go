package run

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

var Demo = cli.Verb{
	Name:    "demo",
	Summary: "begin here: a recorded rollout, judged step by step",
	Help: `Shows on a rollout of PyTorch, which is built into this program, why single steps
are compared and not the ends of rollouts. Each step from a recorded state agrees to
float32 accuracy, but two runs of the same arithmetic that start 1e-6 apart diverge.
Then it judges the recording, a correct float16 device and two broken ones.

example: refrun demo`,
	Run: demo,
}

// The demo passes if no step differs from PyTorch's by more than float32
// arithmetic explains: PyTorch's own distance to float64 truth on recorded
// cases like this one is up to 5e-6 (largest) and 4e-7 (RMS) of the
// trajectory's standard deviation.
const (
	demoLargest = 1e-5
	demoRMS     = 1e-6
)

// demoFar is how many steps the pair of rollouts is followed, and demoMoved how far apart
// they start.
const (
	demoFar   = 60
	demoMoved = 1e-6
)

// demoRow is one step of the demo's table, RMS over the trajectory's std.
type demoRow struct {
	Step    int         `json:"step"`
	OneStep diff.Number `json:"one_step"` // refrun's step from the recorded state, to the recorded next state
	Path    diff.Number `json:"path"`     // refrun's own rollout from the recorded start, to the recorded state
}

// demoFarRow is how far a rollout and its twin are apart, one realization.
type demoFarRow struct {
	Step    int         `json:"step"`
	MeanAbs diff.Number `json:"mean_abs"`
}

// demoReport is the JSON of demo.
type demoReport struct {
	OK     bool         `json:"ok"`
	Steps  int          `json:"steps"`
	Table  []demoRow    `json:"table"`
	Far    []demoFarRow `json:"far"`
	Checks []demoCheck  `json:"checks"`
	*runReport
}

func demo(c *cli.Command) error {
	if err := c.Parse(0); err != nil {
		return err
	}
	files, err := demoFiles()
	if err != nil {
		return err
	}
	cs, err := rollout.OpenCaseFS(files, "demo")
	if err != nil {
		return err
	}
	return demonstrate(c, cs)
}

// demonstrate tells the demo's story about a case.
func demonstrate(c *cli.Command, cs *rollout.Case) error {
	start := time.Now()
	r, err := stepOnce(c, cs, setup.Arithmetic{}, "", 0)
	if err != nil {
		return err
	}
	traj, err := cs.ReadTrajectory()
	if err != nil {
		return err
	}
	own, err := demoRollout(cs, "", traj, traj.M, traj.T-1, 0)
	if err != nil {
		return err
	}
	// One realization goes on until its twin has lost it, beyond any tape.
	far, err := demoRollout(cs, cs.Framework(), traj, 1, demoFar, 0)
	if err != nil {
		return err
	}
	moved, err := demoRollout(cs, cs.Framework(), traj, 1, demoFar, demoMoved)
	if err != nil {
		return err
	}
	apart := diff.PerStep(moved.Data, far.Data, 1, demoFar+1, far.CHW(), far.Format)
	std := diff.Std(traj.Data)
	out := &demoReport{Steps: r.Steps, runReport: r}
	for t := 1; t < traj.T; t++ {
		path := diff.NewAccumulator(traj.Format, std)
		for m := range traj.M {
			path.Add(own.At(m, t), traj.At(m, t))
		}
		out.Table = append(out.Table, demoRow{t, r.PerStep[t-1].RMSOverStd, path.Diff().RMSOverStd})
	}
	for t := 10; t <= demoFar; t += 10 {
		out.Far = append(out.Far, demoFarRow{t, apart[t].MeanAbs})
	}
	if err := out.check(cs, traj); err != nil {
		return err
	}
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	printDemo(c, cs, traj, out)
	c.Printf("%.2g s on %s\n", time.Since(start).Seconds(), cli.Plural(runtime.GOMAXPROCS(0), "thread"))
	if !out.OK {
		return cli.ErrFailed
	}
	return nil
}

// check fills in what the demonstration holds, and whether all of it does.
func (out *demoReport) check(cs *rollout.Case, traj *rollout.States) error {
	all := out.runReport.All
	out.Checks = []demoCheck{
		{What: "largest one-step difference", demoFigure: &demoFigure{all.MaxOverStd, demoLargest},
			OK: float64(all.MaxOverStd) <= demoLargest},
		{What: "RMS one-step difference", demoFigure: &demoFigure{all.RMSOverStd, demoRMS},
			OK: float64(all.RMSOverStd) <= demoRMS},
	}
	for _, d := range demoDevices {
		k, err := d.check(cs, traj)
		if err != nil {
			return err
		}
		out.Checks = append(out.Checks, k)
	}
	out.OK = true
	for _, k := range out.Checks {
		out.OK = out.OK && k.OK
	}
	return nil
}

// printDemo prints the demo's story about a case of that trajectory.
func printDemo(c *cli.Command, cs *rollout.Case, traj *rollout.States, out *demoReport) {
	c.Print(cli.Wrap(fmt.Sprintf("%s, recorded by %s: %d realizations of %d steps on a %dx%d grid.",
		demoIntroduction(cs), cs.ProducedBy, traj.M, traj.T-1, traj.H, traj.W), 0) + "\n")
	draws := "takes the recorded random numbers"
	if strings.HasPrefix(out.Noise, "torch-") {
		draws = "draws PyTorch's random numbers bit for bit"
	}
	c.Print(cli.Wrap("refrun computes every operation exactly and rounds it once, "+draws+
		", and steps each recorded state once.", 0) + "\n")
	c.Printf("RMS differences, as a fraction of the trajectory's standard deviation (%s):\n\n",
		cli.Num(diff.Number(diff.Std(traj.Data))))
	c.Printf("         one step from each    whole rollout\n")
	c.Printf("  step   recorded state        from the recorded start\n")
	for _, row := range out.Table {
		c.Printf("  %4d   %-20s  %s\n", row.Step, cli.Num(row.OneStep), cli.Num(row.Path))
	}
	c.Print("\n" + cli.Wrap(out.columns()+" Farther on, a float32 rollout against the same one with its start moved "+
		"by 1e-6, mean difference:", 0) + "\n  step ")
	for _, row := range out.Far {
		c.Printf("%9d", row.Step)
	}
	c.Printf("\n       ")
	for _, row := range out.Far {
		c.Printf("%9s", cli.Num(row.MeanAbs))
	}
	c.Print("\n\n" + cli.Wrap(out.published(), 0) + "\n")
	for _, k := range out.Checks {
		verdict := "ok"
		if !k.OK {
			verdict = "FAILED"
		}
		if k.demoFigure != nil {
			c.Printf("%-6s %s %s of the std, limit %s\n", verdict, k.What, cli.Beyond(k.Got, k.Limit),
				cli.Num(diff.Number(k.Limit)))
			continue
		}
		c.Printf("%-6s %s: %s", verdict, k.What, k.Verdict)
		if *k.FirstStep >= 0 {
			c.Printf(" at step %d", *k.FirstStep)
		}
		if k.Diagnosis != "" {
			c.Printf(", %s", k.Diagnosis)
		}
		c.Printf("\n")
	}
}

// demoIntroduction says what the case's operator is.
func demoIntroduction(cs *rollout.Case) string {
	o := cs.Operator
	kind, noise := "A CNN operator", ""
	if t := o.NoiseType; t != "" {
		kind, noise = "A stochastic CNN operator", ", "+strings.ToUpper(t[:1])+t[1:]+" noise"
	}
	return fmt.Sprintf("%s (%d layers, %s norm, %s%s)",
		kind, o.NumLayers, o.Normalization, strings.ToUpper(o.Activation), noise)
}

// columns says what the table's columns show.
func (r *demoReport) columns() string {
	s := "The first column is the arithmetic of single steps: it stays where float32 is."
	if slices.ContainsFunc(r.Table, func(w demoRow) bool { return !(w.OneStep <= demoRMS) }) {
		s = "The first column is the arithmetic of single steps: it does not stay where float32 is."
	}
	first, last, far := r.Table[0].Path, r.Table[len(r.Table)-1].Path, r.Far[len(r.Far)-1].MeanAbs
	if last > 2*first && far > 2*demoMoved {
		return s + " The second is the same arithmetic, and grows, because this operator enlarges any difference."
	}
	return s + " The second is the same arithmetic, step after step."
}

// published sets what was published beside the rollout whose start was moved.
func (r *demoReport) published() string {
	const half, bf = 2.44e-01, 2.50e-01 // 29 December 2025, "Numerical Accuracy": mean differences of the last states
	s := fmt.Sprintf("A published report on such an operator (%s) gives a mean difference of %.3f between FP16 "+
		"and FP32 after 499 steps, and %.3f for BF16, which rounds eight times more coarsely.",
		"Spinlock, docs/optimization/OPTIMIZATION_SUMMARY.md", half, bf)
	if r.Far[len(r.Far)-1].MeanAbs > diff.Number(half) {
		s += " A millionth at the start does that without any half precision: " +
			"the end of a rollout says nothing about arithmetic. A single step does."
	}
	return s
}

// demoCheck is one condition of the demo: a figure and its limit, or what the
// oracle says of a device.
type demoCheck struct {
	What string `json:"what"`
	*demoFigure
	Verdict   report.Verdict `json:"verdict,omitempty"`
	FirstStep *int           `json:"first_step,omitempty"`
	Diagnosis string         `json:"diagnosis,omitempty"`
	OK        bool           `json:"ok"`
}

type demoFigure struct {
	Got   diff.Number `json:"got"`
	Limit float64     `json:"limit"`
}

// demoRollout runs the first realizations of a case freely from its recorded
// start, every number of it moved by delta, with the noise of the named stream,
// and keeps all states.
func demoRollout(
	cs *rollout.Case, noise string, traj *rollout.States, realizations, steps int, delta float64,
) (*rollout.States, error) {
	op, err := cs.NewOperator()
	if err != nil {
		return nil, err
	}
	mode, _, err := setup.Arithmetic{}.Mode(cs)
	if err != nil {
		return nil, err
	}
	stream, err := cs.OpenStream(noise, op, mode)
	if err != nil {
		return nil, err
	}
	out := &rollout.States{M: realizations, T: steps + 1, C: traj.C, H: traj.H, W: traj.W, Format: mode.Wide()}
	out.Data = make([]float64, out.M*out.T*out.CHW())
	cfg := cs.Rollout
	cfg.Realizations, cfg.Timesteps = out.M, out.T
	e := &rollout.Engine{
		Stepper: rollout.Stepper{Operator: op, Config: cfg, Mode: mode},
		Stream:  stream, Shape: rollout.Shape{C: traj.C, H: traj.H, W: traj.W},
		Start: func(m int) []float64 {
			x := append([]float64(nil), traj.At(m, 0)...)
			for i := range x {
				x[i] += delta
			}
			return x
		},
		Sinks: []rollout.Sink{keep{out}},
	}
	return out, e.Run(context.Background(), nil)
}

// keep is a sink that keeps every state.
type keep struct{ s *rollout.States }

func (k keep) State(t, m int, x, _ []float64) error {
	copy(k.s.At(m, t), x)
	return nil
}
