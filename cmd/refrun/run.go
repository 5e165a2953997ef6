package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

var runVerb = verb{
	name:    "run",
	args:    "",
	summary: "roll out an operator, or evaluate an ONNX file once",
	help: `Rolls out a case, or a configuration with --config, from its initial condition
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
	run: run,
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

func run(c *command) error {
	dir := c.flags.String("case", "", "`folder` of the recorded case; it may stand without --case")
	c.folder = dir
	oneStep := c.flags.Bool("one-step", false, "step each recorded state once instead of rolling out")
	precision := c.flags.String("precision", "",
		"`arithmetic`: float64, float32, tf32[:away|:truncate], float16 or bfloat16 (default what the case says)")
	autocast := c.flags.String("autocast", "", "`rules` of a half precision: "+
		"cuda or cpu, with the release :1.13 or :2.x if it is not the case's (default the case's, else cuda)")
	var arith string
	c.arithFlag(&arith)
	noise := c.flags.String("noise", "", "`stream`: counter, tape, torch-cpu[:1.13|:2.x][:mkl], "+
		"torch-cuda:SMS[:THREADS] or none (default the case's tape, else its PyTorch's stream, else counter)")
	batch := c.flags.Int("batch", 0,
		"`realizations` per application of the operator (default the engine batch); never changes a bit")
	table := c.flags.String("csv", "", "of --one-step: write the errors by step and channel as a CSV `file`")
	w, m := c.wholeFlags(), c.modelFlags()
	if err := c.parse(0); err != nil {
		return err
	}
	want := arithmetic{*precision, *autocast, arith}
	if m.given() {
		return c.model(m, want, w.out, w.force)
	}
	if len(m.inputs) > 0 {
		return errors.New("--input: want --onnx or --graph as well")
	}
	var cs *rollout.Case
	var err error
	switch {
	case (*dir == "") == (w.config == ""):
		return errors.New("--case: want the folder of a recorded case, or --config FILE, one of them")
	case *oneStep && *dir == "":
		return errors.New("--one-step: want --case, the folder of a case with recorded states")
	case *batch < 0:
		return fmt.Errorf("--batch: %d: want 1 or more", *batch)
	case *dir != "":
		cs, err = rollout.OpenCase(*dir)
	default:
		cs, err = readConfig(w.config)
	}
	if err != nil {
		return err
	}
	if err := w.given(c.flags); err != nil {
		return err
	}
	if *table != "" && !*oneStep {
		return errors.New("--csv: want --one-step as well, whose errors it lists")
	}
	if !*oneStep {
		return c.whole(cs, w, want, *noise, *batch)
	}
	if *w != (wholeFlags{checkpoint: w.checkpoint}) {
		return errors.New("--one-step: compares a case as it was recorded: want no --weights, --x0, -o, --seed, " +
			"--steps, --realizations, --allow-nonfinite")
	}
	if err := cmp.Or(writable("--csv", *table), apart("--csv", *table, caseFiles(*dir)...)); err != nil {
		return err
	}
	r, err := c.oneStep(cs, want, *noise, *batch)
	if err != nil {
		return err
	}
	if err := writeFields("--csv", *table, r.Fields); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(r)
	}
	c.printOneStep(cs, r)
	return nil
}

// oneStep compares a case's steps; noise "" means what it says.
func (c *command) oneStep(cs *rollout.Case, want arithmetic, noise string, batch int) (*runReport, error) {
	mode, requested, err := want.mode(cs)
	if err != nil {
		return nil, err
	}
	p := c.progress("one step from each recorded state")
	start := time.Now()
	one, err := oracle.CheckOneStep(cs, oracle.OneStepOptions{Mode: mode, Noise: noise, Batch: batch, Progress: p.step})
	p.done()
	if err != nil {
		return nil, err
	}
	secs := max(time.Since(start), time.Nanosecond).Seconds() // a coarse clock may not have moved
	r := &runReport{
		Case: cs.Dir, Contract: graph.Contract,
		PrecisionRequested: requested, PrecisionUsed: mode.Precision.String(),
		ISA: c.isa, Threads: runtime.GOMAXPROCS(0), Seconds: secs,
		StepsPerS:       float64(cs.Rollout.Timesteps-1) / secs,
		SampleStepsPerS: float64(one.Steps) / secs,
		GFLOPS:          2 * float64(one.MACs) * float64(one.Steps) / secs / 1e9,
		PeakBytes:       peakBytes(), OneStep: one,
	}
	r.Notes = ignoredNotes(cs)
	if recorded, _, err := (arithmetic{}).mode(cs); err == nil && recorded != mode {
		r.Notes = append(r.Notes, fmt.Sprintf("the case was recorded in %v, and is compared with %v steps", recorded, mode))
	}
	r.Notes = append(r.Notes, overflowNotes(one.Overflow, false)...)
	r.Notes = append(r.Notes, noiseNotes(cs, one.Noise)...)
	return r, nil
}

// noiseNotes says that an operator which draws random numbers was given none.
func noiseNotes(cs *rollout.Case, stream string) []string {
	draws := cs.Operator.NoiseType != "" ||
		slices.ContainsFunc(cs.Operator.Nodes, func(n operator.NodeConfig) bool { return n.NoiseType != "" })
	if !draws || stream != "none" {
		return nil
	}
	return []string{"the operator's noise was left out"}
}

// ignoredNotes names the parameters that reach no part of the operator, and what was left out of
// the names of its weights.
func ignoredNotes(cs *rollout.Case) []string {
	var notes []string
	for _, key := range cs.Operator.Ignored {
		notes = append(notes, "operator."+key+" is ignored, as Spinlock's builder ignores it")
	}
	if cs.Weights != nil {
		if prefix := operator.Prefix(cs.Operator, cs.Weights); prefix != "" {
			notes = append(notes, "weights: "+prefix+" before all names is left out: the module was wrapped")
		}
	}
	return notes
}

func (c *command) printOneStep(cs *rollout.Case, r *runReport) {
	ro, all := cs.Rollout, r.All
	what := fmt.Sprintf("%s, policy %s", operatorText(cs.Operator), ro.Policy)
	if cs.Step != nil {
		what = "step graph of " + plural(len(cs.Step.Network.Graph.Nodes), "operation")
	}
	c.printf("%s: %s\n", clean(cs.Dir), what)
	if cs.ProducedBy != "" {
		c.printf("recorded by %s\n", clean(cs.ProducedBy))
	}
	c.printf("mode %s, contract %s\n", r.Mode, r.Contract)
	for _, n := range r.Notes {
		c.printf("note: %s\n", n)
	}
	c.printf("\nOne step from each of %s recorded states, against the recorded next state:\n", fmt.Sprint(r.Steps))
	c.printf("  largest difference  %-9s %-9s of the trajectory's std, %s\n",
		num(all.MaxAbs), num(all.MaxOverStd), num(all.Std))
	c.printf("  RMS difference      %-9s %-9s\n", num(all.RMS), num(all.RMSOverStd))
	c.printf("  mean difference     %-9s\n", num(all.MeanAbs))
	if all.NonFiniteDiffer > 0 {
		c.printf("  NaN or infinite on one side only: %s\n", plural(all.NonFiniteDiffer, "element"))
	}
	if t := r.Truth; t != nil {
		c.printf("\nRMS distance to float64 steps from the same states, of the std:\n")
		c.printf("  refrun %s, recording %s: ratio %s\n", num(t.Ours), num(t.Recorded), num(t.Ratio))
	}
	c.printf("\n  step   largest/std   RMS/std    rel. L2    VRMSE\n")
	channels := len(r.Fields) / max(len(r.PerStep), 1)
	for _, i := range sample(len(r.PerStep), 12) {
		d, f := r.PerStep[i], diff.MeanFields(r.Fields[i*channels:(i+1)*channels])
		c.printf("  %4d   %-11s   %-9s  %-9s  %s\n", i+1, num(d.MaxOverStd), num(d.RMSOverStd), num(f.RelL2), num(f.VRMSE))
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
		c.printf("\n%s compared; ", plural(len(r.Layers), of))
		if !slices.ContainsFunc(r.Layers, func(l oracle.Layer) bool { return l.MaxAbs != 0 || l.MaxOverStd != 0 }) {
			c.printf("they are equal\n")
		} else {
			c.printf("the largest difference, %s of its std, is in %s\n", num(worst.MaxOverStd), worst.Name)
		}
	}
	c.printf("\n%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
		r.SampleStepsPerS, r.GFLOPS, plural(r.Threads, "thread"), r.ISA)
	c.printf("digest %s\n", r.Digest)
}

// operatorText describes an operator in a few words.
func operatorText(o operator.Config) string {
	if u := o.UAFNO; u != nil {
		return fmt.Sprintf("U-AFNO of %s, %s of %s, %d channels at most, %s norm, %s",
			plural(u.EncoderLevels, "level"), plural(u.AFNOBlocks, "AFNO block"), plural(u.Modes, "mode"),
			o.BaseChannels<<min(u.EncoderLevels, 3), o.Normalization, o.Activation)
	}
	if f := o.FNO; f != nil {
		return fmt.Sprintf("FNO of %s of %d x %d modes, %s, %s",
			plural(f.Layers, "layer"), f.Modes[0], f.Modes[1], plural(f.HiddenChannels, "channel"), o.Activation)
	}
	if o.Nodes == nil {
		return fmt.Sprintf("%s of %dx%d convolutions, %d channels at most, %s norm, %s", plural(o.NumLayers+1, "block"),
			o.KernelSize, o.KernelSize, o.BaseChannels<<min(max(o.NumLayers-1, 0), 2), o.Normalization, o.Activation)
	}
	convs, widest := 0, 0
	for _, n := range o.Nodes {
		if n.Op == "conv" {
			convs, widest = convs+1, max(widest, n.OutChannels)
		}
	}
	return fmt.Sprintf("%s, of which %s, %s at most",
		plural(len(o.Nodes), "operation"), plural(convs, "convolution"), plural(widest, "channel"))
}
