package run

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

var Verb = cli.Verb{
	Name:    "run",
	Args:    "",
	Summary: "roll out an operator, or evaluate an ONNX file once",
	Help: `Rolls out a case, or a configuration with --config, from its initial condition
and writes the trajectory with -o. A run that dies leaves a partial file and a
checkpoint; --resume continues it to the same bytes.

With --one-step, steps each recorded state of a case once and compares the result
with the recorded next state. A difference of one step is an error of arithmetic; a
difference at the end of a rollout may be chaos alone.

With --onnx, evaluates a network once for the inputs of --input, in the types of
its file unless --precision says otherwise, and writes its outputs with -o.

Precision, noise and engine batch come from case.json. Flags override them, and the
output names the ones that were used.

example: refrun run --case my_case --one-step --noise torch-cpu:1.13
example: refrun run --onnx resnet.onnx --input x=x.npy -o y.npz
example: refrun run --config op.yaml --x0 white:7 --steps 499 -o out.safetensors`,
	Run: run,
}

// runReport is the JSON of run --one-step.
type runReport struct {
	Case               string   `json:"case"`
	Contract           string   `json:"contract"`
	PrecisionRequested string   `json:"precision_requested"`
	PrecisionUsed      string   `json:"precision_used"`
	ISA                string   `json:"isa"`
	Threads            int      `json:"threads"`
	Seconds            float64  `json:"seconds"`
	StepsPerS          float64  `json:"steps_per_s"`
	SampleStepsPerS    float64  `json:"sample_steps_per_s"`
	GFLOPS             float64  `json:"gflops"`
	PeakBytes          int64    `json:"peak_bytes"`
	Notes              []string `json:"notes,omitempty"`
	*oracle.OneStep
}

func run(c *cli.Command) error {
	dir := c.Flags.String("case", "", "`folder` of the recorded case; it may stand without --case")
	c.Folder = dir
	oneStep := c.Flags.Bool("one-step", false, "step each recorded state once instead of rolling out")
	precision := c.Flags.String("precision", "",
		"`arithmetic`: float64, float32, tf32[:away|:truncate], float16 or bfloat16 (default what the case says)")
	autocast := c.Flags.String("autocast", "", "`rules` of a half precision: "+
		"cuda or cpu, with the release :1.13 or :2.x if it is not the case's (default the case's, else cuda)")
	var arith string
	setup.ArithFlag(c, &arith)
	noise := c.Flags.String("noise", "", "`stream`: counter, tape, torch-cpu[:1.13|:2.x][:mkl], "+
		"torch-cuda:SMS[:THREADS] or none (default the case's tape, else its PyTorch's stream, else counter)")
	batch := c.Flags.Int("batch", 0,
		"`realizations` per application of the operator (default the engine batch); never changes a bit")
	table := c.Flags.String("csv", "", "of --one-step: write the errors by step and channel as a CSV `file`")
	w, m := setup.Declare(c), model.Declare(c)
	if err := c.Parse(0); err != nil {
		return err
	}
	want := setup.Arithmetic{Precision: *precision, Autocast: *autocast, Arith: arith}
	if m.Given() {
		return evaluate(c, m, want, w.Out, w.Force)
	}
	if len(m.Inputs) > 0 {
		return errors.New("--input: want --onnx or --graph as well")
	}
	var cs *rollout.Case
	var err error
	switch {
	case (*dir == "") == (w.Config == ""):
		return errors.New("--case: want the folder of a recorded case, or --config FILE, one of them")
	case *oneStep && *dir == "":
		return errors.New("--one-step: want --case, the folder of a case with recorded states")
	case *batch < 0:
		return fmt.Errorf("--batch: %d: want 1 or more", *batch)
	case *dir != "":
		cs, err = rollout.OpenCase(*dir)
	default:
		cs, err = files.ReadConfig(w.Config)
	}
	if err != nil {
		return err
	}
	if err := w.Given(c.Flags); err != nil {
		return err
	}
	if *table != "" && !*oneStep {
		return errors.New("--csv: want --one-step as well, whose errors it lists")
	}
	if !*oneStep {
		return whole(c, cs, w, want, *noise, *batch)
	}
	if *w != (setup.Flags{Checkpoint: w.Checkpoint}) {
		return errors.New("--one-step: compares a case as it was recorded: want no --weights, --x0, -o, --seed, " +
			"--steps, --realizations, --allow-nonfinite")
	}
	if err := cmp.Or(files.Writable("--csv", *table), files.Apart("--csv", *table, files.CaseFiles(*dir)...)); err != nil {
		return err
	}
	r, err := stepOnce(c, cs, want, *noise, *batch)
	if err != nil {
		return err
	}
	if err := files.WriteFields("--csv", *table, r.Fields); err != nil {
		return err
	}
	if c.Json {
		return c.PrintJSON(r)
	}
	printOneStep(c, cs, r)
	return nil
}

// stepOnce compares a case's steps; noise "" means what it says.
func stepOnce(c *cli.Command, cs *rollout.Case, want setup.Arithmetic, noise string, batch int) (*runReport, error) {
	mode, requested, err := want.Mode(cs)
	if err != nil {
		return nil, err
	}
	p := c.Progress("one step from each recorded state")
	start := time.Now()
	one, err := oracle.CheckOneStep(cs, oracle.OneStepOptions{Mode: mode, Noise: noise, Batch: batch, Progress: p.Step})
	p.Done()
	if err != nil {
		return nil, err
	}
	secs := max(time.Since(start), time.Nanosecond).Seconds() // a coarse clock may not have moved
	r := &runReport{
		Case: cs.Dir, Contract: graph.Contract,
		PrecisionRequested: requested, PrecisionUsed: mode.Precision.String(),
		ISA: c.Isa, Threads: runtime.GOMAXPROCS(0), Seconds: secs,
		StepsPerS:       float64(cs.Rollout.Timesteps-1) / secs,
		SampleStepsPerS: float64(one.Steps) / secs,
		GFLOPS:          2 * float64(one.MACs) * float64(one.Steps) / secs / 1e9,
		PeakBytes:       cli.PeakBytes(), OneStep: one,
	}
	r.Notes = setup.IgnoredNotes(cs)
	if recorded, _, err := (setup.Arithmetic{}).Mode(cs); err == nil && recorded != mode {
		r.Notes = append(r.Notes, fmt.Sprintf("the case was recorded in %v, and is compared with %v steps", recorded, mode))
	}
	r.Notes = append(r.Notes, setup.OverflowNotes(one.Overflow, false)...)
	r.Notes = append(r.Notes, setup.NoiseNotes(cs, one.Noise)...)
	return r, nil
}

func printOneStep(c *cli.Command, cs *rollout.Case, r *runReport) {
	ro, all := cs.Rollout, r.All
	what := fmt.Sprintf("%s, policy %s", setup.OperatorText(cs.Operator), ro.Policy)
	if cs.Step != nil {
		what = "step graph of " + cli.Plural(len(cs.Step.Network.Graph.Nodes), "operation")
	}
	c.Printf("%s: %s\n", cli.Clean(cs.Dir), what)
	if cs.ProducedBy != "" {
		c.Printf("recorded by %s\n", cli.Clean(cs.ProducedBy))
	}
	c.Printf("mode %s, contract %s\n", r.Mode, r.Contract)
	for _, n := range r.Notes {
		c.Printf("note: %s\n", n)
	}
	c.Printf("\nOne step from each of %s recorded states, against the recorded next state:\n", fmt.Sprint(r.Steps))
	c.Printf("  largest difference  %-9s %-9s of the trajectory's std, %s\n",
		cli.Num(all.MaxAbs), cli.Num(all.MaxOverStd), cli.Num(all.Std))
	c.Printf("  RMS difference      %-9s %-9s\n", cli.Num(all.RMS), cli.Num(all.RMSOverStd))
	c.Printf("  mean difference     %-9s\n", cli.Num(all.MeanAbs))
	if all.NonFiniteDiffer > 0 {
		c.Printf("  NaN or infinite on one side only: %s\n", cli.Plural(all.NonFiniteDiffer, "element"))
	}
	if t := r.Truth; t != nil {
		c.Printf("\nRMS distance to float64 steps from the same states, of the std:\n")
		c.Printf("  refrun %s, recording %s: ratio %s\n", cli.Num(t.Ours), cli.Num(t.Recorded), cli.Num(t.Ratio))
	}
	c.Printf("\n  step   largest/std   RMS/std    rel. L2    VRMSE\n")
	channels := len(r.Fields) / max(len(r.PerStep), 1)
	for _, i := range cli.Sample(len(r.PerStep), 12) {
		d, f := r.PerStep[i], diff.MeanFields(r.Fields[i*channels:(i+1)*channels])
		c.Printf("  %4d   %-11s   %-9s  %-9s  %s\n", i+1, cli.Num(d.MaxOverStd), cli.Num(d.RMSOverStd), cli.Num(f.RelL2),
			cli.Num(f.VRMSE))
	}
	if len(r.Layers) > 0 {
		worst := r.Layers[0]
		for _, l := range r.Layers {
			if !(l.MaxOverStd <= worst.MaxOverStd) && worst.MaxOverStd == worst.MaxOverStd { // NaN is the worst
				worst = l
			}
		}
		of := "recorded layer"
		if cs.Step != nil {
			of = "other state"
		}
		c.Printf("\n%s compared; ", cli.Plural(len(r.Layers), of))
		if !slices.ContainsFunc(r.Layers, func(l oracle.Layer) bool { return l.MaxAbs != 0 || l.MaxOverStd != 0 }) {
			c.Printf("they are equal\n")
		} else {
			c.Printf("the largest difference, %s of its std, is in %s\n", cli.Num(worst.MaxOverStd), worst.Name)
		}
	}
	c.Printf("\n%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
		r.SampleStepsPerS, r.GFLOPS, cli.Plural(r.Threads, "thread"), r.ISA)
	c.Printf("digest %s\n", r.Digest)
}
