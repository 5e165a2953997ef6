package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/rollout"
)

// wholeFlags are the flags of run that concern whole rollouts.
type wholeFlags struct {
	config, weights, x0, out, record, store, seed string
	steps, realizations                           int
	resume, force, allowNonfinite                 bool
	checkpoint                                    time.Duration
}

func (c *command) wholeFlags() *wholeFlags {
	w := new(wholeFlags)
	f := c.flags
	f.StringVar(&w.config, "config", "", "`file` in YAML or JSON with the fields of a case.json, instead of --case")
	f.StringVar(&w.weights, "weights", "",
		"safetensors `file` of the weights (default the case's, or drawn from weights_seed)")
	f.StringVar(&w.x0, "x0", "",
		"initial condition: a `file` with [C,H,W], [M,C,H,W] or trajectories [M,T,C,H,W], whose first states are taken; "+
			"zeros, or white:SEED (default the case's)")
	f.StringVar(&w.out, "o", "", "write the trajectory to this `file`: .safetensors, .npy, .npz or .h5")
	f.StringVar(&w.record, "record", "", "write every random draw to this tape, a safetensors `file`; needs -o")
	f.StringVar(&w.store, "store", "",
		"`format` of the states in the file: float64, float32, float16 or bfloat16 (default that of the states)")
	f.StringVar(&w.seed, "seed", "", "base `seed` of the noise (default the case's)")
	f.IntVar(&w.steps, "steps", 0, "`steps` to take, that is T-1 (default the case's)")
	f.IntVar(&w.realizations, "realizations", 0, "`number` of realizations (default the case's)")
	f.BoolVar(&w.resume, "resume", false, "continue an unfinished run to the same bytes; a complete one is verified")
	f.BoolVar(&w.force, "force", false, "overwrite existing files of -o and --record")
	f.BoolVar(&w.allowNonfinite, "allow-nonfinite", false, "go on after a NaN or an infinity")
	f.DurationVar(&w.checkpoint, "checkpoint", 5*time.Second, "`time` between checkpoints of a run that writes a file")
	return w
}

// given refuses flags that say nothing: a number of 0, which is that of a flag that is
// not given, and what is about a file without one.
func (w *wholeFlags) given(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		switch v := f.Value.String(); f.Name {
		case "steps", "horizon", "realizations", "operator-seeds", "batch":
			if v == "0" {
				err = fmt.Errorf("--%s: 0: want 1 or more", f.Name)
			}
		case "record", "resume", "store", "force", "checkpoint":
			if w.out == "" && v != "false" && v != "" {
				err = fmt.Errorf("--%s: want -o as well", f.Name)
			}
		}
	})
	if err == nil && w.checkpoint < 0 {
		err = fmt.Errorf("--checkpoint: %v: want 0 (after every step) or more", w.checkpoint)
	}
	return err
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
func (c *command) whole(cs *rollout.Case, w *wholeFlags, want arithmetic, noise string, batch int) error {
	if err := w.override(cs); err != nil {
		return err
	}
	mode, requested, err := want.mode(cs)
	if err != nil {
		return err
	}
	if cs.Step != nil {
		return c.wholeStep(cs, w, mode, requested, noise)
	}
	op, err := cs.NewOperator()
	if err != nil {
		return err
	}
	stream, err := cs.OpenStream(noise, op, mode)
	if err != nil {
		return err
	}
	x0, shape, err := w.start(cs)
	if err != nil {
		return err
	}
	if err := fits(cs.Rollout.EngineBatches()[0][1], shape, byBatch); err != nil {
		return err
	}
	store := mode.Wide()
	if w.store != "" {
		if store, err = storage(w.store); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	modeName := cs.Rollout.ModeName(op, mode, stream)
	job := &rollout.Job{
		Engine: &rollout.Engine{
			Stepper: rollout.Stepper{Operator: op, Config: cs.Rollout, Mode: mode, Batch: batch},
			Stream:  stream, Shape: shape, Start: byRealization(x0, shape), AllowNonfinite: w.allowNonfinite,
		},
		Path: w.out, Record: w.record, Store: store, Resume: w.resume, Force: w.force, Every: w.checkpoint,
		Metadata: map[string]string{"made_by": "refrun " + version, "mode": modeName, "contract": graph.Contract},
		Identity: identity(cs, op, modeName, stream.Contents, store, shape, x0, w.allowNonfinite),
	}
	out := wholeReport{Mode: modeName, Shape: []int{
		cs.Rollout.Realizations, cs.Rollout.Timesteps, shape.C, shape.H, shape.W,
	}, PrecisionRequested: requested, PrecisionUsed: mode.Precision.String(), Noise: stream.Name,
		Notes: ignoredNotes(cs)}
	return c.job(cs, job, &out, float64(op.MACs(shape.H, shape.W)), 8*int64(len(x0)), noiseNotes(cs, stream.Name))
}

// job runs a job and reports it: macs are those of a step, and input is what its initial condition takes.
func (c *command) job(
	cs *rollout.Case, job *rollout.Job, out *wholeReport, macs float64, input int64, notes []string,
) error {
	p := c.progress("rollout")
	job.Progress = p.step
	ctx, stop := interruptible()
	began := time.Now()
	result, err := job.Run(ctx)
	p.done()
	if cause := stop(); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	if err != nil {
		var lost *rollout.LostError
		stopped := errors.Is(err, errInterrupted) || errors.Is(err, errTerminated) || fromOutside(err) ||
			errors.As(err, &lost) && lost.Resumable
		if stopped && job.Left() {
			err = resumable{err}
		}
		return err
	}
	secs, ro := max(time.Since(began), time.Nanosecond).Seconds(), cs.Rollout // a coarse clock may not have moved
	steps := float64(ro.Timesteps - 1)
	out.Digest, out.Contract, out.Output = result.Digest, graph.Contract, job.Path
	out.Complete, out.Resumed, out.Overflow = result.Complete, result.Resumed, result.Overflow
	out.ISA, out.Threads, out.Seconds, out.PeakBytes = c.isa, runtime.GOMAXPROCS(0), secs, peakBytes()
	out.StepsPerS, out.SampleStepsPerS = steps/secs, steps*float64(ro.Realizations)/secs
	out.GFLOPS = 2 * macs * steps * float64(ro.Realizations) / secs / 1e9
	out.Notes = slices.Concat(out.Notes, overflowNotes(result.Overflow, result.Resumed), notes)
	if result.Note != "" {
		out.Notes = append(out.Notes, clean(result.Note))
	}
	if result.Stored != result.Digest {
		out.StoredDigest, out.StoredFormat = result.Stored, result.StoredFormat.String()
	}
	if !out.Complete {
		out.Memory = &held{result.Memory, input}
	}
	if c.json {
		return c.printJSON(out)
	}
	c.printWhole(out, result.StoredFormat)
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
func (c *command) printWhole(out *wholeReport, stored fp16.Format) {
	if out.Complete {
		c.printf("%s is already complete, and every byte of it verified\n", clean(out.Output))
	} else {
		c.printf("%v states %s, mode %s, contract %s\n", out.Shape, out.axes(), out.Mode, out.Contract)
	}
	for _, n := range out.Notes {
		c.printf("note: %s\n", n)
	}
	if !out.Complete {
		if out.Output != "" {
			c.printf("written to %s as %s\n", clean(out.Output), stored)
		}
		if out.Resumed { // the time is that of the last steps, the rates would be of all
			c.printf("continued from a checkpoint on %s (%s)\n", plural(out.Threads, "thread"), out.ISA)
		} else {
			c.printf("%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
				out.SampleStepsPerS, out.GFLOPS, plural(out.Threads, "thread"), out.ISA)
		}
		c.printf("memory: %v", out.Memory)
		if out.PeakBytes > 0 { // else the system does not say
			c.printf("; the process at most %s", size(out.PeakBytes))
		}
		c.printf("\n")
	}
	if out.StoredDigest != "" {
		c.printf("digest of the %s states in the file %s\n", out.StoredFormat, out.StoredDigest)
	}
	if out.Digest != "" {
		c.printf("digest %s\n", out.Digest)
	}
}

// What a run may ask for before it computes anything: realizations, of each of
// which a hash is kept, and elements of the states of one engine batch (16 GiB).
const (
	mostRealizations = 1 << 20
	mostElements     = 1 << 31

	byBatch = "engine_batch or --realizations"
)

// fits reports states of n realizations that are larger than any run could step, or than this
// machine can: a step reads a state and the one before, and makes the next. What makes them fewer
// the error says, too.
func fits(n int, s rollout.Shape, fewer string) error {
	e := float64(n) * float64(s.C) * float64(s.H) * float64(s.W)
	what := fmt.Sprintf("states of an engine batch: %d of %dx%dx%d numbers", n, s.C, s.H, s.W)
	if e > mostElements {
		return fmt.Errorf("%s: want at most 2^31 numbers; %s makes them fewer", what, fewer)
	}
	if err := memory.Fits(3 * 8 * int64(e)); err != nil {
		return fmt.Errorf("%s: a step %w; %s makes them fewer", what, err, fewer)
	}
	return nil
}

// override applies the flags that change what the case says.
func (w *wholeFlags) override(cs *rollout.Case) error {
	r := &cs.Rollout
	switch {
	case w.steps < 0 || w.steps >= rollout.MostTimesteps:
		return fmt.Errorf("--steps: %d: want 1 to %d", w.steps, rollout.MostTimesteps-1)
	case w.steps > 0:
		r.Timesteps = w.steps + 1
	}
	switch {
	case w.realizations < 0:
		return fmt.Errorf("--realizations: %d: want 1 or more", w.realizations)
	case w.realizations > 0:
		r.Realizations = w.realizations
	}
	if r.Realizations > mostRealizations {
		return fmt.Errorf("num_realizations: %d: want at most %d in one run", r.Realizations, mostRealizations)
	}
	if w.seed != "" {
		s, err := seed(w.seed)
		if err != nil {
			return fmt.Errorf("--seed: %w", err)
		}
		r.BaseSeed = s
	}
	if w.weights != "" {
		f, err := openFile(w.weights)
		if err != nil {
			return err
		}
		cs.Weights = f
	}
	if cs.Step != nil {
		return w.overrideStep(cs)
	}
	if cs.Weights == nil && cs.WeightsSeed == nil {
		return errors.New("--weights: missing: want a file, or weights_seed in the configuration")
	}
	return nil
}

// seed reads 64 bits, negative numbers in two's complement.
func seed(s string) (uint64, error) {
	if plain, ok := readCount(s); ok { // 1e6 is one
		s = plain
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return uint64(i), nil
	}
	return 0, fmt.Errorf("%q: want an integer of 64 bits", s)
}

// storage returns the format of that name, if states can be stored in it.
func storage(name string) (fp16.Format, error) {
	f, err := fp16.ParseFormat(name)
	if err != nil || f == fp16.TF32 {
		return 0, fmt.Errorf("%q: want float64, float32, float16 or bfloat16", name)
	}
	return f, nil
}

// start returns the initial condition, [C,H,W] or [M,C,H,W], and the size of a
// state.
func (w *wholeFlags) start(cs *rollout.Case) ([]float64, rollout.Shape, error) {
	var shape rollout.Shape
	var data []float64
	var err error
	channels, side := cs.Operator.InputChannels, cs.Operator.GridSize
	rest, white := strings.CutPrefix(w.x0, "white:")
	switch {
	case w.x0 == "white":
		err = errors.New("--x0: white: no seed: want white:SEED, such as white:7")
	case w.x0 == "zeros" || white:
		if side == 0 {
			return nil, shape,
				errors.New("operator.grid_size: missing: want the side of the images, to make an initial condition")
		}
		shape = rollout.Shape{C: channels, H: side, W: side}
		if err := fits(1, shape, "operator.grid_size"); err != nil {
			return nil, shape, err
		}
		data = make([]float64, shape.Len())
		if white {
			s, err := seed(rest)
			if err != nil {
				return nil, shape, fmt.Errorf("--x0: white:%w", err)
			}
			if err := rollout.White(s, shape, data); err != nil {
				return nil, shape, err
			}
		}
	case w.x0 != "":
		data, shape, err = readStart(w.x0, cs)
	case cs.Trajectory == nil:
		err = errors.New(
			"--x0: missing: want an initial condition (a file, zeros or white:SEED), since there is no recorded one",
		)
	default:
		data, shape, err = cs.ReadStart()
	}
	return data, shape, err
}

// byRealization returns the initial condition of each realization: its own, or
// the one there is.
func byRealization(x0 []float64, shape rollout.Shape) func(m int) []float64 {
	n := shape.Len()
	return func(m int) []float64 {
		if len(x0) == n {
			return x0
		}
		return x0[m*n : (m+1)*n]
	}
}

func readStart(arg string, cs *rollout.Case) ([]float64, rollout.Shape, error) {
	t, err := openTensor(arg)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--x0: %w, or zeros or white:SEED", err)
	}
	if err != nil {
		return nil, rollout.Shape{}, err
	}
	defer t.close()
	of, steps := t.shape, 1
	if len(of) == 5 && of[1] > 0 {
		of, steps = slices.Delete(slices.Clone(of), 1, 2), of[1]
	}
	shape, err := cs.StartShape(t.name, of)
	if err != nil && len(of) < len(t.shape) {
		err = fmt.Errorf("first states of trajectories: %w", err)
	}
	if err != nil {
		return nil, shape, err
	}
	if err := fits(cs.Rollout.EngineBatches()[0][1], shape, byBatch); err != nil {
		return nil, shape, err
	}
	if most := fault.MostUnpacked(t.size); int64(t.len()*t.format.Bytes()) > most { // it is held in memory
		return nil, shape, fmt.Errorf("%s: shape %v: want at most %d bytes of a compressed file of %d",
			t.name, t.shape, most, t.size)
	}
	data, n := make([]float64, t.len()/steps), shape.Len()
	for lo := 0; lo < len(data) && err == nil; lo += n {
		err = t.read(data[lo:lo+n], lo*steps)
	}
	return data, shape, err
}

// interruptible returns a context that ends on Ctrl-C or SIGTERM, and a
// function that lets go of the signals and returns the error of the one that
// came, if any.
func interruptible() (context.Context, func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	came := make(chan error, 1)
	go func() {
		s, ok := <-signals
		if !ok {
			came <- nil
			return
		}
		err := errInterrupted
		if s == syscall.SIGTERM {
			err = errTerminated
		}
		came <- err
		cancel()
		// A second signal means now.
		if _, ok := <-signals; ok {
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() error {
		signal.Stop(signals)
		close(signals)
		cancel()
		return <-came
	}
}

var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("terminated")
)
