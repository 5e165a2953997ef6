package bench

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

var Verb = cli.Verb{
	Name:    "bench",
	Summary: "how fast this machine computes",
	Help: `Measures the multiply-add rate of this machine in its first cache, until the best
two of 5 to 20 measurements agree to 2 %. If they do not, the machine is busy, and
the report says so. Then it times convolutions, as a fraction of this rate, and an
operator in every precision: the first application, which prepares weights, and
later ones. Inputs change between applications. GFLOP/s count the multiplications
and additions of the definition. The 3x3 kernels need fewer, so their fraction may
be above 1. The operator has 4 layers and 32 base channels, or is that of --config.

With --lines, takes one step for each line read from standard input and answers
with its seconds, so that a script can alternate with other programs.

example: refrun bench --json
example: refrun bench --config op.yaml --grid 128 --batch 5 --precision bfloat16`,
	Run: bench,
}

// benchRow is one measurement.
type benchRow struct {
	Kind      string  `json:"kind"` // conv or operator
	What      string  `json:"what"`
	Precision string  `json:"precision"`
	First     float64 `json:"first_seconds"`
	Seconds   float64 `json:"seconds"` // the median of later calls
	Calls     int     `json:"calls"`   // of the median
	processor float64 // seconds of a later call, of all processors together
	GFLOPS    float64 `json:"gflops"`
	OfPeak    float64 `json:"of_peak"`
	// SampleSteps is samples of a batch times steps, of an operator.
	SampleSteps float64 `json:"sample_steps_per_s,omitempty"`
}

// benchReport is the JSON of bench.
type benchReport struct {
	Contract string     `json:"contract"`
	CPU      string     `json:"cpu"`
	ISA      string     `json:"isa"`
	Threads  int        `json:"threads"`
	Build    string     `json:"build"`
	Peak     float64    `json:"peak_gflops"` // all threads together
	PeakOne  float64    `json:"peak_gflops_one_thread"`
	PeakHow  string     `json:"peak_how"`
	Stable   bool       `json:"peak_stable"` // or other programs use the machine
	Rows     []benchRow `json:"rows"`
}

// benchFlags are the flags of bench.
type benchFlags struct {
	config, weights     string
	dir                 string // of a case
	precision, autocast string
	arith               string
	grid, batch         int
	lines               bool
	seconds             float64
}

func bench(c *cli.Command) error {
	var f benchFlags
	c.Flags.StringVar(&f.config, "config", "",
		"YAML or JSON `file` with the operator, as of run (default one of 4 layers, 32 base channels)")
	c.Flags.StringVar(&f.weights, "weights", "", "safetensors `file` of its weights (default by weights_seed)")
	c.Flags.StringVar(&f.precision, "precision", "",
		"`arithmetic`: float64, float32, tf32, float16 or bfloat16 (default all)")
	c.Flags.StringVar(&f.autocast, "autocast", "", "`rules` of a half precision, as of run")
	setup.ArithFlag(c, &f.arith)
	c.Flags.IntVar(&f.grid, "grid", 0, "`side` of the operator's images (default the configuration's, else 64)")
	c.Flags.IntVar(&f.batch, "batch", 1, "`samples` of an application of the operator")
	c.Flags.Float64Var(&f.seconds, "seconds", 0.3, "`time` for each measurement, in seconds")
	c.Flags.BoolVar(&f.lines, "lines", false, "one step of the operator for each line of standard input")
	if err := c.Parse(0); err != nil {
		return err
	}
	switch {
	case f.grid < 0 || f.grid > 1<<14:
		return fmt.Errorf("--grid: %d: want 1 to %d", f.grid, 1<<14)
	case f.batch < 1 || f.batch > 1<<14:
		return fmt.Errorf("--batch: %d: want 1 to %d", f.batch, 1<<14)
	case !(f.seconds > 0 && f.seconds <= 3600):
		return fmt.Errorf("--seconds: %v: want more than 0, at most 3600", f.seconds)
	case f.lines && c.Json:
		return fmt.Errorf("--lines: answers one number a line: want no --json")
	}
	cs, err := f.read()
	if err != nil {
		return err
	}
	if err := setup.Fits(f.batch, f.shape(cs), "--batch or --grid"); err != nil {
		return err
	}
	for _, precision := range f.precisions() {
		if _, _, err := (setup.Arithmetic{Precision: precision, Autocast: f.autocast, Arith: f.arith}).Mode(cs); err != nil {
			return err
		}
	}
	if f.lines {
		return benchLines(c, cs, f)
	}
	r := benchReport{
		Contract: graph.Contract, CPU: asm.CPU(), ISA: c.Isa, Threads: runtime.GOMAXPROCS(0), Build: cli.Build(),
	}
	budget := time.Duration(f.seconds * float64(time.Second))
	var one, all bool
	r.PeakOne, one, r.PeakHow = peak(1, budget)
	r.Peak, all, _ = peak(r.Threads, budget)
	r.Stable = one && all
	printPeak(c, &r)
	c.Printf("\n  convolution, float32 exact  first call     later    GFLOP/s  of the rate above\n")
	for _, s := range benchConvs {
		row := s.measure(budget)
		row.OfPeak = row.GFLOPS / r.Peak
		r.Rows = append(r.Rows, row)
		c.Printf("  %-26s  %8s  %8s  %9.3g  %.2f\n", row.What, cli.Brief(row.First), cli.Brief(row.Seconds), row.GFLOPS,
			row.OfPeak)
	}
	c.Printf("\n  operator: %s\n", f.what(cs))
	c.Printf("  precision                   first call     later    GFLOP/s  of it  sample-steps/s\n")
	for _, precision := range f.precisions() {
		row, err := f.measure(cs, precision, budget)
		if err != nil {
			return err
		}
		row.OfPeak = row.GFLOPS / r.Peak
		r.Rows = append(r.Rows, row)
		c.Printf("  %-26s  %8s  %8s  %9.3g  %.2f   %.3g\n",
			row.Precision, cli.Brief(row.First), cli.Brief(row.Seconds), row.GFLOPS, row.OfPeak, row.SampleSteps)
	}
	if c.Json {
		return c.PrintJSON(r)
	}
	return nil
}

// printPeak says how fast the machine is, and whether it is all ours.
func printPeak(c *cli.Command, r *benchReport) {
	c.Printf("%s, %s, %s\n", r.CPU, r.ISA, cli.Plural(r.Threads, "thread"))
	c.Printf("multiply-adds  %.4g GFLOP/s on one thread, %.4g on all: %s\n", r.PeakOne, r.Peak, r.PeakHow)
	if !r.Stable {
		c.Printf("note: the machine is busy: no two of %d measurements of this rate agree to %.0f %%, so every "+
			"figure below may be too low\n", peakMost, 100*peakClose)
	}
}

// read returns what --config says, or the operator that bench has of its own, and
// settles the grid.
func (f *benchFlags) read() (cs *rollout.Case, err error) {
	switch {
	case f.dir != "" && (f.config != "" || f.weights != ""):
		return nil, errors.New("--case: want it without --config and --weights, which a case has itself")
	case f.dir != "":
		cs, err = rollout.OpenCase(f.dir)
	case f.config != "":
		if cs, err = files.ReadConfig(f.config); err == nil {
			err = (&setup.Flags{Weights: f.weights}).Override(cs)
		}
	case f.weights != "":
		return nil, fmt.Errorf("--weights: want --config as well")
	default:
		cs, err = files.ParseConfig("bench", []byte(`{"weights_seed": 0, "operator": {"num_layers": 4, "base_channels": 32},
			"rollout": {"num_timesteps": 2, "num_realizations": 1}}`))
	}
	if err == nil && f.grid == 0 {
		f.grid = cmp.Or(cs.Operator.GridSize, 64)
	}
	return cs, err
}

// precisions are the ones to measure.
func (f *benchFlags) precisions() []string {
	if f.precision != "" {
		return []string{f.precision}
	}
	if f.arith != "" {
		return []string{"float32"}
	}
	return []string{"float32", "float32:fast", "tf32", "float16", "bfloat16", "float64"}
}

// shape is that of a sample.
func (f *benchFlags) shape(cs *rollout.Case) rollout.Shape {
	return rollout.Shape{C: cs.Operator.InputChannels, H: f.grid, W: f.grid}
}

func (f *benchFlags) what(cs *rollout.Case) string {
	return fmt.Sprintf("%s; grid %d, batch %d", setup.OperatorText(cs.Operator), f.grid, f.batch)
}

// stepper returns a function that takes one step of the operator, each from
// another state than the last. The noise is left out.
func (f *benchFlags) stepper(cs *rollout.Case, precision string) (
	step func() error, mode graph.Mode, flop float64, err error,
) {
	if mode, _, err = (setup.Arithmetic{Precision: precision, Autocast: f.autocast, Arith: f.arith}).Mode(cs); err != nil {
		return nil, mode, 0, err
	}
	op, err := cs.NewOperator()
	if err != nil {
		return nil, mode, 0, err
	}
	x := benchInputs(f.batch, cs.Operator.InputChannels, f.grid)
	var p *operator.Compiled
	i := 0
	return func() error {
		if i++; p == nil { // the first application compiles
			p = op.Compile(mode, f.batch, f.grid, f.grid)
		}
		return p.Forward(p.Result(), x[i%len(x)], nil, noise.Time{})
	}, mode, 2 * float64(op.MACs(f.grid, f.grid)) * float64(f.batch), nil
}

func (f *benchFlags) measure(cs *rollout.Case, precision string, budget time.Duration) (benchRow, error) {
	step, mode, flop, err := f.stepper(cs, precision)
	if err != nil {
		return benchRow{}, err
	}
	row := benchRow{Kind: "operator", What: f.what(cs), Precision: mode.String()}
	row.time(flop, budget, func() {
		if e := step(); err == nil {
			err = e
		}
	})
	row.SampleSteps = float64(f.batch) / row.Seconds
	return row, err
}

// benchConv is a convolution k x k of stride 1, from in to out channels.
type benchConv struct{ k, in, out, side int }

var benchConvs = []benchConv{{3, 3, 32, 64}, {3, 16, 16, 64}, {3, 32, 32, 64}, {3, 64, 64, 64}, {3, 128, 128, 64},
	{1, 64, 128, 64}, {5, 32, 32, 64}}

func (s benchConv) measure(budget time.Duration) benchRow {
	x := benchInputs(1, s.in, s.side)
	k := conv.NewKernel(benchNormal(9, s.out, s.in, s.k, s.k), nil)
	y := tensor.New(fp16.Float32, 1, s.out, s.side, s.side)
	i := 0
	row := benchRow{Kind: "conv", What: fmt.Sprintf("%dx%d, %d to %d at %dx%d", s.k, s.k, s.in, s.out, s.side, s.side),
		Precision: "float32"}
	row.time(2*float64(s.k*s.k*s.in*s.out)*float64(s.side*s.side), budget, func() {
		conv.Forward(y, x[i%len(x)], k, conv.Square(1, s.k/2, conv.Zeros))
		i++
	})
	return row
}

// time calls f for about the budget, at least three times, and fills in what
// that took: the first call, and the median of those after the second.
func (r *benchRow) time(flop float64, budget time.Duration, f func()) {
	var later []time.Duration
	began := time.Now()
	f()
	r.First = max(time.Since(began), time.Nanosecond).Seconds()
	f()
	spent := cli.ProcessorTime()
	for began = time.Now(); len(later) < 1 || time.Since(began) < budget; {
		now := time.Now()
		f()
		later = append(later, max(time.Since(now), time.Nanosecond)) // a coarse clock may not have moved
	}
	r.processor = (cli.ProcessorTime() - spent).Seconds() / float64(len(later))
	r.Seconds, r.Calls = middle(later).Seconds(), len(later)
	r.GFLOPS = flop / r.Seconds / 1e9
}

func benchInputs(n, c, side int) [3]*tensor.Tensor {
	return [3]*tensor.Tensor{
		benchNormal(1, n, c, side, side), benchNormal(2, n, c, side, side), benchNormal(3, n, c, side, side),
	}
}

// benchNormal returns a tensor of normal numbers, the same for a seed.
func benchNormal(seed uint64, n, c, h, w int) *tensor.Tensor {
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
	if err != nil {
		panic("bench: " + err.Error())
	}
	g.Seed(seed)
	x := tensor.New(fp16.Float32, n, c, h, w)
	g.Normal(x.Data)
	return x
}

// middle returns the median, of an even number the earlier of two.
func middle(v []time.Duration) time.Duration { return slices.Sorted(slices.Values(v))[(len(v)-1)/2] }
