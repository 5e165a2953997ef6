package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// held is where a whole rollout's memory is, by part.
type held struct {
	rollout.Memory
	Inputs int64 `json:"input_bytes"` // the initial condition; files stay on disk
}

func (m *held) String() string {
	return fmt.Sprintf("states %s, activations %s, weights %s, outputs %s, inputs %s",
		cli.Size(m.States), cli.Size(m.Arena), cli.Size(m.Weights), cli.Size(m.Sinks), cli.Size(m.Inputs))
}

// wholeReport is the JSON of a whole rollout.
type wholeReport struct {
	Digest             string   `json:"digest"` // of the states in the format of the mode
	StoredDigest       string   `json:"stored_digest,omitempty"`
	StoredFormat       string   `json:"stored_format,omitempty"` // of which that is the digest, if it is another one
	Mode               string   `json:"mode"`
	Contract           string   `json:"contract"`
	Shape              []int    `json:"shape"`
	Output             string   `json:"output,omitempty"`
	Complete           bool     `json:"already_complete,omitempty"`
	Resumed            bool     `json:"resumed,omitempty"`
	PrecisionRequested string   `json:"precision_requested"`
	PrecisionUsed      string   `json:"precision_used"`
	Noise              string   `json:"noise"`
	ISA                string   `json:"isa"`
	Threads            int      `json:"threads"`
	Seconds            float64  `json:"seconds"`
	StepsPerS          float64  `json:"steps_per_s"`
	SampleStepsPerS    float64  `json:"sample_steps_per_s"`
	GFLOPS             float64  `json:"gflops"`
	Memory             *held    `json:"memory,omitempty"`
	PeakBytes          int64    `json:"peak_bytes"`
	Notes              []string `json:"notes,omitempty"`
	// Overflow is the first float16 overflow, if there was one.
	Overflow *rollout.Overflow `json:"overflow,omitempty"`
	step     bool              // of a step graph
}

// whole rolls out a case or a configuration from its initial condition.
func whole(c *cli.Command, cs *rollout.Case, w *setup.Flags, want setup.Arithmetic, noise string, batch int) error {
	if err := w.Override(cs); err != nil {
		return err
	}
	mode, requested, err := want.Mode(cs)
	if err != nil {
		return err
	}
	if cs.Step != nil {
		return wholeStep(c, cs, w, mode, requested, noise)
	}
	op, err := cs.NewOperator()
	if err != nil {
		return err
	}
	stream, err := cs.OpenStream(noise, op, mode)
	if err != nil {
		return err
	}
	x0, shape, err := w.Start(cs)
	if err != nil {
		return err
	}
	if err := setup.Fits(cs.Rollout.EngineBatches()[0][1], shape, setup.ByBatch); err != nil {
		return err
	}
	store := mode.Wide()
	if w.Store != "" {
		if store, err = setup.Storage(w.Store); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	modeName := cs.Rollout.ModeName(op, mode, stream)
	job := &rollout.Job{
		Engine: &rollout.Engine{
			Stepper: rollout.Stepper{Operator: op, Config: cs.Rollout, Mode: mode, Batch: batch},
			Stream:  stream, Shape: shape, Start: setup.ByRealization(x0, shape), AllowNonfinite: w.AllowNonfinite,
		},
		Path: w.Out, Record: w.Record, Store: store, Resume: w.Resume, Force: w.Force, Every: w.Checkpoint,
		Metadata: map[string]string{"made_by": "refrun " + cli.Version, "mode": modeName, "contract": graph.Contract},
		Identity: identity(cs, op, modeName, stream.Contents, store, shape, x0, w.AllowNonfinite),
	}
	out := wholeReport{Mode: modeName, Shape: []int{
		cs.Rollout.Realizations, cs.Rollout.Timesteps, shape.C, shape.H, shape.W,
	}, PrecisionRequested: requested, PrecisionUsed: mode.Precision.String(), Noise: stream.Name,
		Notes: setup.IgnoredNotes(cs)}
	return runJob(c, cs, job, &out, float64(op.MACs(shape.H, shape.W)), 8*int64(len(x0)),
		setup.NoiseNotes(cs, stream.Name))
}

// runJob runs a job and reports it: macs are those of a step, and input is what its initial condition takes.
func runJob(c *cli.Command,
	cs *rollout.Case, job *rollout.Job, out *wholeReport, macs float64, input int64, notes []string,
) error {
	p := c.Progress("rollout")
	job.Progress = p.Step
	ctx, stop := cli.Interruptible()
	began := time.Now()
	result, err := job.Run(ctx)
	p.Done()
	if cause := stop(); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	if err != nil {
		var lost *rollout.LostError
		stopped := errors.Is(err, cli.ErrInterrupted) || errors.Is(err, cli.ErrTerminated) || cli.FromOutside(err) ||
			errors.As(err, &lost) && lost.Resumable
		if stopped && job.Left() {
			err = cli.Resumable{Err: err}
		}
		return err
	}
	secs, ro := max(time.Since(began), time.Nanosecond).Seconds(), cs.Rollout // a coarse clock may not have moved
	steps := float64(ro.Timesteps - 1)
	out.Digest, out.Contract, out.Output = result.Digest, graph.Contract, job.Path
	out.Complete, out.Resumed, out.Overflow = result.Complete, result.Resumed, result.Overflow
	out.ISA, out.Threads, out.Seconds, out.PeakBytes = c.Isa, runtime.GOMAXPROCS(0), secs, cli.PeakBytes()
	out.StepsPerS, out.SampleStepsPerS = steps/secs, steps*float64(ro.Realizations)/secs
	out.GFLOPS = 2 * macs * steps * float64(ro.Realizations) / secs / 1e9
	out.Notes = slices.Concat(out.Notes, setup.OverflowNotes(result.Overflow, result.Resumed), notes)
	if result.Note != "" {
		out.Notes = append(out.Notes, cli.Clean(result.Note))
	}
	if result.Stored != result.Digest {
		out.StoredDigest, out.StoredFormat = result.Stored, result.StoredFormat.String()
	}
	if !out.Complete {
		out.Memory = &held{result.Memory, input}
	}
	if c.Json {
		return c.PrintJSON(out)
	}
	printWhole(c, out, result.StoredFormat)
	return nil
}

// axes are those of the shape: of a step graph's first state only the first two have names.
func (r *wholeReport) axes() string {
	if r.step {
		return "[M,T,...]"
	}
	return "[M,T,C,H,W]"
}

// printWhole prints the report of a rollout whose file holds states in that format.
func printWhole(c *cli.Command, out *wholeReport, stored fp16.Format) {
	if out.Complete {
		c.Printf("%s is already complete, and every byte of it verified\n", cli.Clean(out.Output))
	} else {
		c.Printf("%v states %s, mode %s, contract %s\n", out.Shape, out.axes(), out.Mode, out.Contract)
	}
	for _, n := range out.Notes {
		c.Printf("note: %s\n", n)
	}
	if !out.Complete {
		if out.Output != "" {
			c.Printf("written to %s as %s\n", cli.Clean(out.Output), stored)
		}
		if out.Resumed { // the time is that of the last steps, the rates would be of all
			c.Printf("continued from a checkpoint on %s (%s)\n", cli.Plural(out.Threads, "thread"), out.ISA)
		} else {
			c.Printf("%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
				out.SampleStepsPerS, out.GFLOPS, cli.Plural(out.Threads, "thread"), out.ISA)
		}
		c.Printf("memory: %v", out.Memory)
		if out.PeakBytes > 0 { // else the system does not say
			c.Printf("; the process at most %s", cli.Size(out.PeakBytes))
		}
		c.Printf("\n")
	}
	if out.StoredDigest != "" {
		c.Printf("digest of the %s states in the file %s\n", out.StoredFormat, out.StoredDigest)
	}
	if out.Digest != "" {
		c.Printf("digest %s\n", out.Digest)
	}
}
