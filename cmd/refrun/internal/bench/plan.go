package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/rollout"
)

var Plan = cli.Verb{
	Name:    "plan",
	Summary: "how an operator is compiled, and how long a dataset takes",
	Help: `Compiles an operator for images of one size, and prints the plan: the kernel of each
operation, the operations that share a pass over memory, and their bytes,
multiplications and additions. Then it times the plan, beside the path without one,
and prints after how many steps compiling pays. --operators asks how long a dataset
of that many operators takes, each of them compiled once, for the given steps and
realizations. Noise comes from the counter stream. The time does not include writing
results. The operator is that of --config or --case, or has 4 layers and 32 base
channels. With --onnx or --graph, compiles a network for the inputs given, or for
inputs of ones.

example: refrun plan --config op.yaml --grid 128 --precision float16 --operators 1000 --steps 256 --json`,
	Run: plan,
}

// planReport is the JSON of plan.
type planReport struct {
	Contract string `json:"contract"`
	CPU      string `json:"cpu"`
	ISA      string `json:"isa"`
	Threads  int    `json:"threads"`
	Mode     string `json:"mode"`
	What     string `json:"what"`
	Compiled bool   `json:"compiled"`
	Why      string `json:"why_not,omitempty"`

	Kernels []graphplan.Node `json:"kernels"` // of every operation, in order
	Passes  int              `json:"passes"`
	FLOPs   int64            `json:"flops"` // of convolutions, in one application
	Bytes   int64            `json:"bytes"` // of images read and written, in one application
	Arena   int64            `json:"arena_bytes"`
	Weights int64            `json:"weight_bytes"` // parameters, and their copies in the order of the kernels

	Build    float64 `json:"build_seconds"`
	First    float64 `json:"first_seconds"`
	Seconds  float64 `json:"step_seconds"` // the median of later applications
	Calls    int     `json:"calls"`        // of the median
	CPUTime  float64 `json:"cpu_seconds"`  // processor time of one of these, on average; 0 if it is not known
	GFLOPS   float64 `json:"gflops"`
	General  float64 `json:"general_seconds"`  // a step that is not compiled
	PaysFrom float64 `json:"break_even_steps"` // after which compiling has paid, -1 for never

	Dataset *planDataset `json:"dataset,omitempty"`
}

// planDataset is the time that a dataset takes.
type planDataset struct {
	Operators    int     `json:"operators"`
	Steps        int     `json:"steps"`
	Realizations int     `json:"realizations"`
	PerOperator  float64 `json:"seconds_per_operator"`
	Seconds      float64 `json:"seconds"`
}

func plan(c *cli.Command) error {
	var f benchFlags
	d := planDataset{}
	c.Flags.StringVar(&f.config, "config", "",
		"YAML or JSON `file` with the operator, as of run (default one of 4 layers, 32 base channels)")
	c.Flags.StringVar(&f.dir, "case", "", "case `folder` with the operator, in place of --config")
	c.Flags.StringVar(&f.weights, "weights", "", "safetensors `file` of its weights (default by weights_seed)")
	c.Flags.StringVar(&f.precision, "precision", "float32", "`arithmetic`: float64, float32, tf32, float16 or bfloat16")
	c.Flags.StringVar(&f.autocast, "autocast", "", "`rules` of a half precision, as of run")
	setup.ArithFlag(c, &f.arith)
	c.Flags.IntVar(&f.grid, "grid", 0, "`side` of the operator's images (default the configuration's, else 64)")
	c.Flags.IntVar(&f.batch, "batch", 1, "`realizations` of an application of the operator")
	c.Flags.IntVar(&d.Operators, "operators", 0, "`number` of operators of a dataset (default no dataset)")
	c.Flags.IntVar(&d.Steps, "steps", 256, "`steps` of each rollout of the dataset")
	c.Flags.IntVar(&d.Realizations, "realizations", 1, "`rollouts` of each operator of the dataset")
	c.Flags.Float64Var(&f.seconds, "seconds", 0.5, "`time` to measure for, in seconds")
	m := model.Declare(c)
	if err := c.Parse(0); err != nil {
		return err
	}
	if err := valid(&f, &d); err != nil {
		return err
	}
	if m.Given() {
		r, err := modelPlan(c, m, &f)
		if err != nil {
			return err
		}
		return showPlan(c, r)
	}
	if len(m.Inputs) > 0 {
		return errors.New("--input: want --onnx or --graph as well")
	}
	cs, err := f.read()
	if err != nil {
		return err
	}
	if err := setup.Fits(f.batch, f.shape(cs), "--batch or --grid"); err != nil {
		return err
	}
	r, err := measurePlan(cs, &f)
	if err != nil {
		return err
	}
	if d.Operators > 0 {
		applications := float64(d.Steps) * math.Ceil(float64(d.Realizations)/float64(f.batch))
		d.PerOperator = r.Build + r.First + (applications-1)*r.Seconds
		d.Seconds = float64(d.Operators) * d.PerOperator
		r.Dataset = &d
	}
	return showPlan(c, r)
}

// valid says which flag of a plan is out of range.
func valid(f *benchFlags, d *planDataset) error {
	const most = 1 << 30
	switch {
	case f.grid < 0 || f.grid > 1<<14:
		return fmt.Errorf("--grid: %d: want 1 to %d", f.grid, 1<<14)
	case f.batch < 1 || f.batch > 1<<14:
		return fmt.Errorf("--batch: %d: want 1 to %d", f.batch, 1<<14)
	case d.Operators < 0 || d.Operators > most:
		return fmt.Errorf("--operators: %d: want 1 to %d", d.Operators, most)
	case d.Steps < 1 || d.Steps > most:
		return fmt.Errorf("--steps: %d: want 1 to %d", d.Steps, most)
	case d.Realizations < 1 || d.Realizations > most:
		return fmt.Errorf("--realizations: %d: want 1 to %d", d.Realizations, most)
	case !(f.seconds > 0 && f.seconds <= 3600):
		return fmt.Errorf("--seconds: %v: want more than 0, at most 3600", f.seconds)
	}
	return nil
}

// showPlan adds the machine to a report, and prints it.
func showPlan(c *cli.Command, r *planReport) error {
	r.Contract, r.CPU, r.ISA, r.Threads = graph.Contract, asm.CPU(), c.Isa, runtime.GOMAXPROCS(0)
	if c.Json {
		return c.PrintJSON(r)
	}
	printPlan(c, r)
	return nil
}

// measurePlan compiles the operator, steps it, and says how.
func measurePlan(cs *rollout.Case, f *benchFlags) (*planReport, error) {
	mode, _, err := (setup.Arithmetic{Precision: f.precision, Autocast: f.autocast, Arith: f.arith}).Mode(cs)
	if err != nil {
		return nil, err
	}
	op, err := cs.NewOperator()
	if err != nil {
		return nil, err
	}
	x := benchInputs(f.batch, cs.Operator.InputChannels, f.grid)
	for _, x := range x {
		x.Format = mode.Wide()
	}
	p := op.Compile(mode, f.batch, f.grid, f.grid)
	if err := p.Refused(); err != nil {
		return nil, err
	}
	r := &planReport{Mode: mode.String(), What: f.what(cs), Kernels: append([]graphplan.Node{}, p.Nodes()...),
		FLOPs: p.FLOPs(), Build: p.Build().Seconds()}
	r.Compiled, r.Why = p.Compiled()
	for _, n := range p.Nodes() {
		r.Passes = max(r.Passes, n.Pass)
		r.Bytes += n.Bytes
	}
	t := 0
	draws := func() noise.Draws {
		if !op.HasNoise() {
			return nil
		}
		t++
		d, e := noise.Counter{Seed: 1}.At(t, 0, f.batch)
		err = cmp.Or(err, e)
		return d
	}
	row := benchRow{}
	row.time(float64(r.FLOPs), time.Duration(f.seconds*float64(time.Second)), func() {
		err = cmp.Or(p.Forward(p.Result(), x[t%len(x)], draws(), noise.Time{}), err)
	})
	r.First, r.Seconds, r.Calls, r.CPUTime, r.GFLOPS = row.First, row.Seconds, row.Calls, row.processor, row.GFLOPS
	r.Arena, r.Weights = p.Arena(), op.Bytes()
	general := benchRow{}
	general.time(float64(r.FLOPs), 1, func() {
		_, e := op.Forward(&operator.Pass{Mode: mode, Draws: draws()}, x[t%len(x)])
		err = cmp.Or(err, e)
	})
	r.General, r.PaysFrom = general.Seconds, -1
	if saved := r.General - r.Seconds; r.Compiled && saved > 0 {
		r.PaysFrom = math.Ceil(r.Build / saved)
	}
	return r, err
}

func printPlan(c *cli.Command, r *planReport) {
	c.Printf("%s, %s, %s\n%s\nmode %s\n", r.CPU, r.ISA, cli.Plural(r.Threads, "thread"), r.What, r.Mode)
	if !r.Compiled {
		c.Printf("not compiled: %s\n", r.Why)
	} else {
		c.Printf("\n  pass  %-48s %9s  %10s\n        kernel\n", "operation", "GFLOP", "memory")
		for _, n := range r.Kernels {
			flops, bytes := "", ""
			if n.FLOPs > 0 {
				flops = fmt.Sprintf("%.3g", float64(n.FLOPs)/1e9)
			}
			if n.Bytes > 0 {
				bytes = cli.Size(n.Bytes)
			}
			c.Printf("  %4d  %-48s %9s  %10s\n        %s, %s\n", n.Pass, n.Name, flops, bytes, n.Op, n.Kernel)
		}
		c.Printf("\n%s, %s read and written; images and draws take %s\n",
			fmt.Sprintf("%d passes", r.Passes), cli.Size(r.Bytes), cli.Size(r.Arena))
	}
	c.Printf("weights take %s, in the order of the kernels too\n", cli.Size(r.Weights))
	if r.Compiled {
		c.Printf("compiled in %s; ", cli.Brief(r.Build))
	}
	c.Printf("a step takes %s (the first one %s), %.3g GFLOP/s", cli.Brief(r.Seconds), cli.Brief(r.First), r.GFLOPS)
	if r.Compiled {
		c.Printf("; not compiled %s", cli.Brief(r.General))
		if r.PaysFrom >= 0 {
			c.Printf(": compiling pays from step %.0f on", r.PaysFrom)
		}
	}
	c.Printf("\n")
	if d := r.Dataset; d != nil {
		c.Printf("%s of %s and %s: %s each, %s in all\n", cli.Plural(d.Operators, "operator"), cli.Plural(d.Steps, "step"),
			cli.Plural(d.Realizations, "realization"), cli.Brief(d.PerOperator), cli.Long(d.Seconds))
	}
}
