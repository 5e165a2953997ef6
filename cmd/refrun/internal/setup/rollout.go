package setup

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/rollout"
)

// Flags are the flags of run that concern whole rollouts.
type Flags struct {
	Config, Weights, X0, Out, Record, Store, Seed string
	Steps, Realizations                           int
	Resume, Force, AllowNonfinite                 bool
	Checkpoint                                    time.Duration
}

func Declare(c *cli.Command) *Flags {
	w := new(Flags)
	f := c.Flags
	f.StringVar(&w.Config, "config", "", "`file` in YAML or JSON with the fields of a case.json, instead of --case")
	f.StringVar(&w.Weights, "weights", "",
		"safetensors `file` of the weights (default the case's, or drawn from weights_seed)")
	f.StringVar(&w.X0, "x0", "",
		"initial condition: a `file` with [C,H,W], [M,C,H,W] or trajectories [M,T,C,H,W], whose first states are taken; "+
			"zeros, or white:SEED (default the case's)")
	f.StringVar(&w.Out, "o", "", "write the trajectory to this `file`: .safetensors, .npy, .npz or .h5")
	f.StringVar(&w.Record, "record", "", "write every random draw to this tape, a safetensors `file`; needs -o")
	f.StringVar(&w.Store, "store", "",
		"`format` of the states in the file: float64, float32, float16 or bfloat16 (default that of the states)")
	f.StringVar(&w.Seed, "seed", "", "base `seed` of the noise (default the case's)")
	f.IntVar(&w.Steps, "steps", 0, "`steps` to take, that is T-1 (default the case's)")
	f.IntVar(&w.Realizations, "realizations", 0, "`number` of realizations (default the case's)")
	f.BoolVar(&w.Resume, "resume", false, "continue an unfinished run to the same bytes; a complete one is verified")
	f.BoolVar(&w.Force, "force", false, "overwrite existing files of -o and --record")
	f.BoolVar(&w.AllowNonfinite, "allow-nonfinite", false, "go on after a NaN or an infinity")
	f.DurationVar(&w.Checkpoint, "checkpoint", 5*time.Second, "`time` between checkpoints of a run that writes a file")
	return w
}

// Given refuses flags that say nothing: a number of 0, which is that of a flag that is
// not given, and what is about a file without one.
func (w *Flags) Given(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		switch v := f.Value.String(); f.Name {
		case "steps", "horizon", "realizations", "operator-seeds", "batch":
			if v == "0" {
				err = fmt.Errorf("--%s: 0: want 1 or more", f.Name)
			}
		case "record", "resume", "store", "force", "checkpoint":
			if w.Out == "" && v != "false" && v != "" {
				err = fmt.Errorf("--%s: want -o as well", f.Name)
			}
		}
	})
	if err == nil && w.Checkpoint < 0 {
		err = fmt.Errorf("--checkpoint: %v: want 0 (after every step) or more", w.Checkpoint)
	}
	return err
}

// What a run may ask for before it computes anything: realizations, of each of
// which a hash is kept, and elements of the states of one engine batch (16 GiB).
const (
	mostRealizations = 1 << 20
	mostElements     = 1 << 31

	ByBatch = "engine_batch or --realizations"
)

// Fits reports states of n realizations that are larger than any run could step, or than this
// machine can: a step reads a state and the one before, and makes the next. What makes them fewer
// the error says, too.
func Fits(n int, s rollout.Shape, fewer string) error {
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

// Override applies the flags that change what the case says.
func (w *Flags) Override(cs *rollout.Case) error {
	r := &cs.Rollout
	switch {
	case w.Steps < 0 || w.Steps >= rollout.MostTimesteps:
		return fmt.Errorf("--steps: %d: want 1 to %d", w.Steps, rollout.MostTimesteps-1)
	case w.Steps > 0:
		r.Timesteps = w.Steps + 1
	}
	switch {
	case w.Realizations < 0:
		return fmt.Errorf("--realizations: %d: want 1 or more", w.Realizations)
	case w.Realizations > 0:
		r.Realizations = w.Realizations
	}
	if r.Realizations > mostRealizations {
		return fmt.Errorf("num_realizations: %d: want at most %d in one run", r.Realizations, mostRealizations)
	}
	if w.Seed != "" {
		s, err := Seed(w.Seed)
		if err != nil {
			return fmt.Errorf("--seed: %w", err)
		}
		r.BaseSeed = s
	}
	if w.Weights != "" {
		f, err := files.OpenFile(w.Weights)
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

// Seed reads 64 bits, negative numbers in two's complement.
func Seed(s string) (uint64, error) {
	if plain, ok := cli.ReadCount(s); ok { // 1e6 is one
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

// Storage returns the format of that name, if states can be stored in it.
func Storage(name string) (fp16.Format, error) {
	f, err := fp16.ParseFormat(name)
	if err != nil || f == fp16.TF32 {
		return 0, fmt.Errorf("%q: want float64, float32, float16 or bfloat16", name)
	}
	return f, nil
}

// Start returns the initial condition, [C,H,W] or [M,C,H,W], and the size of a
// state.
func (w *Flags) Start(cs *rollout.Case) ([]float64, rollout.Shape, error) {
	var shape rollout.Shape
	var data []float64
	var err error
	channels, side := cs.Operator.InputChannels, cs.Operator.GridSize
	rest, white := strings.CutPrefix(w.X0, "white:")
	switch {
	case w.X0 == "white":
		err = errors.New("--x0: white: no seed: want white:SEED, such as white:7")
	case w.X0 == "zeros" || white:
		if side == 0 {
			return nil, shape,
				errors.New("operator.grid_size: missing: want the side of the images, to make an initial condition")
		}
		shape = rollout.Shape{C: channels, H: side, W: side}
		if err := Fits(1, shape, "operator.grid_size"); err != nil {
			return nil, shape, err
		}
		data = make([]float64, shape.Len())
		if white {
			s, err := Seed(rest)
			if err != nil {
				return nil, shape, fmt.Errorf("--x0: white:%w", err)
			}
			if err := rollout.White(s, shape, data); err != nil {
				return nil, shape, err
			}
		}
	case w.X0 != "":
		data, shape, err = readStart(w.X0, cs)
	case cs.Trajectory == nil:
		err = errors.New(
			"--x0: missing: want an initial condition (a file, zeros or white:SEED), since there is no recorded one",
		)
	default:
		data, shape, err = cs.ReadStart()
	}
	return data, shape, err
}

// ByRealization returns the initial condition of each realization: its own, or
// the one there is.
func ByRealization(x0 []float64, shape rollout.Shape) func(m int) []float64 {
	n := shape.Len()
	return func(m int) []float64 {
		if len(x0) == n {
			return x0
		}
		return x0[m*n : (m+1)*n]
	}
}

func readStart(arg string, cs *rollout.Case) ([]float64, rollout.Shape, error) {
	t, err := files.OpenTensor(arg)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--x0: %w, or zeros or white:SEED", err)
	}
	if err != nil {
		return nil, rollout.Shape{}, err
	}
	defer t.Close()
	of, steps := t.Shape, 1
	if len(of) == 5 && of[1] > 0 {
		of, steps = slices.Delete(slices.Clone(of), 1, 2), of[1]
	}
	shape, err := cs.StartShape(t.Name, of)
	if err != nil && len(of) < len(t.Shape) {
		err = fmt.Errorf("first states of trajectories: %w", err)
	}
	if err != nil {
		return nil, shape, err
	}
	if err := Fits(cs.Rollout.EngineBatches()[0][1], shape, ByBatch); err != nil {
		return nil, shape, err
	}
	if most := fault.MostUnpacked(t.Size); int64(t.Len()*t.Format.Bytes()) > most { // it is held in memory
		return nil, shape, fmt.Errorf("%s: shape %v: want at most %d bytes of a compressed file of %d",
			t.Name, t.Shape, most, t.Size)
	}
	data, n := make([]float64, t.Len()/steps), shape.Len()
	for lo := 0; lo < len(data) && err == nil; lo += n {
		err = t.From(data[lo:lo+n], lo*steps)
	}
	return data, shape, err
}

// overrideStep refuses what a step graph has in its case alone.
func (w *Flags) overrideStep(cs *rollout.Case) error {
	for _, f := range [][2]string{{"weights", w.Weights}, {"x0", w.X0}, {"seed", w.Seed}, {"record", w.Record}} {
		if f[1] != "" {
			return fmt.Errorf("--%s: %s: a step graph has its weights, initial condition and draws in its case: "+
				"want no --%[1]s", f[0], f[1])
		}
	}
	return cs.FitsStep()
}
